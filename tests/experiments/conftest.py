import pytest

from pagesim.sim.experiments.catalogue import EXPERIMENTS, experiment


@pytest.fixture(scope="session")
def done():
    """Every experiment with its rows, by name."""
    experiments = {name: experiment(name) for name in EXPERIMENTS}
    return {name: (one, one.run()) for name, one in experiments.items()}


@pytest.fixture(scope="session")
def rows(done):
    """Every row, by (experiment, figure, what)."""
    return {(name, row.figure, row.what): row for name, (_, rows) in done.items() for row in rows}
