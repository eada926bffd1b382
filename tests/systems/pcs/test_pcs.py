"""PCS: queues by variation, shares by weight, caps by efficiency, and the extremes of section 3.1."""

from typing import Any, cast

import numpy as np
import pytest
from growth_cases import plain
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core import columns
from volvelle.core.compiled import compiled
from volvelle.core.fill import ClusterNow
from volvelle.core.groups import over_all
from volvelle.core.policy import policies
from volvelle.core.state import CHANGED
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Table
from volvelle.systems.pcs.policy import Pcs
from volvelle.systems.pcs.queues import create_queues, one_queue_variation
from volvelle.systems.pcs.shares import (
    cap,
    choose_types,
    decide,
    fair_shares,
    join,
    kept,
    memory_of,
)
from volvelle.systems.pcs.whole import give_whole
from volvelle.testing.scenario import Scenario, happen, linear_job

SIZES = st.lists(st.floats(1.0, 1e7), min_size=1, max_size=60)


def elastic(number: int, submit: float, work: float, rates: tuple[float, ...]) -> Job:
    most = float(len(rates))
    spec = JobSpec(id=f"{number}", submit_time=submit, gpus=most, min_gpus=1.0, max_gpus=most)
    return Job(spec, Truth(work=work, throughput=Table(rates)))


def outcomes_of(policy: str, cluster: str, *jobs: Job) -> Outcomes:
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy)).outcomes


def shares_at(outcomes: Outcomes, time: float) -> dict[int, float]:
    segments = outcomes.segments
    there = (segments.start <= time) & (time < segments.end)
    return dict(zip(segments.job[there].tolist(), segments.gpus[there].tolist(), strict=True))


# ---------------------------------------------------------------------- queues


@given(SIZES, st.floats(0.01, 5.0))
def test_variation_within_every_queue_is_at_most_the_threshold(
    sizes: list[float], variation: float
) -> None:
    queues = create_queues(sizes, variation, 1.0)
    assert list(queues.thresholds) == sorted(set(queues.thresholds))
    mine = np.searchsorted(queues.thresholds, sizes, side="left")
    for queue in range(len(queues.weights)):
        members = [size for size, of in zip(sizes, mine, strict=True) if of == queue]
        assert members, "no queue without a job"
        assert (
            np.var(members) / np.mean(members) ** 2 <= variation * (1 + 1e-9)
            or len(set(members)) == 1
        )
    assert sum(queues.weights) == pytest.approx(1.0)


@given(SIZES)
def test_all_variation_allowed_is_one_queue(sizes: list[float]) -> None:
    assert create_queues(sizes, one_queue_variation(sizes), 2.0).thresholds == ()


def test_a_queue_ends_at_the_size_before_the_one_too_many() -> None:
    queues = create_queues([10.0, 11.0, 12.0, 1000.0, 1100.0], 0.1, 1.0)
    assert queues.thresholds == (12.0,)
    assert queues.weights[1] / queues.weights[0] == pytest.approx(np.exp(-1.0))
    assert policies.make(f"pcs:{queues.written}").label == f"pcs:{queues.written}"


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(Problem, match="above 0"):
        create_queues([1.0, 0.0], 1.0, 1.0)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ("thresholds=10/5", "ascend"),
        ("weights=1/2", "2 weights for 1 queues"),
        ("thresholds=10,weights=1/0", "greater than 0"),
        ("own_queues=true,thresholds=10", "own_queues"),
        ("delta=-0.1", "delta"),
        ("efficiency=2", "efficiency"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: str, complaint: str) -> None:
    with pytest.raises(Problem, match=complaint):
        policies.make(f"pcs:{parameters}")


def test_a_size_at_the_threshold_is_below_it() -> None:
    policy = cast(Pcs, policies.make("pcs:thresholds=10/20"))
    assert policy.queue_of(np.array([9.0, 10.0, 10.1, 20.0, 21.0])).tolist() == [0, 0, 1, 1, 2]


# ---------------------------------------------------------------------- shares


