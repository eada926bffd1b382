"""Volvelle's own journal: the jobs of a run that was simulated or was live, each with the work it really was.

Where the truth was disclosed to the scheduler it is in the journal. Elsewhere, as on a live cluster, a job's
work is what it did: the time it held GPUs, less what its starts were to cost and what failures lost, at the
rates it declares. So yesterday can be had again under another policy.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from volvelle.core.events import JobChanged, JobSubmitted, NodeChanged
from volvelle.core.journal import Entry, entry_decoder, read_header
from volvelle.core.user_changes import resubmitted
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.metrics.recorder import Recorder, recorded
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.node import Node
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import LINEAR
from volvelle.workload.readers.base import TraceFormat, formats
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.text import Sample, text_lines


class Happened(msgspec.Struct, frozen=True):
    """A job of the journal. ``pieces``: (seconds, GPUs, their type, whether resized) it held, in order."""

    line: int
    event: JobSubmitted
    status: JobStatus
    pieces: tuple[tuple[float, float, str, bool], ...]
    lost_gpu_seconds: float


@formats.register
class JournalTrace(TraceFormat):
    """A job for each submission."""

    name = "journal"
    title = "Volvelle's journal: the jobs of a simulated or live run, as long as they really took"
    main_table = ("journal.jsonl",)

    def matches(self, sample: Sample) -> float:
        """Sure where the first line is a header."""
        return 1.0 if sample.head.startswith(b'{"volvelle":') else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """The jobs that did something; the others are counted with the reason."""
        lines = text_lines(path, ledger)
        header = read_header(next(lines), path)
        recorder = Recorder(header.cluster)
        submitted: list[tuple[int, JobSubmitted]] = []

        nodes = {node.name: node for node in header.cluster.nodes}

        def noted() -> Iterator[Entry]:
            for line, entry in _entries(lines, ledger):
                for event in entry.events:
                    if isinstance(event, NodeChanged) and event.node is not None:
                        nodes.setdefault(event.name, event.node)
                note_declarations(submitted, line, entry)
                yield entry

        try:
            for _ in recorded(recorder, noted()):
                pass
            outcomes = recorder.outcomes()
        except (LookupError, ValueError, TypeError) as error:
            raise Problem(
                f"{path.name} contradicts itself ({type(error).__name__}: {error})",
                mend="take a journal that is whole",
            ) from None
        overheads = Overheads.model_validate(header.overheads)
        yield from jobs_as_they_were(submitted, outcomes, nodes.values(), overheads, ledger)


def note_declarations(submitted: list[tuple[int, JobSubmitted]], line: int, entry: Entry) -> None:
    """Add the submissions of ``entry``; of a job that its user changed the last declaration holds."""
    for event in entry.events:
        if isinstance(event, JobSubmitted):
            submitted.append((line, event))
        elif isinstance(event, JobChanged):
            place = max(i for i, (_, job) in enumerate(submitted) if job.number == event.number)
            first, job = submitted[place]
            submitted[place] = first, resubmitted(job, event)


def jobs_as_they_were(
    submitted: Sequence[tuple[int, JobSubmitted]],
    outcomes: Outcomes,
    nodes: Iterable[Node],
    overheads: Overheads,
    ledger: Ledger,
) -> Iterator[Job]:
    """The jobs of the submissions in ``submitted``, each with its line, as long as ``outcomes`` say.

    ``nodes``: all there were, in the order in which they came. Jobs that did nothing go to ``ledger``.
    """
    kinds = [node.gpu_type for node in nodes for _ in range(int(node.gpus))]
    happened = _happened(submitted, outcomes, kinds)
    return each_job(happened, lambda one: _job(one, overheads, ledger), ledger)


def _entries(lines: Iterator[str], ledger: Ledger) -> Iterator[tuple[int, Entry]]:
    """The entries with their lines; what cannot be read goes to the ledger, as do the jobs it lacks."""
    decoder = entry_decoder()
    for number, line in enumerate(lines, start=2):
        try:
            entry = decoder.decode(line)
        except msgspec.DecodeError:
            ledger.row()
            ledger.broken(Broken("unreadable entry", value=line.strip()), number)
            continue
        for event in entry.events:
            if isinstance(event, JobSubmitted):
                ledger.row()
        yield number, entry


def _happened(
    submitted: Sequence[tuple[int, JobSubmitted]], outcomes: Outcomes, kinds: Sequence[str]
) -> Iterator[Happened]:
    """``kinds``: the types of all GPUs, by their cluster-wide numbers."""
    segments = outcomes.segments
    first = segments.slot_offsets.tolist()
    by_job = np.argsort(segments.job, kind="stable")
    bounds = np.searchsorted(segments.job[by_job], np.arange(len(submitted) + 1))
    for number, (line, event) in enumerate(submitted):
        held = by_job[bounds[number] : bounds[number + 1]]
        start, end = segments.start[held].tolist(), segments.end[held].tolist()
        resized = [False, *(one == other for one, other in zip(end, start[1:], strict=False))]
        seconds = (segments.end[held] - segments.start[held]).tolist()
        on = [
            kinds[segments.slots[first[at]]] if first[at] < first[at + 1] else event.spec.first_type
            for at in held.tolist()
        ]
        pieces = tuple(zip(seconds, segments.gpus[held].tolist(), on, resized, strict=False))
        lost = float(outcomes.lost_gpu_seconds[number])
        yield Happened(line, event, JobStatus(outcomes.status[number]), pieces, lost)


def _job(happened: Happened, overheads: Overheads, ledger: Ledger) -> Job:
    """The job as it was. Raises `Unfit` where it did nothing."""
    spec, truth = happened.event.spec, happened.event.truth
    if truth is not None:
        return Job(spec, truth)
    throughput = spec.throughput or LINEAR
    work = _work_done(spec, Truth(work=0.0, throughput=throughput), happened, overheads)
    if happened.status in (JobStatus.RUNNING, JobStatus.WAITING):
        expected = (spec.estimate_seconds or 0.0) * throughput.rate(spec.gpus, spec.first_type)
        work = max(work, expected)
        if work > 0:
            ledger.assumed("not through when the journal ends", happened.line)
    if work <= 0:
        raise Unfit(f"{happened.status}, never ran")
    return Job(spec, spec.declared(work))


def _work_done(spec: JobSpec, truth: Truth, happened: Happened, overheads: Overheads) -> float:
    work = lost = 0.0
    for place, (seconds, gpus, kind, resized) in enumerate(happened.pieces):
        gap = overheads.gap_seconds(spec, resumed=place > 0, resized=resized)
        rate = truth.rate(gpus, kind)
        work += max(seconds - gap, 0.0) * rate
        lost = happened.lost_gpu_seconds * rate / gpus
    return work - lost
