"""Simulate a workload under a composition: the scheduler and the simulated world, put together."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import volvelle
from volvelle.core.composition import WrittenComposition, mistakes_of_parts
from volvelle.core.events import JobProfile
from volvelle.core.journal import Header, Journal
from volvelle.core.paying import pays_for
from volvelle.core.scheduler import Scheduler
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import EVERY_MOMENT, INFINITY, NEVER, NEWCOMERS_CAME
from volvelle.core.systems import brought
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.model.arrays import BoolColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.power import Power
from volvelle.model.problems import Problem
from volvelle.model.throughput import LINEAR
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.interrupt import asked_to_stop
from volvelle.simulate.predict import Predictor, Refreshed
from volvelle.simulate.profiling import ProfiledWorkload, profile
from volvelle.simulate.synthesis import SYNTHESIZER, Synthesis
from volvelle.simulate.users import Users
from volvelle.simulate.world import Watcher, World
from volvelle.workload.habits import Habits
from volvelle.workload.workload import Workload

_PREDICTED = 13
"""The cost of a job and its prediction over that of the job: 0.4 s instead of 0.03 s for 600 jobs."""

_JUDGED = 26
"""The same where an admission looks ahead for each job: such looks of 385 jobs cost as much as compiling."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All that decides how a simulation goes, beside the workload.

    tick: ends of jobs are noticed at multiples of this many seconds (None: at once).
    until: end of the simulation, seconds (None: when all jobs are through).
    tracked: (first, last) numbers of the jobs that are measured; the simulation ends with them.
    predict: forecast every job's finish at its submission. refresh: and of all jobs at every event.
    users: habits of users who submit again when their jobs are through (None: all jobs come when the workload
    says). Draws of them follow from the seed.
    power: of GPUs, to measure energy and carbon by.
    synthesis: choose policy and admission anew now and then; the parts of ``composition`` rule until then.
    """

    cluster: Cluster
    composition: WrittenComposition
    overheads: Overheads = field(default_factory=Overheads)
    seed: int = 0
    tick: float | None = None
    until: float | None = None
    tracked: tuple[int, int] | None = None
    predict: bool = False
    refresh: bool = False
    synthesis: Synthesis | None = None
    users: Habits | None = None
    power: Power | None = None

    @property
    def header(self) -> Header:
        """The first line of the journal of such a run."""
        return Header(
            volvelle=volvelle.__version__,
            cluster=self.cluster,
            composition=self.composition,
            overheads=self.overheads.model_dump(),
            seed=self.seed,
        )


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation. ``interrupted``: it was stopped before its end.

    cpu_seconds: of the simulation proper; events and moments (distinct times) it went through.
    asked: how often a policy in Python was asked; asked_seconds: CPU seconds that it took.
    refreshed: the predictions of every event, where these were asked for.
    """

    outcomes: Outcomes
    scheduler: SchedulerState
    journal: Journal | None
    cpu_seconds: float
    events: int
    moments: int
    interrupted: bool = False
    refreshed: tuple[Refreshed, ...] = ()
    asked: int = 0
    asked_seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """How far a simulation is: jobs and moments (distinct times) gone through."""

    now: float
    submitted: int
    in_system: int
    jobs: int
    moments: int


@mistakes_of_parts()
def simulate(
    workload: Workload,
    setting: Setting,
    *,
    journal: bool | Path = False,
    progress: Callable[[Progress], None] | None = None,
    workers: int = 1,
    compiled: bool | None = None,
) -> Simulation:
    """Let ``workload`` happen under ``setting``.

    workers: processes with which a synthesis looks ahead. compiled: let machine code do it (None: where that
    pays); the results are the same.
    journal: keep one in memory (True), or write it to this path while the simulation goes on.
    progress: called every few hundred moments. KeyboardInterrupt ends the simulation early with what
    is done so far. Raises `Problem` where the parts do not go together.
    Where the cluster has a profiling partition, jobs run there first; the journal is of the jobs that go on.
    """
    check(workload, setting)
    came, then = _Came(workload), setting
    profiled: ProfiledWorkload | None = None
    if setting.cluster.profiling is not None:
        profiled = profile(workload, setting.cluster, setting.overheads)
        came = _Came(profiled.workload, profiled.profiles)
        then = replace(setting, cluster=profiled.cluster, tracked=None)
        if len(profiled.workload):
            check(profiled.workload, then)
    run = _journalled(came, then, journal, progress, workers, compiled)
    tracked = _tracked(workload, setting)
    if profiled is None:
        return replace(run, outcomes=run.outcomes.tracking(tracked[: len(run.outcomes)]))
    return replace(run, outcomes=profiled.outcomes(run.outcomes, tracked, setting.until))