@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 50.0)), min_size=1, max_size=8),
    st.floats(0.0, 100.0),
)
def test_shares_are_weighted_max_min(queues: list[tuple[float, float]], capacity: float) -> None:
    weights, demand = np.array([w for w, _ in queues]), np.array([d for _, d in queues])
    shares = fair_shares(weights, demand, capacity)
    assert np.all(shares <= demand + 1e-9)
    assert shares.sum() == pytest.approx(min(capacity, demand.sum()), abs=1e-9)
    short = shares < demand - 1e-9
    if short.any():
        level = (shares / weights)[short]
        assert np.ptp(level) <= 1e-9 * level.max()
        assert np.all(shares / weights <= level.max() * (1 + 1e-9))


def test_guaranteed_shares_are_kept_and_fractions_given() -> None:
    jobs = [linear_job(n, 0.0, 4.0, 10.0 ** (n + 1), min_gpus=1.0) for n in range(2)]
    outcomes = outcomes_of("pcs:thresholds=100,weights=4/1", "1x4", *jobs)
    assert shares_at(outcomes, 0.0) == pytest.approx({0: 3.2, 1: 0.8})
    assert outcomes.finish.tolist() == pytest.approx([12.5, 110.0])


def test_a_queue_is_first_in_first_out() -> None:
    jobs = [linear_job(n, float(n), 4.0, 10.0) for n in range(3)]
    outcomes = outcomes_of("pcs:thresholds=1,weights=1/1", "1x4", *jobs)
    assert outcomes.finish.tolist() == [10.0, 20.0, 30.0]


POOR = (1.0, 1.5, 1.8, 2.0)
"""Efficiency 1, 0.75, 0.6, 0.5."""


def test_the_cap_leaves_gpus_to_those_behind_and_what_they_leave_goes_back() -> None:
    jobs = elastic(0, 0.0, 1000.0, POOR), elastic(1, 0.0, 1000.0, POOR)
    capped = outcomes_of("pcs:efficiency=0.7", "1x4", *jobs)
    assert shares_at(capped, 0.0) == {0: 2.0, 1: 2.0}
    assert shares_at(outcomes_of("pcs", "1x4", *jobs), 0.0) == {0: 4.0}
    assert shares_at(outcomes_of("pcs:efficiency=0.7", "1x7", *jobs), 0.0) == {0: 4.0, 1: 3.0}


def test_the_simulator_lifts_caps_of_all_at_once_and_begins_anew() -> None:
    """With a floor of 0.6 both may have 3: the first takes them, and one of the second's two."""
    jobs = elastic(0, 0.0, 1000.0, POOR), elastic(1, 0.0, 1000.0, POOR)
    outcomes = outcomes_of("pcs:efficiency=0.75,delta=0.15", "1x5", *jobs)
    assert shares_at(outcomes, 0.0) == {0: 3.0, 1: 2.0}
    fewer = outcomes_of("pcs:efficiency=0.75,delta=0.75", "1x5", *jobs)
    assert shares_at(fewer, 0.0) == {0: 4.0, 1: 1.0}


def test_a_job_below_its_fewest_gpus_has_them_for_a_share_of_the_time() -> None:
    """Half of two GPUs, on which it does 1.5 units a second, for the time of the other job."""
    spec = JobSpec(id="0", submit_time=0.0, gpus=2.0)
    gang = Job(spec, Truth(work=150.0, throughput=Table((1.4, 1.5))))
    other = linear_job(1, 0.0, 1.0, 100.0, max_gpus=2.0)
    outcomes = outcomes_of("pcs:thresholds=100,weights=1/1", "1x2", gang, other)
    assert shares_at(outcomes, 0.0) == {0: 1.0, 1: 1.0}
    assert outcomes.finish.tolist() == pytest.approx([150.0, 100.0])


def test_fractions_and_a_placement_that_names_gpus_do_not_go_together() -> None:
    scenario = Scenario.of(
        parse_cluster("1x2"),
        [linear_job(0, 0.0, 1.0, 5.0)],
        policy="pcs:whole=false",
        placement="first-free",
    )
    with pytest.raises(Problem, match="whole"):
        happen(scenario)


# ---------------------------------------------------------------------- extremes of section 3.1


