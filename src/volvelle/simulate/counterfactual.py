"""A span of a journal, had again under another policy: what would yesterday have been?

The jobs that were submitted in the span come again as they came, each as long as it really was
(`volvelle.workload.readers.journal`), and with them jobs that were in the system when it began: these are
not measured. The nodes come and go as they did. The span is simulated twice, under the policy of then and
under the other: what the two differ by is the policies', what the first differs by from what was is the
simulation's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from volvelle.core.events import JobSubmitted, NodeChanged, Recomposed
from volvelle.core.journal import Entry, Header, read_journal
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.metrics.recorder import Recorder, recorded
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.node import Node
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.past import with_changes
from volvelle.simulate.run import Progress, Setting, simulate
from volvelle.workload.readers.journal import jobs_as_they_were, note_declarations
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.workload import ImportReport, Workload, after_earlier

_P90 = 90.0


@dataclass(frozen=True)
class SpanFigures:
    """Figures of the measured jobs, in seconds.

    wait: to the first GPU. makespan: from the first submission to the last end.
    """

    jct_mean: float
    jct_p90: float
    wait_mean: float
    makespan: float


@dataclass(frozen=True)
class Counterfactual:
    """A span of the past, and its counterfactual.

    was: as the journal has it. policy, admission: that ruled when it began; again: simulated under these.
    other: simulated under the others. jobs: that are measured, which finished in all three. passed_over: jobs
    that have finished and did not in a simulation. unfinished: jobs of the span that run or wait when the
    journal ends; where they are many, the measured jobs are the ones that the policy of then served first.
    """

    policy: str
    admission: str
    was: SpanFigures
    again: SpanFigures
    other: SpanFigures
    jobs: int
    passed_over: int
    unfinished: int


@dataclass
class _Happened:
    """Notes on a journal that is being read."""

    submitted: list[tuple[int, JobSubmitted]]
    nodes: list[NodeChanged]
    ruled: tuple[str, str]


def counterfactual(
    journal: Path,
    policy: str,
    admission: str,
    since: float,
    until: float,
    is_over: Callable[[], bool] = lambda: False,
) -> Counterfactual:
    """The jobs submitted from ``since`` to ``until``, on the journal's clock, under another policy.

    is_over: asked now and then whether there is no more time. Raises `Problem` where there is none, where no
    job of the span has finished, or where the policy cannot schedule these jobs.
    """
    header, entries = read_journal(journal)
    recorder = Recorder(header.cluster)
    composition = header.composition
    happened = _Happened([], [], (composition.policy, composition.admission))
    for _ in recorded(recorder, _noted(entries, happened, since, is_over)):
        pass
    was = recorder.outcomes()
    nodes = with_changes(header.cluster, happened.nodes, 0.0).nodes
    workload = _workload(header, was, happened, nodes, since, until)
    row_of = {event.spec.id: row for row, (_, event) in enumerate(happened.submitted)}
    rows = np.array([row_of[job.spec.id] for job in workload], dtype=np.int64)
    if not len(workload):
        raise _nothing_to_measure()
    begins = workload.jobs[0].spec.submit_time
    cluster = with_changes(header.cluster, happened.nodes, begins)
    simulated = []
    overheads = Overheads.model_validate(header.overheads)
    for ruling, admitting in (happened.ruled, (policy, admission)):
        written = msgspec.structs.replace(composition, policy=ruling, admission=admitting)
        setting = Setting(
            cluster=cluster, composition=written, overheads=overheads, seed=header.seed
        )
        run = simulate(workload.rebased(), setting, progress=_until_over(is_over))
        if run.interrupted:
            raise _no_more_time()
        simulated.append(run.outcomes)
    again, other = simulated
    finished = (was.submit_time[rows] >= since) & (was.status[rows] == JobStatus.FINISHED)
    unfinished = (was.submit_time >= since) & (was.submit_time < until) & _unfinished(was)
    measured = finished & ~np.isnan(again.finish) & ~np.isnan(other.finish)
    if not measured.any():
        raise _nothing_to_measure()
    return Counterfactual(
        *happened.ruled,
        was=_figures(was, rows[measured]),
        again=_figures(again, np.flatnonzero(measured)),
        other=_figures(other, np.flatnonzero(measured)),
        jobs=int(measured.sum()),
        passed_over=int((finished & ~measured).sum()),
        unfinished=int(unfinished.sum()),
    )


def _noted(
    entries: Iterator[Entry], happened: _Happened, since: float, is_over: Callable[[], bool]
) -> Iterator[Entry]:
    for entry in entries:
        if is_over():
            raise _no_more_time()
        note_declarations(happened.submitted, len(happened.submitted), entry)
        for event in entry.events:
            if isinstance(event, NodeChanged):
                happened.nodes.append(event)
            elif isinstance(event, Recomposed) and event.time <= since:
                happened.ruled = (event.policy, event.admission)
        yield entry


def _workload(
    header: Header,
    was: Outcomes,
    happened: _Happened,
    nodes: Sequence[Node],
    since: float,
    until: float,
) -> Workload:
    """The jobs that were in the system at any time of the span, without later submissions."""
    segments = was.segments
    last = np.full(len(was), -np.inf)
    np.maximum.at(last, segments.job, segments.end)
    begun_before = (last > since) | _unfinished(was)
    there = (was.submit_time < until) & ((was.submit_time >= since) | begun_before)
    ids = {was.specs[row].id for row in np.flatnonzero(there).tolist()}
    ledger = Ledger(ImportReport(source="journal", format="journal"))
    overheads = Overheads.model_validate(header.overheads)
    jobs = [
        job
        for job in jobs_as_they_were(happened.submitted, was, nodes, overheads, ledger)
        if job.spec.id in ids
    ]
    return Workload(after_earlier(Workload.of(jobs).jobs))


def _unfinished(was: Outcomes) -> BoolColumn:
    return np.isin(was.status, (JobStatus.RUNNING, JobStatus.WAITING))


def _until_over(is_over: Callable[[], bool]) -> Callable[[Progress], None]:
    def check(_: Progress) -> None:
        if is_over():
            raise KeyboardInterrupt

    return check


def _no_more_time() -> Problem:
    return Problem("there is no more time for this span", mend="name a shorter one")


def _nothing_to_measure() -> Problem:
    return Problem("no job of this span has finished", mend="name another span")


def _figures(outcomes: Outcomes, rows: IntColumn) -> SpanFigures:
    jct: FloatColumn = outcomes.jct[rows]
    finish, submitted = outcomes.finish[rows], outcomes.submit_time[rows]
    return SpanFigures(
        jct_mean=float(jct.mean()),
        jct_p90=float(np.percentile(jct, _P90)),
        wait_mean=float(outcomes.responsiveness[rows].mean()),
        makespan=float(finish.max() - submitted.min()),
    )
