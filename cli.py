"""The `pagesim` command: options in, one library call, a table or JSON out. Nothing is computed here.

Libraries load inside the command bodies, so that `pagesim --help` answers at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated, Any

import typer

from pagesim import __version__
from pagesim.commands import (
    bench,
    bench_engine,
    calibrate,
    capacity,
    compare,
    doctor,
    frontier,
    generate,
    kernel,
    plot,
    quiz,
    run,
    serve,
    sweep,
    trace,
    trace_generate,
    validate,
)
from pagesim.sim.errors import PagesimError

ClickException: Any = typer.BadParameter.__mro__[2]  # typer carries a click of its own, or uses the installed one

INTERRUPTED = 130  # by Ctrl-C: what a shell gives, and typer returns

app = typer.Typer(
    name="pagesim",
    help="What each way of placing a KV cache costs: put allocators through one trace, see what they waste and refuse.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

trace.app.command("generate")(trace_generate.generate)
bench.app.command("engine")(bench_engine.engine)
app.add_typer(trace.app, name="trace")
app.add_typer(bench.app, name="bench")
app.add_typer(kernel.app, name="kernel")
app.add_typer(validate.app, name="validate")
app.command("capacity")(capacity.capacity)
app.command("run")(run.run)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("plot")(plot.plot)
app.command("quiz")(quiz.quiz)
app.command("sweep")(sweep.sweep)
app.command("frontier")(frontier.frontier)
app.command("compare")(compare.compare)
app.command("generate")(generate.generate)
app.command("serve")(serve.serve)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pagesim {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def _drop_output() -> None:
    """What is left in the buffer of a stdout that takes no more, so that closing it does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line. A caller's mistake is one line on stderr and exit status 2, never a traceback."""
    try:
        status = app(standalone_mode=False)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        sys.stdout.flush()  # or it fails when the interpreter ends, beyond our reach
    except PagesimError as error:
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))  # a name with a line's end in it
        print(f"error: {line}", file=sys.stderr)
        status = 2
    except ClickException as error:
        message = error.format_message()
        print(message if "\n" in message else f"error: {message}", file=sys.stderr)
        status = 2
    except (MemoryError, RecursionError, OverflowError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        print(f"error: too large or too deep to work with ({reason})", file=sys.stderr)
        status = 2
    except OSError as error:  # the output goes to a full disk
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}cannot be read or written ({error.strerror or error})", file=sys.stderr)
        status = 2
        _drop_output()
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)
