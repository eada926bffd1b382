"""Jobs that come, as the forward loop takes them in: a column for each in the table of arrivals.

Most jobs are alike to it (they scale linearly, on whatever GPUs) and are written down all at once; the others
one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from volvelle.core.events import ArrivalsAnnounced, JobProfile, JobSubmitted
from volvelle.core.facets import KnowsTheTruth
from volvelle.core.parts import Belief, Estimator, KnownJob
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    ARRIVAL_COLUMNS,
    DEPENDS,
    ENTERS,
    NO_PROGRESS,
    OBSTACLE,
    PLACE,
    TRUTH,
)
from volvelle.model.arrays import Floats
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.job_schema import Needs, with_state
from volvelle.model.throughput import Linear
from volvelle.workload.workload import Workload, after_earlier

_FORETOLD = ("number", "submit", "gpus", "total", "scale", "request_rate", "start_gap", "pool")
_OWN = (
    *("number", "submit", "total", "scale", "true_work"),
    *(one.about.state for one in with_state(JobSpec)),
)
_SHARED = np.array(
    [place for name, place in PLACE.items() if place < ARRIVAL_COLUMNS and name not in _OWN]
)
"""Columns that are not, and are, the same for jobs of a kind."""
_STRETCH = 1 << 16
"""Jobs looked at together: where they are made when they are looked at, no more of them are there at once."""
_COSTS = ("restore", "resize", "checkpoint")
_NEEDS = Needs(JobSpec)
_UNLIKE = Needs(
    JobSpec,
    besides=("gpus", "cpus", "memory_gb", "pool", "restore_seconds", "checkpoint_seconds"),
)
"""The attributes by which a job differs from jobs that are written down all at once."""


class ArrivalTable:
    """The arrivals of a world: their submissions as the scheduler sees them, and the truth.

    Their numbers count from 0 on. profiles: of jobs that were profiled first and
    come when that is over, in this order (default: they come when they are submitted). open_ended: more may
    come (`insert`), so that no number is known before its job is submitted.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        profiles: Sequence[JobProfile] | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        self.jobs: Sequence[Job] = after_earlier(jobs)
        self._profiles = profiles
        self.numbers = range(len(jobs))
        self._disclose = scheduler.composition.estimator.needs_truth
        self.columns: Floats = np.zeros((ARRIVAL_COLUMNS, len(jobs)), order="F")
        self.verdict = np.full(len(jobs), ENTERS)
        self.refused: dict[int, str] = {}
        estimator = scheduler.composition.estimator
        learning = type(estimator).learn is not Estimator.learn
        knows = isinstance(estimator, KnowsTheTruth)
        self.prepared = not learning and (knows or not open_ended)
        self.believed: list[Belief] | None = None
        if self.prepared and not knows:
            seed = scheduler.seed
            self.believed = [estimator.believe(self.submission(i), seed) for i in range(len(jobs))]
        self._write(scheduler)

    def insert(self, scheduler: Scheduler, jobs: Sequence[Job], come: int) -> None:
        """More ``jobs`` will be submitted; ``come`` have been, and the others are numbered anew.

        All jobs have to be `open_ended`, with numbers from 0 on, and the table of arrivals is another then.
        """
        assert self.believed is None
        more = ArrivalTable(scheduler, jobs, open_ended=True)
        merged = [*self.jobs[come:], *jobs]
        times = [job.spec.submit_time for job in merged]
        order = sorted(range(len(merged)), key=times.__getitem__)  # equals: who was known first
        reasons = {n: why for n, why in self.refused.items() if n >= come}
        for number in reasons:
            del self.refused[number]
        known = len(self.jobs) - come
        for place, one in enumerate(order):
            why = reasons.get(come + one) if one < known else more.refused.get(one - known)
            if why is not None:
                self.refused[come + place] = why
        self.jobs = [*self.jobs[:come], *(merged[one] for one in order)]
        self.numbers = range(len(self.jobs))
        columns = np.concatenate([self.columns[:, come:], more.columns], axis=1)[:, order]
        columns[PLACE["number"]] = np.arange(come, len(self.jobs))
        self.columns = np.asfortranarray(np.concatenate([self.columns[:, :come], columns], axis=1))
        verdict = np.concatenate([self.verdict[come:], more.verdict])[order]
        self.verdict = np.concatenate([self.verdict[:come], verdict])

    def submission(self, place: int, time: float | None = None) -> JobSubmitted:
        """The submission of the job at ``place``."""
        job = self.jobs[place]
        truth = job.truth if self._disclose else None
        profile = None if self._profiles is None else self._profiles[place]
        if time is None:
            time = job.spec.submit_time if profile is None else profile.ended
        return JobSubmitted(time, self.numbers[place], job.spec, truth, profile)

    def __contains__(self, number: object) -> bool:
        return number in self.numbers

    def job(self, number: int) -> Job:
        """The job with a number."""
        return self.jobs[number]

    @property
    def specs(self) -> Sequence[JobSpec]:
        """The declarations of the jobs, by number."""
        return Workload(self.jobs).specs

    def known(self, number: int) -> KnownJob:
        """The scheduler's knowledge of a job once it is admitted."""
        return KnownJob(self.jobs[number].spec, self.belief(number).truth)

    def belief(self, place: int) -> Belief:
        """The scheduler's belief of one of the jobs."""
        return Belief(self.jobs[place].truth) if self.believed is None else self.believed[place]

    def announce(self, time: float) -> ArrivalsAnnounced:
        """The announcement of these arrivals at ``time``, without jobs that will be rejected."""
        known = self.columns[:, self.verdict == ENTERS]
        columns = {name: known[PLACE[name]] for name in _FORETOLD}
        work = columns["total"] * columns["scale"]
        return ArrivalsAnnounced(
            time,
            tuple(columns["number"].astype(np.int64).tolist()),
            tuple(columns["submit"].tolist()),
            tuple(columns["gpus"].tolist()),
            tuple((columns["start_gap"] + work / columns["request_rate"]).tolist()),
            tuple(columns["pool"].astype(np.int64).tolist()),
        )

    def _write(self, scheduler: Scheduler) -> None:
        self.columns[PLACE["number"]] = self.numbers
        for first in range(0, len(self.jobs), _STRETCH):
            self._write_stretch(scheduler, first, self.jobs[first : first + _STRETCH])

    def _write_stretch(self, scheduler: Scheduler, first: int, jobs: Sequence[Job]) -> None:
        """Write the columns of ``jobs``, which come from number ``first`` on."""
        part = slice(first, first + len(jobs))
        columns = self.columns[:, part]
        columns[PLACE["gpus"]] = [job.spec.gpus for job in jobs]
        alike = np.array([_is_alike(job) for job in jobs], dtype=np.bool_)
        if self.believed is not None:
            alike &= np.array(
                [_scales_anywhere(belief.truth) for belief in self.believed[part]], dtype=np.bool_
            )
        if not self.prepared or len(scheduler.resources.types) > 1:
            alike[:] = False
        most = float(scheduler.resources.gpus_by_type(up_only=False)[0])
        whole = columns[PLACE["gpus"]] == np.floor(columns[PLACE["gpus"]])
        any_part = not (scheduler.resources.named or scheduler.composition.policy.whole_gpus)
        alike &= (columns[PLACE["gpus"]] <= most) & (whole | any_part)
        if pools := {pool.name for pool in scheduler.cluster.pools}:
            alike &= np.array([job.spec.pool not in pools for job in jobs], dtype=np.bool_)
        if alike.all():
            self._write_alike(scheduler, part, jobs)
        else:
            places = np.flatnonzero(alike)
            self._write_alike(scheduler, first + places, [jobs[place] for place in places.tolist()])
            self._write_by_kind(scheduler, (first + np.flatnonzero(~alike)).tolist())
        for place, job in enumerate(jobs, first):
            if job.spec.after and self.verdict[place] != OBSTACLE:
                self.verdict[place] = DEPENDS
        columns[PLACE["submit"]] = (
            [job.spec.submit_time for job in jobs]
            if self._profiles is None
            else [profile.ended for profile in self._profiles[part]]
        )

    def _write_alike(self, scheduler: Scheduler, at: Any, jobs: Sequence[Job]) -> None:
        """Jobs that scale linearly on whatever GPUs, and to which nothing happens but their end."""
        if not len(jobs):
            return
        columns = self.columns
        work = [job.truth.work for job in jobs]
        unit = np.array([job.truth.throughput.per_gpu for job in jobs])  # type: ignore[union-attr]
        columns[PLACE["true_work"], at], columns[PLACE["true_unit_rate"], at] = work, unit
        scale: Any = 1.0
        if self.believed is not None:
            told = (
                self.believed[at]
                if isinstance(at, slice)
                else [self.believed[i] for i in at.tolist()]
            )
            work = [belief.truth.work for belief in told]
            unit = np.array([belief.truth.throughput.per_gpu for belief in told])  # type: ignore[union-attr]
            scale = [belief.scale for belief in told]
        gpus = columns[PLACE["gpus"], at]
        defaults = {"least": gpus, "most": gpus, "types": 1.0, "pool": -1.0}
        believed = {
            "total": work,
            "scale": scale,
            "full_rate": unit * gpus,
            "request_rate": unit * gpus,
            "unit_rate": unit,
            "table": _tables(scheduler, unit),
            "curve": -1.0,
            "true_table": -1.0,
            "start_gap": scheduler.overheads.start,
        }
        for name, values in chain(
            defaults.items(), _declared([job.spec for job in jobs]), believed.items()
        ):
            columns[PLACE[name], at] = values
        overheads = scheduler.overheads
        costs: tuple[Callable[..., float], ...] = (
            overheads.restore_seconds,
            overheads.resize_seconds,
            overheads.checkpoint_seconds,
        )
        own = any(
            job.spec.restore_seconds is not None or job.spec.checkpoint_seconds is not None
            for job in jobs
        )
        for name, cost in zip(_COSTS, costs, strict=True):
            seconds = [cost(job.spec) for job in jobs] if own else cost(jobs[0].spec)
            columns[PLACE[name], at] = seconds

    def _write_by_kind(self, scheduler: Scheduler, places: Sequence[int]) -> None:
        """Jobs of which several may need the same and be as fast: what they share is worked out once."""
        kinds: dict[Any, list[int]] = {}
        for place in places:
            kind = _kind(self.jobs[place], self.belief(place).truth) if self.prepared else None
            kinds.setdefault(place if kind is None else kind, []).append(place)
        sharing: list[int] = []
        for first, *others in kinds.values():
            self._write_one(scheduler, first)
            if self.verdict[first] != ENTERS:
                for place in others:
                    self._write_one(scheduler, place)
            elif others:
                self.columns[_SHARED[:, None], others] = self.columns[_SHARED, first][:, None]
                sharing += others
        if sharing:
            jobs = [self.jobs[place] for place in sharing]
            beliefs = [self.belief(place) for place in sharing]
            own = {
                "total": [belief.truth.work for belief in beliefs],
                "scale": [belief.scale for belief in beliefs],
                "true_work": [job.truth.work for job in jobs],
            }
            at = np.array(sharing)
            for name, values in chain(_declared([job.spec for job in jobs]), own.items()):
                self.columns[PLACE[name], at] = values

    def _write_one(self, scheduler: Scheduler, place: int) -> None:
        job = self.jobs[place]
        if obstacle := scheduler.obstacle(job.spec):
            self._refuse(place, OBSTACLE, obstacle)
            return
        if self.prepared:
            values = scheduler.beliefs.newcomer(self.numbers[place], job.spec, self.belief(place))
            if isinstance(values, str):
                self._refuse(place, NO_PROGRESS, values)
                return
            self.columns[:, place] = values
        reports = scheduler.composition.loss_every is not None
        self.columns[TRUTH, place] = scheduler.beliefs.true_columns(job, reports=reports)

    def _refuse(self, place: int, verdict: int, reason: str) -> None:
        self.verdict[place] = verdict
        self.refused[self.numbers[place]] = reason


