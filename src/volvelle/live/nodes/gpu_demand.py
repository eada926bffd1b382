"""GPU demand: what jobs hold and wait for. Executors that can add nodes size the cluster by it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from volvelle.live.status.view import JobState, StatusView


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits for ``gpus``. ``gpu_types``: types that it accepts; empty: any."""

    gpus: int
    gpu_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuDemand:
    """``held``: GPUs held by jobs, by node name. ``waiting``: waiting jobs, the oldest first."""

    held: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingJob, ...] = ()


def gpu_demand(view: StatusView) -> GpuDemand:
    """The GPU demand in ``view``."""
    held: Counter[str] = Counter()
    waiting = []
    for _, job in sorted(view.jobs.items()):
        for node, gpus in job.grants:
            held[node] += len(gpus)
        if job.state is JobState.WAITING and not job.grants:
            waiting.append(WaitingJob(int(job.gpus), tuple(job.request.get("gpu_types", ()))))
    return GpuDemand(held, tuple(waiting))
