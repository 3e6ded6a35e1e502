"""Where the points of a sweep are run: here, or on a cluster that is there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.sim.sweep.workers import Workers


@dataclass(frozen=True, slots=True)
class Where:
    """At most one of: so many processes here, the address of a Dask scheduler, that of a Ray cluster."""

    jobs: int | None = None
    cluster: str | None = None
    ray: str | None = None

    def workers(self) -> Workers:
        """What runs points. Raises UsageError if more than one place is named, or it cannot be reached."""
        named = {"--jobs": self.jobs, "--cluster": self.cluster, "--ray": self.ray}
        said = [name for name, value in named.items() if value is not None]
        if len(said) > 1:
            raise UsageError(f"{' and '.join(said)} given; accepted: one of {', '.join(named)}")
        if self.cluster is not None:
            from pagesim.sim.sweep.dask_workers import dask_cluster

            return dask_cluster(self.cluster)
        if self.ray is not None:
            from pagesim.sim.sweep.ray_workers import ray_cluster

            return ray_cluster(self.ray)
        from pagesim.sim.sweep.workers import local

        return local(self.jobs)
