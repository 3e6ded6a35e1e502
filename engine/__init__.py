"""The real inference engine: scheduler, cache managers, models. It imports nothing of ours but `kernels`."""
