"""Puts this folder on the path, for the brute forces that are written here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
