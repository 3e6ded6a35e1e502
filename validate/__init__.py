"""The simulator and the engine beside each other, beside what was published, and beside this machine."""