def workload(seed: int) -> list[Job]:
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.exponential(20.0, 40))
    return [
        linear_job(
            n, float(t), 1.0, float(rng.lognormal(4.0, 1.5)), max_gpus=float(rng.integers(1, 5))
        )
        for n, t in enumerate(submit)
    ]


@pytest.mark.parametrize("whole", ["false", "true"])
@pytest.mark.parametrize("seed", range(3))
def test_one_queue_is_fifo(seed: int, whole: str) -> None:
    jobs = workload(seed)
    fifo = outcomes_of("fifo:preemptive=true", "1x6", *jobs)
    ours = outcomes_of(f"pcs:whole={whole}", "1x6", *jobs)
    assert ours.finish.tolist() == pytest.approx(fifo.finish.tolist(), rel=1e-9)


def test_equal_weights_of_own_queues_are_max_min_fair() -> None:
    jobs = [
        linear_job(n, 0.0, 1.0, 10.0 ** (n + 1), max_gpus=most) for n, most in enumerate([1, 8, 8])
    ]
    outcomes = outcomes_of("pcs:own_queues=true", "1x8", *jobs)
    assert shares_at(outcomes, 0.0) == {0: 1.0, 1: 3.5, 2: 3.5}


@pytest.mark.parametrize("seed", range(3))
def test_much_disparity_of_own_queues_is_shortest_job_first(seed: int) -> None:
    jobs = workload(seed)
    shortest = outcomes_of("sjf:preemptive=true", "1x1", *[narrow(job) for job in jobs])
    ours = outcomes_of("pcs:own_queues=true,disparity=40", "1x1", *[narrow(job) for job in jobs])
    assert ours.finish.tolist() == pytest.approx(shortest.finish.tolist(), rel=1e-6)


def narrow(job: Job) -> Job:
    return linear_job(int(job.spec.id[4:]), job.spec.submit_time, 1.0, job.truth.work)


# ---------------------------------------------------------------------- whole GPUs


@pytest.mark.parametrize("weights", ["3/1", "1/1", "9/1"])
def test_whole_gpus_keep_the_shares_over_time(weights: str) -> None:
    """Three gangs of two, always wanting all of three GPUs, in two queues."""
    jobs = [linear_job(0, 0.0, 2.0, 20_000.0), linear_job(1, 0.0, 3.0, 200_000.0, min_gpus=1.0)]
    policy = f"pcs:thresholds=100000,weights={weights},whole=true,turn=10"
    outcomes = outcomes_of(policy, "1x3", *jobs)
    first, second = map(float, weights.split("/"))
    until = outcomes.finish[0]
    share = min(3.0 * first / (first + second), 2.0)
    assert outcomes.gpu_seconds[0] / until == pytest.approx(share, rel=0.01)
    held = sum(
        (min(end, until) - start) * gpus
        for job, start, end, gpus in zip(
            outcomes.segments.job,
            outcomes.segments.start,
            outcomes.segments.end,
            outcomes.segments.gpus,
            strict=True,
        )
        if job == 1 and start < until
    )
    assert held / until >= (3.0 - share) * 0.6, "a gang of two leaves one GPU of three at most idle"
    assert np.all(outcomes.segments.gpus == np.rint(outcomes.segments.gpus))


# ---------------------------------------------------------------------- twins


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, pools, queues = draw(st.integers(1, 9)), draw(st.integers(0, 2)), draw(st.integers(1, 3))
    m = np.zeros((columns.COUNT, jobs))
    m[columns.NUMBER] = np.arange(jobs)
    m[columns.LEAST] = rng.integers(1, 3, jobs)
    m[columns.MOST] = m[columns.LEAST] + rng.integers(0, 6, jobs)
    m[columns.POOL] = rng.integers(-1, pools, jobs)
    m[columns.UNIT_RATE] = rng.choice([1.0, np.nan, np.nan], jobs)
    m[columns.CURVE] = rng.integers(0, 3, jobs)
    m[columns.PREEMPTIBLE] = rng.random(jobs) < 0.8
    m[columns.TYPES] = 1.0
    m[columns.TYPE] = -1.0
    running = rng.random(jobs) < 0.3
    m[columns.HELD, running] = m[columns.LEAST, running]
    m[columns.TYPE, running] = 0.0
    m[columns.PINNED] = running & (rng.random(jobs) < 0.1)
    steps = rng.choice([0.2, 0.5, 1.0], (3, 1, 12))
    steps[:, :, 0] = 0.0
    return {
        "matrix": m,
        "table": np.cumsum(steps, axis=2),
        "rows": np.arange(jobs),
        "queue": rng.integers(0, queues, jobs),
        "weights": rng.choice([0.5, 0.3, 0.01], queues),
        "capacity": float(m[columns.HELD].sum() + rng.integers(0, 12)),
        "quota": rng.choice([3.0, 7.0, 20.0], pools) + m[columns.HELD].sum(),
        "floor": float(rng.choice([0.0, 0.5, 0.9])),
        "owed": rng.normal(0.0, 50.0, queues),
    }