class _Came(NamedTuple):
    """Jobs that come to the scheduler, with their profiles where they were profiled first."""

    workload: Workload
    profiles: Sequence[JobProfile] | None = None


def _journalled(
    came: _Came,
    setting: Setting,
    journal: bool | Path,
    progress: Callable[[Progress], None] | None,
    workers: int,
    compiled: bool | None,
) -> Simulation:
    scheduler = Scheduler(
        setting.cluster,
        setting.composition.build(),
        overheads=setting.overheads,
        seed=setting.seed,
    )
    recorder = Recorder(setting.cluster, setting.power)
    if isinstance(journal, Path):
        with journal.open("wb") as file:
            kept = Journal(setting.header, file)
            return _run(came, setting, scheduler, recorder, kept, progress, workers, compiled)
    kept_in_memory = Journal(setting.header) if journal else None
    return _run(came, setting, scheduler, recorder, kept_in_memory, progress, workers, compiled)


def _run(
    came: _Came,
    setting: Setting,
    scheduler: Scheduler,
    recorder: Recorder,
    journal: Journal | None,
    progress: Callable[[Progress], None] | None,
    workers: int,
    compiled: bool | None,
) -> Simulation:
    synthesis, workload = setting.synthesis, came.workload
    watchers: list[Watcher] = [recorder]
    if journal is not None:
        watchers.insert(0, journal)
    predictor, pauses = None, NEVER
    if setting.predict or setting.refresh:
        predictor = Predictor(
            workload.jobs,
            refresh=setting.refresh,
        )
        watchers.append(predictor)
        pauses = EVERY_MOMENT if setting.refresh else NEWCOMERS_CAME
    interrupted = False
    began = time.process_time()
    users = None
    if setting.users is not None:
        users = Users(setting.users.batches(workload, setting.seed))
    with asked_to_stop() as stopped:
        arrivals = ArrivalTable(
            scheduler,
            workload.jobs if users is None else users.first,
            profiles=came.profiles,
            open_ended=users is not None,
        )
        if users is None:
            recorder.expect(arrivals.specs)
        world = World(
            scheduler,
            arrivals,
            watchers,
            tick=setting.tick,
            tracked=setting.tracked,
            switcher=None
            if synthesis is None
            else brought("switchers", SYNTHESIZER)(synthesis, workers),
            users=users,
            compiled=_pays(len(workload), setting, scheduler) if compiled is None else compiled,
        )
        try:
            each_pause = _EachPause(stopped, progress, len(workload), predictor)
            until = INFINITY if setting.until is None else setting.until
            world.run(each_pause, pauses=pauses, until=until)
        except KeyboardInterrupt:
            interrupted = True
    cpu_seconds = time.process_time() - began
    if users is not None:
        workload = Workload(world.arrivals.jobs, workload.name)
    world.let_arrivals_go()
    outcomes = recorder.outcomes(workload.durations, None, workload.single_gpu_seconds)
    gaps = scheduler.composition.policy.solver_gaps
    if gaps is not None and gaps.solved:
        outcomes = replace(outcomes, solver_gap=gaps.worst)
    refreshed: tuple[Refreshed, ...] = ()
    if predictor is not None:
        told = predictor.predictions(len(outcomes))
        outcomes = replace(
            outcomes,
            predicted_finish=told.finish,
            predicted_p50=told.p50,
            predicted_p90=told.p90,
        )
        refreshed = tuple(predictor.refreshed)
    return Simulation(
        outcomes,
        scheduler,
        journal,
        cpu_seconds,
        world.events,
        world.moments,
        interrupted,
        refreshed,
        world.asked,
        world.asked_seconds,
    )


