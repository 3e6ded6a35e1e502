"""vLLM beside the simulator: its own scheduler without a model, step by step, where it is installed."""
