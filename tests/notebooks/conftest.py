"""Makes `build`, `grade` and `lite` of notebooks/ importable, and `browser` here."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "notebooks")]
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
