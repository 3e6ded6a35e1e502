"""Models that need no download: the config.json of each, in this folder, to be filled with seeded random weights.

Capacity and speed do not depend on what the weights are. The texts of such a model mean nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RANDOM = "random:"  # before a preset, or the path of a config.json
NAMES = ("tiny", "qwen2.5-0.5b")

PRESETS: dict[str, dict[str, Any]] = {
    name: json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8")) for name in NAMES
}
