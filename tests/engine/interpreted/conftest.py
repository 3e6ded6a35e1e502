"""Engines on the Triton backend with CPU tensors. Triton reads TRITON_INTERPRET when it is imported, so these have a
process of their own: `test_interpreter.py`, one folder up, starts it, or by hand

    TRITON_INTERPRET=1 pytest tests/engine/interpreted
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
