"""pagesim: what each way of placing a KV cache costs, and the proof of it."""

__version__ = "0.1.0"
