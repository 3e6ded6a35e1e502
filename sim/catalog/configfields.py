"""The fields of a Hugging Face config.json, read with checks: a fact that is missing is an error that names it.

A field that is null counts as absent, as it does in transformers. Multimodal configurations nest the language model:
its fields come first, and those around it fill the gaps (torch_dtype often stands outside).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagesim.sim.errors import GeometryError

NESTED = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """`fields` of the language model, and `source`: what to call the file in messages."""

    fields: dict[str, Any]
    source: str

    @property
    def model_type(self) -> str:
        """The architecture's name, or "" where none is given."""
        return str(self.fields.get("model_type") or "")

    def get(self, *names: str) -> Any | None:
        """The first of `names` that is set, whatever its type."""
        return next((self.fields[name] for name in names if self.fields.get(name) is not None), None)

    def has(self, name: str) -> bool:
        """Whether the field stands in the file at all, null included."""
        return name in self.fields

    def whole(self, *names: str) -> int:
        """A whole number >= 1 under the first of `names` that is set. Raises GeometryError if none is."""
        value = self.optional_whole(*names)
        if value is None:
            raise self.missing(names[0])
        return value

    def optional_whole(self, *names: str) -> int | None:
        """As `whole`, or None if none of `names` is set."""
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise self.wrong(name, value, "a whole number, 1 or more")
                return value
        return None

    def listed(self, name: str) -> list[Any] | None:
        """The list under `name`, or None if it is absent or empty. Raises GeometryError if it is no list."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, value, "a list with one entry per layer")
        return value or None

    def counts(self, name: str) -> list[int] | None:
        """The list of whole numbers >= 0 under `name`, or None if it is absent or empty. Raises GeometryError."""
        entries = self.listed(name)
        for entry in entries or ():
            if not isinstance(entry, int) or entry < 0:
                raise self.wrong(f"an entry of {name}", entry, "a whole number, 0 or more")
        return entries

    def count(self, name: str) -> int:
        """A whole number >= 0. Raises GeometryError if it is absent."""
        value = self.fields.get(name)
        if value is None:
            raise self.missing(name)
        if not isinstance(value, int) or value < 0:
            raise self.wrong(name, value, "a whole number, 0 or more")
        return value

    def nested(self, name: str) -> ConfigFields | None:
        """The fields of an object inside, or None if there is none."""
        value = self.fields.get(name)
        return ConfigFields(value, f"{self.source}: {name}") if isinstance(value, dict) else None

    def block_attention(self, index: int) -> ConfigFields | None:
        """What `block_configs` of a searched architecture says of one layer's attention; None without such a list."""
        blocks = self.listed("block_configs")
        if blocks is None:
            return None
        block = blocks[index] if index < len(blocks) else None
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise self.wrong(f"block_configs[{index}]", block, "an object with attention in it")
        return ConfigFields(attention, f"{self.source}: block_configs[{index}]")

    def missing(self, name: str) -> GeometryError:
        """The error to raise for a fact that is not there."""
        return GeometryError(f"{self.source}: {name} is missing, and pagesim does not guess it")

    def wrong(self, name: str, value: Any, accepted: str) -> GeometryError:
        """The error to raise for a fact that cannot be."""
        return GeometryError(f"{self.source}: {name} is {value!r}; accepted: {accepted}")


def config_fields(config: Any, source: str) -> ConfigFields:
    """Fields of a parsed config.json. Raises GeometryError if it is not an object."""
    if not isinstance(config, dict):
        raise GeometryError(f"{source}: holds no JSON object; accepted: a Hugging Face config.json")
    for name in NESTED:
        if isinstance(config.get(name), dict):
            inner = {key: value for key, value in config[name].items() if value is not None}
            return ConfigFields({**config, **config[name], **inner}, source)
    return ConfigFields(config, source)


def read_config_fields(path: Path) -> ConfigFields:
    """Fields of a config.json, or of the one in a folder. Raises GeometryError if there is none or it is no JSON."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GeometryError(f"{file}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise GeometryError(f"{file}: is no JSON ({error}); accepted: a Hugging Face config.json") from error
    return config_fields(config, str(file))
