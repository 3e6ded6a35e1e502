"""The real inference engine: scheduling, cache managers, and the models they serve. It imports nothing of ours but `kernels`."""
