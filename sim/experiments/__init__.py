"""The note's experiments by name, published figures beside ours, and the step-time profile that is fitted on them.

Import from the submodules; `run_experiment` in `catalogue` does one experiment.
"""