def whole(case: dict[str, Any], loop: Any) -> list[float]:
    gpus, quota = np.zeros(len(case["rows"])), case["quota"].copy()
    given = [case[k] for k in ("matrix", "table", "rows", "queue", "weights", "capacity")]
    shares = loop(*given, quota, 0, case["floor"], 10.0, case["owed"], gpus)
    assert gpus.sum() <= case["capacity"] + 1e-9
    assert np.all(gpus <= case["matrix"][columns.MOST])
    assert np.all(quota >= -1e-9)
    return [*gpus.tolist(), *shares.tolist()]


def divided(case: dict[str, Any], loop: Any, delta: float, *more: float) -> list[list[float]]:
    """GPUs, types and what for of the jobs that change. more: GPUs of a second type."""
    m, weights = case["matrix"], case["weights"]
    capacity = np.array([case["capacity"], *more])
    out, rows, counters = np.zeros((3, m.shape[1])), case["rows"].copy(), np.zeros(CHANGED + 1, int)
    quota, rates = case["quota"], np.repeat(case["table"], len(capacity), 1)
    cluster = ClusterNow(0.0, capacity, quota, quota, np.ones(len(quota)), rates)
    memory = memory_of(case["floor"], delta, np.zeros(0), weights)
    loop(m, case["queue"], len(weights), cluster, memory, out, rows, counters)
    changed = rows[: counters[CHANGED]]
    gpus = m[columns.HELD].copy()
    gpus[changed] = out[0, changed]
    assert list(changed) == sorted(set(changed))
    assert gpus.sum() <= capacity.sum() + 1e-9
    assert np.all(gpus <= m[columns.MOST])
    assert np.all(gpus[changed] != m[columns.HELD, changed])
    return [column.tolist() for column in out[:, changed]]


@settings(max_examples=200)
@given(states())
def test_shares_are_the_same_compiled_and_plain(case: dict[str, Any]) -> None:
    loop: Any = over_all(decide)
    assert whole(case, give_whole) == whole(case, plain(give_whole))
    for delta in (0.0, 0.2):
        assert divided(case, loop, delta) == divided(case, plain(loop), delta)
    m, capacity = case["matrix"], np.array([case["capacity"], 3.0])
    m[columns.TYPES] = 3.0
    assert divided(case, loop, 0.0, 3.0) == divided(case, plain(loop), 0.0, 3.0)
    chosen = compiled(choose_types)(m, case["rows"], capacity)
    assert chosen.tolist() == choose_types(m, case["rows"], capacity).tolist()
    wide, other = (np.vstack([m, np.zeros((2, m.shape[1]))]) for _ in range(2))
    wide[columns.TOTAL] = other[columns.TOTAL] = np.arange(m.shape[1]) * 7.0
    wide[columns.SCALE] = other[columns.SCALE] = 1.0
    for matrix, loop in ((wide, join), (other, plain(join))):
        loop(matrix, m.shape[1], columns.COUNT, case["table"], np.array([10.0, 30.0]))
    np.testing.assert_array_equal(wide, other)
    for row in range(len(case["rows"])):
        rates = case["table"][int(m[columns.CURVE, row])][0]
        assert compiled(kept)(m, row) == kept(m, row)
        assert compiled(cap)(m, row, rates, 0.7) == cap(m, row, rates, 0.7)