def _declared(specs: Sequence[JobSpec]) -> Iterator[tuple[str, list[float]]]:
    """Columns of the state that jobs declare, each with its numbers."""
    for one in with_state(JobSpec):
        yield one.about.state, [number or 0.0 for number in map(attrgetter(one.number), specs)]


def _tables(scheduler: Scheduler, unit_rates: Floats) -> Floats:
    """Where the rates of linear jobs are in tables, where they are."""
    tables = np.full(len(unit_rates), -1.0)
    if scheduler.beliefs.tabulates:
        for rate in sorted(set(unit_rates.tolist())):
            place = scheduler.beliefs.table_of(Truth(work=1.0, throughput=Linear(rate)))
            tables[unit_rates == rate] = place
    return tables


def _is_alike(job: Job) -> bool:
    spec, truth = job.spec, job.truth
    return (
        _UNLIKE.of(spec) == _UNLIKE.none
        and not truth.failures
        and not truth.loss_curve
        and job.training is None
        and _scales_anywhere(truth)
    )


def _kind(job: Job, believed: Truth) -> Any:
    """A value that is equal of jobs with equal needs and speed, None where there is more to a job."""
    truth = job.truth
    if job.training is not None or not _is_plain(truth):
        return None
    if believed is not truth and not _is_plain(believed):
        return None
    return id(truth.throughput), id(believed.throughput), *_NEEDS.of(job.spec)


def _is_plain(truth: Truth) -> bool:
    return truth == Truth(work=truth.work, throughput=truth.throughput)


def _scales_anywhere(truth: Truth) -> bool:
    throughput = truth.throughput
    return (
        type(throughput) is Linear
        and throughput.per_gpu > 0.0
        and not (truth.regimes or truth.spread_slowdown or truth.beside or truth.sensitivity)
    )
