"""A snapshot: a scheduler at one moment, as one JSON document, from which it goes on.

It holds what the state machine holds, except what policy and estimator remember of their own: like after a
`Recomposed`, these begin anew. (A journal loses nothing; a snapshot is small and says only where one is.)
"""

import math
from pathlib import Path
from typing import NamedTuple

import msgspec

from volvelle.core.beliefs import table_of
from volvelle.core.decision import Promise, decode_array, encode_array
from volvelle.core.dependencies import restore
from volvelle.core.dependents import Dependent
from volvelle.core.entry import HeldJob, enter, queue_submission, waiting_for_admission
from volvelle.core.events import JobSubmitted
from volvelle.core.forward.expected import expect
from volvelle.core.forward.gpus import free_later, hold_slot
from volvelle.core.forward.jobs import hold, rank
from volvelle.core.forward.waiting import wait_no_more
from volvelle.core.journal import Header
from volvelle.core.parts import KnownJob
from volvelle.core.promises import expect_promises
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    DIRTY,
    EXPECTED,
    KNOWN_COLUMNS,
    ORDER,
    QUEUES,
    RELEASES,
    STOPPED,
    WAITING,
    Jobs,
)
from volvelle.model.cluster import Node, NodeState
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem

FORMAT = 5

_KEPT = tuple(
    name
    for name in Jobs.float_columns[:KNOWN_COLUMNS]
    if not name.startswith("tru") and name not in ("table", "curve")
)
"""Columns that a snapshot keeps: not the truth, nor where in tables of rates a job is."""
_EMPTY = {"true_work": math.nan, "true_unit_rate": math.nan, "true_table": -1.0, "curve": -1.0}


class SnapshotJob(NamedTuple):
    """One job: what is known of it, its columns by `_KEPT` (None for NaN), its GPUs."""

    spec: JobSpec
    believed: Truth
    columns: tuple[float | None, ...]
    slots: tuple[int, ...]

    @property
    def number(self) -> int:
        """The job's number."""
        return int(self.columns[0] or 0)

    def values(self, scheduler: Scheduler) -> dict[str, float]:
        """All its columns by name."""
        kept = zip(_KEPT, self.columns, strict=True)
        values = {name: math.nan if value is None else value for name, value in kept}
        return values | _EMPTY | {"table": float(table_of(scheduler, self.believed))}


