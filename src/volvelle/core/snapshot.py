"""A snapshot: how things stand, as one JSON document, from which a scheduler goes on.

It holds what the state machine holds, except what policy and estimator remember of their own: like after a
`Recomposed`, these begin anew. (A journal loses nothing; a snapshot is small and says only where one is.)
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from volvelle.core.columns import Column
from volvelle.core.decision import decode_array, encode_array
from volvelle.core.demand import Amounts
from volvelle.core.events import JobSubmitted
from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.core.standing import Aside, Neighbour
from volvelle.model.cluster import Node, NodeState
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem

FORMAT = 1


class JobStanding(NamedTuple):
    """One admitted job: what is known of it, its columns, its GPUs, how often it failed."""

    spec: JobSpec
    believed: Truth
    columns: tuple[float | None, ...]
    """By `Column`, None for NaN."""
    slots: tuple[int, ...]
    failures: int

    @property
    def values(self) -> tuple[float, ...]:
        """The columns as they were."""
        return tuple(math.nan if value is None else value for value in self.columns)

    @property
    def number(self) -> int:
        """The job's number."""
        return int(self.values[Column.NUMBER])


class StopStanding(NamedTuple):
    """A checkpoint that is being written: by whose attempt, until when, on what."""

    number: int
    attempt: int
    free_at: float
    gpus: float
    gpu_type: int
    slots: tuple[int, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state at ``now``. ``held``: jobs that their users hold; ``held_at_the_door``: before admission.

    sharing: with whom jobs share their GPUs. amounts: CPUs and memory per GPU, where a policy divides them.
    """

    header: Header
    now: float
    nodes: tuple[tuple[Node, NodeState], ...]
    jobs: tuple[JobStanding, ...]
    held: tuple[JobStanding, ...]
    door: tuple[JobSubmitted, ...]
    held_at_the_door: tuple[JobSubmitted, ...]
    stopping: tuple[StopStanding, ...]
    sharing: dict[int, Neighbour]
    amounts: dict[int, Amounts]
    format: int = FORMAT

    @classmethod
    def of(cls, scheduler: Scheduler, volvelle: str) -> "Snapshot":
        """How things stand in ``scheduler``; ``volvelle`` is the version."""
        resources, matrix = scheduler.resources, scheduler.jobs.matrix
        aside = sorted(scheduler.aside.items())
        jobs = []
        for number, known in sorted(scheduler.known.items()):
            values = matrix[: Column.COUNT, scheduler.jobs.row_of[number]].tolist()
            slots = scheduler.slots.get(number)
            jobs.append(
                JobStanding(
                    known.spec,
                    known.believed,
                    _storable(values),
                    () if slots is None else tuple(slots.tolist()),
                    scheduler.failures[number],
                )
            )
        return cls(
            header=Header(
                volvelle=volvelle,
                cluster=scheduler.cluster,
                composition=scheduler.composition.written,
                overheads=scheduler.overheads.model_dump(),
                seed=scheduler.seed,
            ),
            now=scheduler.now,
            nodes=tuple(zip(resources.nodes, resources.state, strict=True)),
            jobs=tuple(jobs),
            held=tuple(
                JobStanding(*one.known, _storable(one.values), (), one.failures)
                for _, one in aside
                if isinstance(one, Aside)
            ),
            door=scheduler.at_the_door,
            held_at_the_door=tuple(one for _, one in aside if isinstance(one, JobSubmitted)),
            stopping=tuple(
                StopStanding(
                    *key, stop.free_at, stop.gpus, stop.gpu_type, tuple(stop.slots.tolist())
                )
                for key, stop in scheduler.stopping.items()
            ),
            sharing=scheduler.sharing.copy(),
            amounts=scheduler.amounts.copy(),
        )

    def scheduler(self) -> Scheduler:
        """A scheduler that stands there."""
        scheduler = self.header.scheduler()
        scheduler.take_over(self)
        return scheduler

    def encode(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self, enc_hook=encode_array)


def _storable(values: Sequence[float]) -> tuple[float | None, ...]:
    """JSON has no NaN; and where a job's rates stand in a table is nobody else's business."""
    columns = [None if math.isnan(value) else value for value in values]
    columns[Column.CURVE] = -1.0
    return tuple(columns)


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file. Raises `Problem` naming it."""
    try:
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot, dec_hook=decode_array)
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}", mend="check the path") from None
    except msgspec.DecodeError as error:
        raise Problem(
            f"{path} is no snapshot: {error}", mend="take one from /v1/snapshot"
        ) from None
    if snapshot.format > FORMAT:
        raise Problem(
            f"{path} is a snapshot of format {snapshot.format}, this Volvelle reads up to {FORMAT}",
            mend="install a newer Volvelle",
        )
    return snapshot
