"""Public traces by name: where each one is, and bringing it here whole and unchanged, or not at all.

From its project's own address, over https, into a folder of the user's; what arrives must have the size and SHA-256
that the table of known traces gives.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.files import atomic

BLOCK_BYTES = 2**16
TIMEOUT_S = 30.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """One public file: what it is, in which format, under which licence, where, and how to know it."""

    name: str
    title: str
    format: str
    license: str
    size_bytes: int
    sha256: str
    url: str

    @property
    def file_name(self) -> str:
        """Name of the file here: the trace's own, and the ending of the public one."""
        return self.name + Path(urllib.parse.urlsplit(self.url).path).suffix


def public_traces() -> dict[str, PublicTrace]:
    """Every public trace that is known, by name."""
    table = tomllib.loads(resources.files("pagesim.sim").joinpath("public_traces.toml").read_text("utf-8"))
    return {name: PublicTrace(name, **entry) for name, entry in table.items()}


def find_public_trace(name: str) -> PublicTrace:
    """The trace of that name. Raises UsageError, listing the names, if there is none."""
    known = public_traces()
    if name not in known:
        raise UsageError(f"no public trace is called {name!r}; accepted: {', '.join(known)}")
    return known[name]


def cache_folder() -> Path:
    """Where fetched traces are kept: `$XDG_CACHE_HOME/pagesim/traces`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "pagesim" / "traces"


def fetch(trace: PublicTrace, folder: Path, on_progress: Callable[[int], None] | None = None) -> tuple[Path, bool]:
    """(path of the file, whether it had to be fetched). `on_progress` is told how many bytes came since last time.

    A file that is already there is kept if it is the right one. Raises TraceError if the download fails or is not the
    file that was meant, UsageError if it cannot be put into `folder`; nothing is left behind then.
    """
    path = folder / trace.file_name
    if path.exists():
        if path.is_file() and _sha256(path) == trace.sha256:
            return path, False
        raise UsageError(f"{path} is there already and is not {trace.name}; remove it, or choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made ({error.strerror})") from error
    with atomic(path) as temporary, temporary.open("wb") as file:
        _download(trace, file, on_progress)
    return path, True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(trace: PublicTrace, file: IO[bytes], on_progress: Callable[[int], None] | None) -> None:
    digest, came = hashlib.sha256(), 0
    try:
        with _opener().open(_checked(trace.url), timeout=TIMEOUT_S) as answer:
            while came <= trace.size_bytes and (block := answer.read(BLOCK_BYTES)):
                digest.update(block)
                file.write(block)
                came += len(block)
                if on_progress:
                    on_progress(len(block))
    except urllib.error.HTTPError as error:
        error.close()
        raise TraceError(f"{trace.url}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise TraceError(f"{trace.url}: cannot be reached ({_reason(error.reason)})") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise TraceError(f"{trace.url}: broke off after {came:,} bytes ({_reason(error)})") from error
    if came != trace.size_bytes:
        how = f"ended after {came:,} of" if came < trace.size_bytes else "did not end after"
        raise TraceError(f"{trace.url}: {how} {trace.size_bytes:,} bytes; nothing was kept")
    if digest.hexdigest() != trace.sha256:
        raise TraceError(
            f"{trace.url}: SHA-256 is {digest.hexdigest()}; accepted: {trace.sha256}, the file that was meant"
        )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows an answer to another address only where a first request may go too."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        try:
            return super().redirect_request(req, fp, code, msg, headers, _checked(newurl))
        except TraceError:
            fp.close()
            raise


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_SafeRedirects)


def _checked(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return url
    raise TraceError(f"{url}: accepted: an https address")


def _reason(error: object) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
