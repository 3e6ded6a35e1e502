"""The discrete-event model: traces, workloads, geometry, allocators, and the placement experiment.

Import from the submodules (`from pagesim.sim.trace import Trace`); this file stays empty so that
`pagesim --help` does not load numpy.
"""
