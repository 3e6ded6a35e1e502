"""How long steps of this machine take: batches of known shape, timed, and the step-time model fitted on them.

A source yields `BatchTime`s: a CSV, or an engine's own loop. There is one fit for all of them.
"""
