"""The drawn traces and rules of the simulator's tests serve here too; and the command line as a person calls it."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "serving"), str(Path(__file__).parent)]
