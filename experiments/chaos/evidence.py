"""Checks the properties of a run on the traces of its jobs, without the scheduler.

A process of an attempt traces when it was forked and every iteration, so it certainly ran from the first to
the last of these times; locks show the rest (`traced_job`). One that is killed before its first line is not
seen, and did no iteration.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CLOCK_TICK_SECONDS = 0.011
"""The time of a fork is known to the tick of the kernel."""


@dataclass
class Traced:
    """The trace of one process of an attempt. ``run``: what names the attempt besides its numbers."""

    job: int
    attempt: int
    rank: int
    name: str
    began: float
    last: float
    gpus: tuple[str, ...] = ()
    restored: int = 0
    total: int = 0
    every: int = 1
    iterations: list[int] = field(default_factory=list)
    unsaved: set[int] = field(default_factory=set)
    collisions: list[str] = field(default_factory=list)
    history: list[tuple[int, int]] | None = None
    run: str = ""

    def of_attempt(self, other: "Traced") -> bool:
        """Whether both are of one attempt."""
        return (self.job, self.attempt, self.run) == (other.job, other.attempt, other.run)

    @property
    def saved(self) -> int:
        """Iterations that were certainly in a checkpoint before the process died."""
        if self.history is not None:  # it left the loop, which saves at last
            return len(self.history)
        certain = [done for done in self.iterations[:-1] if done % self.every == 0]
        return max([self.restored, *(done for done in certain if done not in self.unsaved)])


def read_traces(folder: Path) -> list[Traced]:
    """The traces of all processes that wrote at least a line, in the order of their forks."""
    found = []
    for path in folder.glob("*.jsonl"):
        job, attempt, rank, _ = path.stem.split("-")
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        if not lines:
            continue
        times = [line["at"] for line in lines]
        one = Traced(int(job), int(attempt), int(rank), path.stem, min(times), max(times))
        for line in lines:
            if "began" in line:
                one.began, one.gpus = line["began"], tuple(line["gpus"])
                one.restored, one.total, one.every = line["restored"], line["total"], line["every"]
                one.run = line["run"]
            elif "collision" in line:
                one.collisions.append(line["collision"])
            elif "iteration" in line:
                one.iterations.append(line["iteration"])
            elif "unsaved" in line:
                one.unsaved.add(line["unsaved"])
            elif "history" in line:
                one.history = [(done, by) for done, by in line["history"]]
        found.append(one)
    return sorted(found, key=lambda one: one.began)


def gpus_held_twice(traces: Iterable[Traced]) -> Iterator[str]:
    """GPUs on which two processes lived at once."""
    of = defaultdict(list)
    for one in traces:
        yield from _collisions(one, "gpu-")
        for gpu in one.gpus:
            of[gpu].append(one)
    for gpu, users in of.items():
        yield from _overlaps(f"GPU {gpu}", users)


def jobs_run_twice(traces: Iterable[Traced]) -> Iterator[str]:
    """Jobs of which two attempts lived at once, and attempts that were started twice."""
    of = defaultdict(list)
    for one in traces:
        yield from _collisions(one, "job-")
        of[one.job].append(one)
    for job, runs in of.items():
        seen = set()
        for one in runs:
            if (one.attempt, one.run, one.rank) in seen:
                yield f"attempt {one.attempt} of job {job} was started twice as rank {one.rank}"
            seen.add((one.attempt, one.run, one.rank))
        latest: dict[int, Traced] = {}
        for one in runs:
            for other in latest.values():
                if not other.of_attempt(one) and other.last - one.began > _CLOCK_TICK_SECONDS:
                    yield f"job {job} ran twice at once: {other.name}, {one.name}"
            if one.rank not in latest or one.last > latest[one.rank].last:
                latest[one.rank] = one


def broken_histories(
    traces: Iterable[Traced], totals: Mapping[int, int], damaged: Mapping[int, int] | None = None
) -> Iterator[str]:
    """Jobs whose surviving history has not every iteration once. ``totals``: iterations by job.

    damaged: jobs of which a checkpoint was damaged, with the iterations in the one before.
    """
    of = defaultdict(list)
    for one in traces:
        of[one.job].append(one)
    for job, total in totals.items():
        leading = [one for one in of[job] if one.rank == 0 and one.total]
        yield from _chain(job, total, leading, (damaged or {}).get(job))
        for one in of[job]:
            for lead in leading:
                same = lead.of_attempt(one) and one.total
                if same and lead.restored != one.restored:
                    yield f"ranks of {one.name} began from {one.restored} and {lead.restored}"


def _chain(job: int, total: int, runs: Sequence[Traced], back_to: int | None) -> Iterator[str]:
    """What is wrong with a job's attempts, each of which goes on where a checkpoint of one before stood.

    back_to: from where it may go on once although more was saved.
    """
    survives: list[tuple[int, int]] = []
    safe = 0
    for one in runs:
        if one.iterations != list(range(one.restored + 1, one.restored + 1 + len(one.iterations))):
            yield f"{one.name} did not go on from {one.restored} in order: {one.iterations}"
        if one.restored < safe and one.restored == back_to:
            safe, back_to = one.restored, None
        if one.restored < safe:
            yield f"{one.name} began from {one.restored}, and {safe} were in a checkpoint before"
        if one.restored > len(survives):
            yield f"{one.name} began from {one.restored}, and only {len(survives)} were ever done"
        survives = survives[: one.restored] + [(done, one.attempt) for done in one.iterations]
        safe = max(safe, one.saved)
    checkpointed = next((one.history for one in reversed(runs) if one.history is not None), None)
    if [done for done, _ in survives] != list(range(1, total + 1)):
        yield f"job {job} should have done {total} iterations: {survives}"
    elif checkpointed != survives:
        yield f"job {job}'s checkpoint says {checkpointed}, its attempts {survives}"


def _collisions(one: Traced, kind: str) -> Iterator[str]:
    for name in one.collisions:
        if name.startswith(kind):
            yield f"{one.name} found another process alive that has {name}"


def _overlaps(what: str, users: Sequence[Traced]) -> Iterator[str]:
    latest = None
    for one in users:
        if latest is not None and latest.last - one.began > _CLOCK_TICK_SECONDS:
            yield f"{what} was held by two: {latest.name}, {one.name}"
        if latest is None or one.last > latest.last:
            latest = one
