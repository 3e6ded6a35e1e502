"""The child of the capacity probe: `python -m pagesim.validate.capacity.work`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagesim.validate.child import Advance, answer


def _work(question: dict[str, Any], advance: Advance) -> Any:
    from pagesim.engine.config import EngineConfig
    from pagesim.validate.capacity.probe import probe
    from pagesim.validate.capacity.start import start

    config = EngineConfig(**question["config"])
    assert config.max_model_len is not None
    if question["work"] == "probe":
        return asdict(probe(config, config.max_model_len, advance))
    found = start(config, question["lengths"], question["books_bytes"], advance)
    if isinstance(found, str):
        return {"refused": found}
    started, held = found
    return {"started": asdict(started), "held": [asdict(each) for each in held]}


if __name__ == "__main__":
    answer(_work)