class Stopping(NamedTuple):
    """A checkpoint that is being written: by whose attempt, until when."""

    number: int
    attempt: int
    free_at: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state at ``now``. aside: submissions that wait for other jobs.

    held: jobs that their users hold; held_submissions: before they were admitted. queue: submissions that
    wait to be admitted. late_slots: GPUs that come free later, and when; releases: likewise where they are
    only counted (time, GPUs, type, number of the job that waits for them or -1).
    """

    header: Header
    now: float
    nodes: tuple[tuple[Node, NodeState], ...]
    jobs: tuple[SnapshotJob, ...]
    held: tuple[SnapshotJob, ...]
    queue: tuple[JobSubmitted, ...]
    held_submissions: tuple[JobSubmitted, ...]
    aside: tuple[Dependent, ...] = ()
    stopping: tuple[Stopping, ...]
    late_slots: tuple[tuple[int, float], ...]
    releases: tuple[tuple[float, float, float, float], ...]
    neighbours: dict[int, str]
    promises: tuple[Promise, ...]
    format: int = FORMAT

    @classmethod
    def of(cls, scheduler: Scheduler, volvelle: str) -> "Snapshot":
        """Where ``scheduler`` is; ``volvelle`` is the version."""
        s, resources = scheduler.state, scheduler.resources
        rows = sorted(scheduler.known.rows.items())
        held = sorted(scheduler.held.items())
        expected = range(s.count[EXPECTED])
        return cls(
            header=Header(
                volvelle=volvelle,
                cluster=scheduler.cluster,
                composition=scheduler.composition.written,
                overheads=scheduler.overheads.model_dump(),
                seed=scheduler.seed,
            ),
            now=scheduler.now,
            nodes=tuple(zip(resources.nodes, resources.node_states, strict=True)),
            jobs=tuple(
                SnapshotJob(
                    *scheduler.known[number],
                    tuple(_storable(float(getattr(s.jobs, name)[row])) for name in _KEPT),
                    tuple(scheduler.slots_of(row)),
                )
                for number, row in rows
            ),
            held=tuple(
                SnapshotJob(*one.known, tuple(_storable(one.value(name)) for name in _KEPT), ())
                for _, one in held
                if isinstance(one, HeldJob)
            ),
            queue=tuple(waiting_for_admission(scheduler)),
            held_submissions=tuple(one for _, one in held if isinstance(one, JobSubmitted)),
            aside=tuple(
                one._replace(place=None) for _, one in sorted(scheduler.dependents.aside.items())
            ),
            stopping=tuple(
                Stopping(int(s.expected.of[i]), int(s.expected.stamp[i]), float(s.expected.at[i]))
                for i in expected
                if s.expected.kind[i] == STOPPED
            ),
            late_slots=tuple(
                (slot, float(time))
                for slot, time in enumerate(s.slots.free_at)
                if time > scheduler.now
            ),
            releases=tuple(
                (
                    float(s.releases.at[i]),
                    float(s.releases.gpus[i]),
                    float(s.releases.type[i]),
                    float(s.releases.claim[i]),
                )
                for i in range(s.count[RELEASES])
            ),
            neighbours=dict(sorted(scheduler.neighbours.items())),
            promises=tuple(one for _, one in sorted(scheduler.promises.items())),
        )

    def scheduler(self) -> Scheduler:
        """A scheduler that is there."""
        scheduler = self.header.scheduler()
        scheduler.now = self.now
        for node, state in self.nodes:
            scheduler.resources.change(node.name, state, node)
        scheduler.eligibility = scheduler.judge_nodes()
        scheduler.neighbours = self.neighbours
        scheduler.promises = {given.number: given for given in self.promises}
        expect_promises(scheduler)
        for job in self.jobs:
            scheduler.make_room()
            _restore(scheduler, job)
        for job in self.held:
            values = job.values(scheduler)
            columns = tuple(
                values[name] for name in Jobs.float_columns[:KNOWN_COLUMNS] if name in values
            )
            scheduler.held[job.number] = HeldJob(columns, KnownJob(job.spec, job.believed))
        scheduler.held.update((event.number, event) for event in self.held_submissions)
        for event in self.queue:
            queue_submission(scheduler, event)
        for dependent in self.aside:
            restore(scheduler, dependent)
        s = scheduler.state
        for stop in self.stopping:
            row = scheduler.row_of(stop.number)
            expect(s, stop.free_at, STOPPED, stop.number, row or 0, stop.attempt, math.nan)
            if row is not None:
                s.jobs.written[row] = stop.free_at
        for slot, time in self.late_slots:
            s.slots.free_at[slot] = time
        for release in self.releases:
            free_later(s, *release)
        scheduler.count_capacity()
        s.count[DIRTY] = 1
        return scheduler

    def encode(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self, enc_hook=encode_array)


def _restore(scheduler: Scheduler, job: SnapshotJob) -> None:
    """Let a job be in the system as it was."""
    s, values = scheduler.state, job.values(scheduler)
    held, gpu_type = values.pop("held"), values.pop("type")
    values |= {"held": 0.0, "type": -1.0, "truly_asked": 0.0}
    columns = [values[name] for name in Jobs.float_columns[:KNOWN_COLUMNS]]
    enter(scheduler, columns, KnownJob(job.spec, job.believed))
    row = scheduler.row_of(job.number)
    assert row is not None
    if held > 0.0:
        s.count[WAITING] -= 1
        if scheduler.rules.decides == ORDER:
            wait_no_more(s, row)
        hold(s, row, held, gpu_type)
        if scheduler.rules.decides <= QUEUES:
            rank(s, row)
        last = -1
        for slot in job.slots if scheduler.resources.named else ():
            last = hold_slot(s, row, last, slot)


def _storable(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


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
    if snapshot.format != FORMAT:
        raise Problem(
            f"{path} is a snapshot of format {snapshot.format}, this Volvelle reads format {FORMAT}",
            mend="take one anew from /v1/snapshot, or use the Volvelle that wrote it",
        )
    return snapshot
