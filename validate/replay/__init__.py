"""One trace through the simulator and through the engine, step by step, and where they differ."""
