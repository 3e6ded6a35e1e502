"""Puts this folder on the import path: tests here share `without_model` and `recordings`, which are no tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
