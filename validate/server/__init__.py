"""A running OpenAI-compatible server under a trace, in real time, beside what the simulator predicts of it."""
