"""Random small clusters and workloads, for property tests with Hypothesis."""

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.cluster import Cluster, FailureProcess, Level, Node, NodeChange, NodeState, Pool
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
from volvelle.testing.resources import sensitivities
from volvelle.testing.scenario import Scenario

SECONDS = st.sampled_from([1.0, 2.5, 7.0, 10.0, 12.3, 30.0, 45.6, 60.0, 100.0, 250.0])
GAPS = st.sampled_from([0.0, 0.0, 0.0, 0.1, 1.0, 5.0, 20.0, 33.3, 60.0, 120.0])
COSTS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 5.0])
LOSSES = st.sampled_from([0.1, 0.1001, 0.11, 0.2, 0.5, 1.0, 3.0])
NAMES = ("lm", "vision")
FAILURE_SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.9])


@dataclass(frozen=True)
class Features:
    """The features of a random scenario. Everything is switched on unless a test says otherwise."""

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
    levels: bool = False  # nodes in racks, over which gangs are slower
    crowded: bool = False  # many jobs alike come at once to few GPUs
    parts: bool = False  # jobs that ask for less than a GPU
    uneven: bool = False  # GPUs that differ by class of job
    most_jobs: int = 9


EVERYTHING = Features()
WITH_PARTS = Features(parts=True)
"""The same with parts of GPUs, which every policy serves or rejects."""
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
"""Scenarios without crashes, of which beliefs can be true."""


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
    if features.uneven:
        factors = st.sampled_from([1.0, 1.0, 0.8, 1.25, 2.0])
        nodes = [
            msgspec.structs.replace(
                node, slowdowns=(("varies", tuple(draw(factors) for _ in range(node.gpus))),)
            )
            for node in nodes
        ]
    if features.levels:
        nodes = [
            msgspec.structs.replace(node, domain=draw(st.sampled_from([("a",), ("b",)])))
            for node in nodes
        ]
    levels = (Level("rack", 1.5),) if features.levels else ()
    cluster = Cluster(tuple(nodes), levels=levels)
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
    """Rates of a job of ``gpus`` GPUs beside jobs of some names: a share of its rate alone."""
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
"""The throughput of jobs that declare how they change their batch size."""


@st.composite
def adaptations(draw: st.DrawFn, epochs: float) -> Adaptation:
    """The declaration of a job that changes its batch size as `jobs` do; it need not come true."""
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
    whole = draw(st.sampled_from([1, 1, widest]) if features.crowded else st.integers(1, widest))
    gpus = float(whole)
    least = most = None
    if features.elastic and draw(st.integers(0, 2)) == 0:
        least = float(draw(st.integers(1, whole)))
        most = float(draw(st.integers(whole, cluster.gpus + 1)))
    if features.impossible and draw(st.integers(0, 7)) == 0:
        gpus = cluster.gpus + 1.0
        least = most = None
    if features.parts and draw(st.integers(0, 2)) == 0:
        gpus, least, most = draw(st.sampled_from([0.5, 0.3, 0.7, 1 / 3])), None, None
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
    if features.sharing and 1 <= gpus <= widest and not regimes:
        beside = draw(rates_beside(throughput, int(gpus), cluster))
    varies = [name for name, _ in cluster.nodes[0].slowdowns]
    own_cost = st.sampled_from([None, None, 0.0, 3.0]) if features.overheads else st.none()
    return Job(
        JobSpec(
            id=f"job-{number}",
            submit_time=submit,
            gpus=gpus,
            min_gpus=least,
            max_gpus=most,
            gpu_types=types,
            constraints=constraints,
            exclusive=features.labels and least is None and draw(st.integers(0, 3)) == 0,
            pool=pool,
            cpus=cpus,
            variability=draw(st.sampled_from([*varies, ""])) if varies else "",
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
