"""Scenarios: jobs and the setting in which they happen, written by hand or drawn at random."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import encode_array
from volvelle.core.journal import Journal
from volvelle.core.memory import memory_of
from volvelle.core.scheduler import Scheduler
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import COLUMNS, KNOWN_COLUMNS, Jobs
from volvelle.core.systems import brought
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import Linear, Table
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.run import Setting
from volvelle.simulate.world import Switcher, Watcher, World
from volvelle.workload.workload import Workload

END_OF_PATIENCE = 1e6
"""Seconds after which a random scenario of a few minutes' jobs has not ended: something is stuck."""


@dataclass(frozen=True)
class Scenario:
    """Jobs and the setting in which they happen."""

    jobs: tuple[Job, ...]
    setting: Setting

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        jobs: Sequence[Job],
        *,
        policy: str = "fifo",
        placement: str = "none",
        estimator: str = "oracle",
        termination: str = "completion",
        overheads: Overheads | None = None,
        tick: float | None = None,
    ) -> "Scenario":
        """A scenario written by hand; jobs in order of submission."""
        composition = WrittenComposition(policy, placement, "accept-all", estimator, termination)
        setting = Setting(
            cluster=cluster,
            composition=composition,
            overheads=overheads or Overheads(),
            tick=tick,
        )
        return cls(tuple(jobs), setting)

    @property
    def cluster(self) -> Cluster:
        """Where it happens."""
        return self.setting.cluster

    @property
    def workload(self) -> Workload:
        """The jobs as a workload."""
        return Workload(self.jobs)

    @property
    def last_arrival(self) -> float:
        """When the last job is submitted."""
        return self.jobs[-1].spec.submit_time

    def under(
        self,
        policy: str | None = None,
        placement: str | None = None,
        estimator: str | None = None,
        termination: str | None = None,
        admission: str | None = None,
    ) -> "Scenario":
        """The same with other parts."""
        parts = {
            "policy": policy,
            "placement": placement,
            "estimator": estimator,
            "termination": termination,
            "admission": admission,
        }
        named = {part: name for part, name in parts.items() if name is not None}
        composition = msgspec.structs.replace(self.setting.composition, **named)
        one = replace(self, setting=replace(self.setting, composition=composition))
        return one.counted() if composition.build().policy.shares_gpus else one

    def counted(self) -> "Scenario":
        """The same where GPUs have no names, so that jobs may share them; nodes stay where they are."""
        composition = msgspec.structs.replace(self.setting.composition, placement="none")
        cluster = msgspec.structs.replace(self.cluster, changes=(), failures=None)
        setting = replace(self.setting, composition=composition, cluster=cluster)
        return replace(self, setting=setting)

    def scheduler(self) -> Scheduler:
        """Its scheduler, before anything happened."""
        return self.setting.header.scheduler()


@dataclass(frozen=True)
class Run:
    """A scenario that has happened."""

    scheduler: Scheduler
    journal: Journal
    outcomes: Outcomes
    world: World

    @property
    def journal_bytes(self) -> bytes:
        """The journal as it would be written."""
        encoder = msgspec.json.Encoder(enc_hook=encode_array)
        return b"\n".join(map(encoder.encode, [self.journal.header, *self.journal.entries]))


def tabled(scenario: Scenario) -> Scenario:
    """The same with jobs whose rates are linear or a table, wherever they run."""
    jobs = []
    for job in scenario.jobs:
        throughput = job.truth.throughput
        if not isinstance(throughput, Linear):
            throughput = Table((1.0, 1.8, 2.4))
        jobs.append(Job(job.spec, Truth(work=job.truth.work, throughput=throughput)))
    return replace(scenario, jobs=tuple(jobs))


def happen(
    scenario: Scenario,
    *watchers: Watcher,
    scheduler: Scheduler | None = None,
    on_moment: Callable[[World], None] | None = None,
    switcher: Switcher | None = None,
    compiled: bool = False,
) -> Run:
    """Let ``scenario`` happen, watched; it must end within `END_OF_PATIENCE`."""
    if switcher is None and (synthesis := scenario.setting.synthesis) is not None:
        switcher = brought("switchers", "synthesizer")(synthesis)
    scheduler = scheduler or scenario.scheduler()
    journal = Journal(scenario.setting.header)
    recorder = Recorder(scenario.cluster)
    world = World(
        scheduler,
        ArrivalTable(scheduler, scenario.jobs),
        [journal, recorder, *watchers],
        tick=scenario.setting.tick,
        switcher=switcher,
        compiled=compiled,
    )
    world.run(on_moment, until=END_OF_PATIENCE)
    assert world.now < END_OF_PATIENCE, "the run does not end"
    return Run(scheduler, journal, recorder.outcomes(scenario.workload.durations), world)


def linear_job(
    number: int,
    submit: float,
    gpus: float,
    seconds: float,
    *,
    failures: tuple[float, ...] = (),
    **declared: Any,
) -> Job:
    """A job of ``seconds`` on ``gpus`` GPUs whose every GPU adds the same. declared: as in `JobSpec`."""
    spec = JobSpec(id=f"job-{number}", submit_time=submit, gpus=gpus, **declared)
    return Job(spec, Truth(work=gpus * seconds, failures=failures))


def state_of(scheduler: SchedulerState) -> bytes:
    """Everything a scheduler knows, as bytes: two are equal where these are."""
    state, resources = scheduler.state, scheduler.resources
    rows = sorted(scheduler.known.rows.items())
    known = [(number, repr(scheduler.known[number])) for number, _ in rows]
    memories = [memory_of(part) for part in scheduler.composition]
    columns = [
        [float(getattr(state.jobs, name)[row]) for _, row in rows]
        for name in Jobs.float_columns[:KNOWN_COLUMNS]
        if name not in ("table", "curve") and not name.startswith("tru")
    ]  # where in tables a job is says nothing by itself, and the truth is the world's
    own = [[float(column[row]) for _, row in rows] for column in state.jobs.floats[COLUMNS:]]
    described = (
        scheduler.now,
        known,
        memories,
        [each.value for each in resources.node_states],
        [node.name for node in resources.nodes],
        scheduler.wake_at(),
        columns,
        own,
        [scheduler.slots_of(row) for _, row in rows],
    )
    arrays = (resources.owner, resources.free, resources.schedulable, resources.given)
    return repr(described).encode() + b"".join(array.tobytes() for array in arrays)
