"""Recordings of vLLM's scheduler as requests with literal token ids, and the engine's scheduler driven through them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from stand_ins import Tokens, drive
from pagesim.engine.cache_manager import make_cache
