"""An OpenAI-compatible server over one engine: HTTP in an event loop, the engine in a thread of its own.

`app` are the routes, `worker` is the thread, `protocol` and `answers` are the JSON that comes in and goes out, `run`
starts and ends it. Left out: keys and TLS, tools, log probabilities, images.
"""
