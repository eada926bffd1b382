"""What jobs hold and what they wait for: by this an executor that can add nodes knows how many it needs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from volvelle.live.status.view import JobState, Picture


@dataclass(frozen=True)
class Wish:
    """A job waits for so many GPUs. ``gpu_types``: that will do; none: any."""

    gpus: int
    gpu_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """GPUs. ``held``: by jobs, by the names of nodes; ``waiting``: a wish for each job, the oldest first."""

    held: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[Wish, ...] = ()


def demand(picture: Picture) -> Demand:
    """What there is in ``picture``."""
    held: Counter[str] = Counter()
    waiting = []
    for _, job in sorted(picture.jobs.items()):
        for node, gpus in job.grants:
            held[node] += len(gpus)
        if job.state is JobState.WAITING and not job.grants:
            waiting.append(Wish(int(job.gpus), tuple(job.request.get("gpu_types", ()))))
    return Demand(held, tuple(waiting))
