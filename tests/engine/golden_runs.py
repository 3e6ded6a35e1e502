"""Recordings of vLLM's scheduler as requests with literal token ids, and the engine's scheduler driven through them."""

from __future__ import annotations
