"""Paged attention in Triton, its contiguous twin, and the price of the table.

Every kernel comes three times: the Triton body, a typed wrapper that checks what it is given, and a plain torch
reference, which is also the CPU backend of the engine (`cpu_decode`, `cpu_prefill`, `cpu_cache`). Beside them, in torch
alone, what else a decoder computes (`packed`, `linear`, `rotary`, `sampling`, `decode_graphs`). This package imports
nothing else of ours, and importing it loads neither torch nor triton.
"""
