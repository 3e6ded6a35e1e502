"""Serving: what a real engine does when the pool runs out. Requests wait, grow by blocks, are preempted and come back.

The rules are those of vLLM 0.29's scheduler. Import from the submodules; `serve` in `server` runs a trace to its end.
"""