def _pays(jobs: int, setting: Setting, scheduler: Scheduler) -> bool:
    """Whether machine code is worth what loading it takes."""
    looks_ahead = scheduler.composition.admission.limit(0.0) is None
    each = _JUDGED if looks_ahead else _PREDICTED if setting.predict else 1
    return pays_for(scheduler, jobs * each)


class _EachPause:
    """Ends the run between two moments where that was asked for; predicts; reports."""

    def __init__(
        self,
        stopped: Callable[[], bool],
        report: Callable[[Progress], None] | None,
        jobs: int,
        predict: Callable[[World], None] | None,
    ) -> None:
        self._predict = predict
        self._stopped = stopped
        self._report = report
        self._jobs = jobs

    def __call__(self, world: World) -> None:
        if self._stopped():
            raise KeyboardInterrupt
        if self._predict is not None:
            self._predict(world)
        if self._report is not None:
            self._report(
                Progress(world.now, world.submitted, world.in_system, self._jobs, world.moments)
            )


def _tracked(workload: Workload, setting: Setting) -> BoolColumn:
    tracked = np.ones(len(workload), dtype=np.bool_)
    if setting.tracked is not None:
        first, last = setting.tracked
        tracked[:first] = False
        tracked[last + 1 :] = False
    return tracked


def _declared(spec: JobSpec) -> Truth:
    """The belief of how a job runs where only its user says."""
    return Truth(work=float("nan"), throughput=spec.throughput or LINEAR)


@mistakes_of_parts()
def check(workload: Workload, setting: Setting) -> None:
    """Raise `Problem` where workload, cluster and composition do not go together."""
    if not len(workload):
        raise Problem(
            f"the workload {workload.name!r} has no jobs",
            mend="check the trace, or the reasons its rows were dropped",
        )
    check_setting(setting)
    composition = setting.composition.build()
    told = composition.estimator.needs_truth
    composition.policy.refuse(
        setting.cluster,
        ((job.spec, job.truth if told else _declared(job.spec)) for job in workload.jobs),
    )
    if setting.users is not None:
        _check_users(setting)
    if setting.tracked is not None:
        first, last = setting.tracked
        if not 0 <= first <= last < len(workload):
            raise Problem(
                f"cannot track jobs {first} to {last} of {len(workload)}",
                mend=f"give numbers within 0 and {len(workload) - 1}",
                usage=True,
            )


def check_setting(setting: Setting) -> None:
    """Raise `Problem` where cluster and composition do not go together, whatever the workload."""
    composition = setting.composition.build()
    if setting.cluster.profiling is not None and setting.refresh:
        raise Problem(
            "predictions at every event are of a scheduler's own jobs, and some end where they are profiled",
            mend="leave out --refresh, or the cluster's [profiling]",
            usage=True,
        )
    if setting.cluster.nodes_change and not composition.placement.names_gpus:
        raise Problem(
            "nodes of this cluster change, and placement 'none' does not know which jobs they carry",
            mend="choose one that does, as in --placement consolidated",
            usage=True,
        )
    if composition.policy.shares_gpus and composition.placement.names_gpus:
        raise Problem(
            f"policy {composition.policy.label!r} lets two jobs hold the same GPUs, and placement "
            f"{composition.placement.name!r} gives each GPU to one",
            mend="choose --placement none",
            usage=True,
        )


def _check_users(setting: Setting) -> None:
    """Raise `Problem` for what goes by numbers of jobs, which are not known before users submit."""
    if setting.cluster.profiling is not None:
        raise Problem(
            "users who submit again do not go with profiling, which is worked out before anybody comes",
            mend="leave out --users, or the cluster's [profiling]",
            usage=True,
        )
    for name, asked in {
        "track": setting.tracked is not None,
        "predict": setting.predict,
        "synthesize": setting.synthesis is not None,
    }.items():
        if asked:
            raise Problem(
                f"users who submit again do not go with {name!r}: who comes as which job is not known",
                mend=f"leave out --users or --{name}",
                usage=True,
            )
