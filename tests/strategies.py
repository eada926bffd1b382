"""Random small clusters and workloads, and worlds in which they happen: for property tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from hypothesis import strategies as st
from resource_cases import sensitivities

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import encode_array
from volvelle.core.journal import Journal
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import COLUMNS, KNOWN_COLUMNS, Jobs
from volvelle.core.systems import brought
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.cluster import (
    Cluster,
    FailureProcess,
    Node,
    NodeChange,
    NodeState,
    Pool,
)
from volvelle.model.job import Dependency, Job, JobSpec, LossPoint, Regime, Reward, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import (
    Amdahl,
    AnyThroughput,
    Linear,
    PerBatchSize,
    PerType,
    Table,
    ThroughputModel,
)
from volvelle.simulate.coming import Coming
from volvelle.simulate.run import Setting
from volvelle.simulate.world import Director, Watcher, World
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
    director: Director | None = None,
    compiled: bool = False,
) -> Run:
    """Let ``scenario`` happen, watched; it must end within `END_OF_PATIENCE`."""
    if director is None and (synthesis := scenario.setting.synthesis) is not None:
        director = brought("directors", "synthesizer")(synthesis)
    scheduler = scheduler or scenario.scheduler()
    journal = Journal(scenario.setting.header)
    recorder = Recorder(scenario.cluster)
    world = World(
        scheduler,
        Coming(scheduler, scenario.jobs),
        [journal, recorder, *watchers],
        tick=scenario.setting.tick,
        until=END_OF_PATIENCE,
        director=director,
        compiled=compiled,
    )
    world.run(on_moment)
    assert world.now < END_OF_PATIENCE, "the run does not end"
    return Run(scheduler, journal, recorder.outcomes(scenario.workload.durations), world)


def linear_job(
    number: int,
    submit: float,
    gpus: float,
    seconds: float,
    *,
    least: float | None = None,
    most: float | None = None,
    types: tuple[str, ...] = (),
    constraints: tuple[str, ...] = (),
    exclusive: bool = False,
    pool: str = "",
    preemptible: bool = True,
    failures: tuple[float, ...] = (),
    max_retries: int = 3,
) -> Job:
    """A job of ``seconds`` on ``gpus`` GPUs whose every GPU adds the same."""
    spec = JobSpec(
        id=f"job-{number}",
        submit_time=submit,
        gpus=gpus,
        min_gpus=least,
        max_gpus=most,
        gpu_types=types,
        constraints=constraints,
        exclusive=exclusive,
        pool=pool,
        preemptible=preemptible,
        max_retries=max_retries,
    )
    return Job(spec, Truth(work=gpus * seconds, failures=failures))


def state_of(scheduler: Scheduler) -> bytes:
    """Everything a scheduler knows, as bytes: two are equal where these are."""
    state, resources = scheduler.state, scheduler.resources
    rows = sorted(scheduler.known.rows.items())
    known = [(number, repr(scheduler.known[number])) for number, _ in rows]
    memories = [repr(part.__pydantic_private__) for part in scheduler.composition]
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


# ---------------------------------------------------------------------- strategies

SECONDS = st.sampled_from([1.0, 2.5, 7.0, 10.0, 12.3, 30.0, 45.6, 60.0, 100.0, 250.0])
GAPS = st.sampled_from([0.0, 0.0, 0.0, 0.1, 1.0, 5.0, 20.0, 33.3, 60.0, 120.0])
COSTS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 5.0])
LOSSES = st.sampled_from([0.1, 0.1001, 0.11, 0.2, 0.5, 1.0, 3.0])
NAMES = ("lm", "vision")
FAILURE_SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.9])


@dataclass(frozen=True)
class Features:
    """What a random scenario may contain. Everything is switched on unless a test says otherwise."""

    types: bool = True
    pools: bool = True
    elastic: bool = True
    pinned: bool = True  # jobs that may not be preempted
    overheads: bool = True
    failures: bool = True
    nodes: bool = True  # nodes drain, fail and join (needs a placement)
    regimes: bool = True
    slots: bool = True  # a placement that names GPUs
    impossible: bool = True  # jobs that can never run
    checkpoints: bool = True  # stopping a job takes time
    losses: bool = False  # jobs have loss curves, which only some parts ask about
    amounts: bool = True  # nodes that say what CPUs and memory they have, jobs that need these
    sharing: bool = True  # jobs that say how fast they are beside others on the same GPUs
    deadlines: bool = False  # jobs have deadlines, which only some parts ask about
    dependencies: bool = False  # jobs that wait for others
    limits: bool = False  # jobs with priorities and time limits
    labels: bool = False  # nodes with labels, jobs with constraints or nodes of their own
    crowded: bool = False  # many jobs alike come at once to few GPUs
    most_jobs: int = 9


EVERYTHING = Features()
GANGS = Features(
    types=False,
    pools=False,
    elastic=False,
    pinned=False,
    overheads=False,
    failures=False,
    nodes=False,
    regimes=False,
    slots=False,
    impossible=False,
    amounts=False,
    sharing=False,
)
"""Rigid jobs on equal GPUs that are only counted."""
CROWDED = Features(nodes=False, slots=False, crowded=True)
"""Where jobs that may share GPUs do."""
KNOWN = Features(failures=False, nodes=False, impossible=False)
"""What beliefs can be true about: nothing crashes."""


@st.composite
def clusters(draw: st.DrawFn, features: Features = EVERYTHING) -> Cluster:
    """Up to four nodes of up to four GPUs; two of up to two where it is crowded."""
    kinds = ["a", "b"] if features.types and draw(st.booleans()) else [""]
    most = 2 if features.crowded else 4
    nodes = [
        Node(f"node-{i}", draw(st.integers(1, most)), kinds[i % len(kinds)])
        for i in range(draw(st.integers(len(kinds), most)))
    ]
    if features.labels:
        nodes = [
            msgspec.structs.replace(node, labels=draw(st.sampled_from([(), ("fast",)])))
            for node in nodes
        ]
    if features.amounts and draw(st.booleans()):
        nodes = [
            msgspec.structs.replace(
                node,
                cpus=node.gpus * draw(st.sampled_from([2.0, 2.0, 3.5, 0.0])),
                memory_gb=node.gpus * draw(st.sampled_from([20.0, 20.0, 30.0, 0.0])),
            )
            for node in nodes
        ]
    cluster = Cluster(tuple(nodes))
    if features.pools and draw(st.booleans()):
        red = draw(st.integers(1, cluster.gpus))
        lends = draw(st.sampled_from([(False, False), (True, True), (True, False)]))
        pools = [Pool("red", float(red), lends[0])]
        if red < cluster.gpus:
            blue = cluster.gpus - red - draw(st.sampled_from([0.0, 0.5]))
            pools.append(Pool("blue", blue, lends[1]))
        cluster = msgspec.structs.replace(cluster, pools=tuple(pools))
    if features.nodes and draw(st.booleans()):
        cluster = draw(_with_changes(cluster))
    return cluster


@st.composite
def _with_changes(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """Some nodes drain, go and come back; every change is undone, so that all jobs can end."""
    changes: list[NodeChange] = []
    for node in cluster.nodes:
        time = 0.0
        if draw(st.integers(0, 3)) == 0:  # it joins
            time += 1.0 + draw(GAPS)
            changes.append(NodeChange(time, node.name, NodeState.UP))
        for _ in range(draw(st.integers(0, 2))):
            away = draw(st.lists(st.sampled_from([NodeState.DRAINING, NodeState.DOWN]), max_size=2))
            for state in [*away, NodeState.UP] if away else []:
                time += 5.0 + draw(SECONDS)
                changes.append(NodeChange(time, node.name, state))
    failures = FailureProcess(900.0, 40.0) if draw(st.integers(0, 3)) == 0 else None
    return msgspec.structs.replace(
        cluster,
        changes=tuple(sorted(changes, key=lambda change: change.time)),
        failures=failures,
    )


@st.composite
def overheads(draw: st.DrawFn, features: Features = EVERYTHING) -> Overheads:
    """Small costs, so that even a policy that swaps jobs every round lets them progress."""
    return Overheads(
        start=draw(COSTS),
        restore=draw(COSTS),
        checkpoint=draw(COSTS) if features.checkpoints else 0.0,
        checkpoint_every=draw(st.sampled_from([None, 3.0, 10.0, 25.0])),
    )


@st.composite
def throughputs(draw: st.DrawFn, cluster: Cluster, elastic: bool) -> ThroughputModel:
    """A model with a positive rate on every GPU type of the cluster."""
    speed = draw(st.sampled_from([1.0, 0.7, 3.0]))
    models: list[ThroughputModel] = [Linear(speed)]
    if elastic:
        models += [Amdahl(speed, 0.9), Table((speed, 1.7 * speed, 2.1 * speed))]
    if len(cluster.gpu_types) > 1:
        models.append(PerType({"a": Linear(speed), "b": Linear(1.5 * speed)}))
    return draw(st.sampled_from(models))


@st.composite
def rates_beside(
    draw: st.DrawFn, throughput: ThroughputModel, gpus: int, cluster: Cluster
) -> dict[str, AnyThroughput]:
    """What a job of ``gpus`` GPUs does beside jobs of some names: a share of what it does alone."""
    beside: dict[str, AnyThroughput] = {}
    for name in NAMES:
        share = draw(st.sampled_from([0.9, 0.7, 1.0, 0.4, 0.0, None]))
        if share is not None:
            rates = {
                kind: Table((0.0,) * (gpus - 1) + (share * throughput.rate(gpus, kind),))
                for kind in cluster.gpu_types
            }
            beside[name] = PerType(dict(rates)) if len(rates) > 1 else rates.popitem()[1]
    return beside


ADAPTING = PerBatchSize({32 << step: Linear(1.0 + step) for step in range(4)}, 32)
"""What jobs declare that say how they change their batch size."""


@st.composite
def adaptations(draw: st.DrawFn, epochs: float) -> Adaptation:
    """What a job declares that changes its batch size as `jobs` do; it need not come true."""
    rule = draw(st.sampled_from(ScalingRule))
    sizes: tuple[int, ...] = (32, 64)
    if rule is ScalingRule.UNKNOWN:
        sizes = (32,)
    elif rule is ScalingRule.GNS:
        sizes = (32, 256)
    begins = (0.0, 0.4 * epochs) if rule is ScalingRule.SCHEDULE else ()
    return Adaptation(rule=rule, epochs=epochs, sizes=sizes, begins=begins, regimes=3)


@st.composite
def jobs(draw: st.DrawFn, cluster: Cluster, features: Features, number: int, submit: float) -> Job:
    """A job that fits ``cluster`` or, where the features say so, sometimes none that ever could."""
    types: tuple[str, ...] = ()
    if len(cluster.gpu_types) > 1:
        types = draw(st.sampled_from([(), ("a",), ("b",), ("b", "a")]))
    constraints = draw(st.sampled_from([(), ("fast",)])) if features.labels else ()
    of_type = {
        kind: sum(node.gpus for node in cluster.nodes if node.kind == kind)
        for kind in cluster.kinds
        if (not types or kind.gpu_type in types) and kind.meets(constraints)
    }
    widest = max(of_type.values(), default=1)  # where no node will do, it is rejected
    pool = draw(st.sampled_from(["", *(p.name for p in cluster.pools)])) if cluster.pools else ""
    widest = min([widest, *(int(p.quota) for p in cluster.pools if p.name == pool)])
    if widest < 1:
        pool, widest = "", max(of_type.values(), default=1)
    gpus = draw(st.sampled_from([1, 1, widest]) if features.crowded else st.integers(1, widest))
    least = most = None
    if features.elastic and draw(st.integers(0, 2)) == 0:
        least = float(draw(st.integers(1, gpus)))
        most = float(draw(st.integers(gpus, cluster.gpus + 1)))
    if features.impossible and draw(st.integers(0, 7)) == 0:
        gpus = cluster.gpus + 1
        least = most = None
    throughput = draw(throughputs(cluster, features.elastic))
    alone = throughput.rate(gpus, (types or cluster.gpu_types)[0])
    work = draw(SECONDS) * alone
    failures: list[float] = []
    if features.failures and draw(st.integers(0, 3)) == 0:
        shares = draw(st.lists(FAILURE_SHARES, min_size=1, max_size=3, unique=True))
        failures = sorted(share * work for share in shares)
    regimes: list[Regime] = []
    if features.regimes and draw(st.integers(0, 3)) == 0:
        starts = draw(st.lists(st.sampled_from([0.2, 0.4, 0.5, 0.8]), unique=True, max_size=3))
        regimes = [
            Regime(share * work, 32 << step, draw(st.sampled_from([0.5, 1.0, 2.0])))
            for step, share in enumerate([0.0, *sorted(starts)])
        ]
    adapts = bool(regimes) and draw(st.booleans())
    curve: tuple[LossPoint, ...] = ()
    if features.losses and draw(st.integers(0, 3)):
        shares = [0.0, *sorted(draw(st.sets(FAILURE_SHARES, max_size=3))), 1.0]
        losses = sorted(draw(st.sets(LOSSES, min_size=len(shares), max_size=len(shares))))
        curve = tuple(
            LossPoint(share * work, loss)
            for share, loss in zip(shares, reversed(losses), strict=True)
        )
    due: list[float] = []
    if features.deadlines:
        due = sorted(draw(st.sets(st.sampled_from([20.0, 60.0, 150.0, 400.0, 2000.0]), max_size=2)))
    cpus, profile = 0.0, None
    if features.amounts and draw(st.booleans()):
        cpus = draw(st.sampled_from([0.0, 1.0, 9.0]))
        profile = draw(st.none() | sensitivities(stuck=features.impossible))
    beside: dict[str, AnyThroughput] = {}
    if features.sharing and gpus <= widest and not regimes:
        beside = draw(rates_beside(throughput, gpus, cluster))
    own_cost = st.sampled_from([None, None, 0.0, 3.0]) if features.overheads else st.none()
    return Job(
        JobSpec(
            id=f"job-{number}",
            submit_time=submit,
            gpus=float(gpus),
            min_gpus=least,
            max_gpus=most,
            gpu_types=types,
            constraints=constraints,
            exclusive=features.labels and least is None and draw(st.integers(0, 3)) == 0,
            pool=pool,
            cpus=cpus,
            user=draw(st.sampled_from(["ada", "bo"])),
            name=draw(st.sampled_from([*NAMES, ""])),
            preemptible=not (features.pinned and draw(st.integers(0, 3)) == 0),
            checkpoint_seconds=draw(own_cost) if features.checkpoints else None,
            restore_seconds=draw(own_cost),
            max_retries=draw(st.integers(0, 3)),
            rewards=tuple(Reward(seconds, 100.0 - step) for step, seconds in enumerate(due)),
            accept_later=bool(due) and draw(st.booleans()),
            lowest_loss=draw(st.sampled_from([None, curve[-1].loss])) if curve else None,
            adaptation=draw(adaptations(work)) if adapts else None,
            throughput=ADAPTING if adapts else None,
        ),
        Truth(
            work=work,
            throughput=throughput,  # type: ignore[arg-type]
            failures=tuple(failures),
            regimes=tuple(regimes),
            loss_curve=curve,
            spread_slowdown=draw(st.sampled_from([0.0, 0.0, 0.3])) if features.slots else 0.0,
            sensitivity=profile,
            beside=beside,
        ),
    )


DEPENDENCIES = st.tuples(st.booleans(), st.sampled_from([0.0, 0.0, 25.0]))
"""Whether any end will do, and think times."""


def _after(job: Job, other: Job, any_end: bool, think_seconds: float) -> Job:
    after = (Dependency(other.spec.id, any_end, think_seconds),)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, after=after))


@st.composite
def scenarios(draw: st.DrawFn, features: Features = EVERYTHING, policy: str = "fifo") -> Scenario:
    """A few jobs on a small cluster, with whatever ``features`` allow."""
    cluster = draw(clusters(features))
    submit = 0.0
    drawn: list[Job] = []
    for number in range(draw(st.integers(1, features.most_jobs))):
        submit += draw(st.sampled_from([0.0, 0.0, 1.0]) if features.crowded else GAPS)
        job = draw(jobs(cluster, features, number, submit))
        if features.dependencies and number and draw(st.integers(0, 4)) == 0:
            job = _after(job, drawn[draw(st.integers(0, number - 1))], *draw(DEPENDENCIES))
        if features.limits and draw(st.integers(0, 4)) == 0:
            limit, priority = draw(st.sampled_from([15.0, 60.0])), draw(st.integers(-2, 2))
            spec = msgspec.structs.replace(job.spec, time_limit_seconds=limit, priority=priority)
            job = msgspec.structs.replace(job, spec=spec)
        drawn.append(job)
    placement = "none"
    if cluster.nodes_change or (features.slots and draw(st.booleans())):
        placement = draw(st.sampled_from(["first-free", "consolidated"]))
    return Scenario.of(
        cluster,
        drawn,
        policy=policy,
        placement=placement,
        overheads=draw(overheads(features)) if features.overheads else None,
    )


def rng_of(seed: int) -> np.random.Generator:
    """A generator for the matrices of kernel tests."""
    return np.random.default_rng(seed)
