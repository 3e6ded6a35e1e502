"""A result as a file: what both kinds of runs have in common when they are printed, saved and loaded back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from pagesim.sim.errors import UsageError
from pagesim.sim.files import write_text
from pagesim.sim.jsontext import dumps, rounded

FILE_NAME = "run.json"


class SavedResult:
    """A dataclass with fields `schema`, `versions` and `allocators`, in the shape of its JSON.

    `SCHEMA` names its form; `FOR_PICTURES` are the fields of an allocator that only pictures need. Numbers are rounded
    as JSON is (`jsontext`), so that a result saved and loaded equals itself, on any machine.
    """

    __slots__ = ()
    SCHEMA: ClassVar[str]
    FOR_PICTURES: ClassVar[tuple[str, ...]]

    @classmethod
    def of_parts(cls, **parts: Any) -> Self:
        """From its fields, `schema` apart; numbers of numpy are taken too."""
        return msgspec.convert(rounded(msgspec.to_builtins({"schema": cls.SCHEMA, **parts})), cls)

    def document(self) -> dict[str, Any]:
        """What `--json` prints: all but versions and what only pictures need."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        del whole["versions"]
        for allocator in whole["allocators"].values():
            for name in self.FOR_PICTURES:
                del allocator[name]
        return whole

    def save(self, folder: Path) -> Path:
        """Write FILE_NAME into `folder`, made if need be. Raises UsageError if it cannot be."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made a folder ({error.strerror})") from error
        write_text(folder / FILE_NAME, dumps(msgspec.to_builtins(self)) + "\n")
        return folder / FILE_NAME

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote: the file, or its folder. Raises UsageError if it is not such a result."""
        file, found = schema_of(path)
        if found != cls.SCHEMA:
            raise UsageError(f"{file}: schema {found}; accepted: {cls.SCHEMA}")
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except msgspec.MsgspecError as error:
            raise UsageError(f"{file}: not a saved run ({error})") from error


def load_any(path: Path | str, kinds: Sequence[type[Any]]) -> Any:
    """A saved result of whichever of these kinds it is. Raises UsageError if it is none of them."""
    file, found = schema_of(path)
    for kind in kinds:
        if found == kind.SCHEMA:
            return kind.load(file)
    raise UsageError(f"{file}: schema {found}; accepted: {', '.join(kind.SCHEMA for kind in kinds)}")


def file_of(path: Path | str) -> Path:
    """The file of a saved result that is named by it, or by its folder."""
    path = Path(path)
    return path / FILE_NAME if path.is_dir() else path


def schema_of(path: Path | str) -> tuple[Path, str]:
    """The file of a saved result, and the form that it says it has. Raises UsageError if it is none."""
    file = file_of(path)
    try:
        return file, msgspec.json.decode(file.read_bytes(), type=_Schema).schema
    except FileNotFoundError as error:
        if file == Path(path):
            raise UsageError(f"{file}: cannot be read ({error.strerror})") from error
        raise UsageError(f"{path}: has no {FILE_NAME}; accepted: a folder that `pagesim run --out` wrote") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{file}: not a saved run ({error})") from error


class _Schema(msgspec.Struct):
    schema: str
