"""Puts this folder on the import path: tests here share `slot_models`, which is no test itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
