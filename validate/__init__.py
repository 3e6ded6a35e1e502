"""Replays one trace through the model and the machine. Nothing is here yet."""
