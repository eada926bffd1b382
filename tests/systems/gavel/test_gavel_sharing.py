"""Gavel with space sharing: pairs of jobs on the same GPUs, from the program to the world."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core.decision import Decision
from volvelle.core.fork import Fork
from volvelle.core.journal import read_journal, replay
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, Table, gavel_pairs
from volvelle.simulate.run import simulate
from volvelle.simulate.world import World
from volvelle.systems.gavel.demand import Demand, Pairs, no_pairs, raise_together
from volvelle.systems.gavel.las import normaliser
from volvelle.testing.scenario import Run, Scenario, happen

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")

Floats = NDArray[np.float64]
POLICY = "gavel-las:space_sharing=true,round=100"


def job(number: int, work: float, beside: dict[str, float], gpus: int = 1, name: str = "") -> Job:
    """A job called by its number that does one unit a second alone, and so much beside others."""

    def on(rate: float) -> Table:
        return Table((0.0,) * (gpus - 1) + (rate,))

    models: dict[str, AnyThroughput] = {other: on(rate) for other, rate in beside.items()}
    spec = JobSpec(id=str(number), submit_time=0.0, gpus=float(gpus), name=name or str(number))
    return Job(spec, Truth(work=work, throughput=on(1.0), beside=models))


def together(*jobs: Job, cluster: str = "1x1", policy: str = POLICY) -> Run:
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy))


def test_two_jobs_on_one_gpu_go_at_the_rates_of_the_pair() -> None:
    run = together(job(0, 160.0, {"1": 0.8}), job(1, 160.0, {"0": 0.8}))
    assert run.outcomes.finish == pytest.approx([200.0, 200.0])
    assert run.outcomes.gpu_seconds == pytest.approx([100.0, 100.0])


def test_who_is_left_goes_on_as_in_a_pair_until_the_round_ends() -> None:
    """The first ends at 50 s; the second has done 80 by 100 s, and the other 80 alone."""
    run = together(job(0, 40.0, {"1": 0.8}), job(1, 160.0, {"0": 0.8}))
    assert run.outcomes.finish == pytest.approx([50.0, 180.0])


def test_jobs_that_lose_more_than_half_take_turns_instead() -> None:
    run = together(job(0, 100.0, {"1": 0.4}), job(1, 100.0, {"0": 0.5}))
    assert sorted(run.outcomes.finish.tolist()) == pytest.approx([100.0, 200.0])


def test_jobs_that_ask_for_different_numbers_of_gpus_do_not_share() -> None:
    wide = job(1, 100.0, {"0": 0.9}, gpus=2)
    run = together(job(0, 100.0, {"1": 0.9}), wide, cluster="1x2")
    assert sorted(run.outcomes.finish.tolist()) == pytest.approx([100.0, 200.0])


def test_wide_jobs_share_all_their_gpus() -> None:
    jobs = [job(n, 90.0, {str(1 - n): 0.9}, gpus=4) for n in range(2)]
    run = together(*jobs, cluster="1x4")
    assert run.outcomes.finish == pytest.approx([100.0, 100.0])
    assert run.outcomes.gpu_seconds == pytest.approx([200.0, 200.0])


def test_fifo_lets_who_does_not_fit_share_with_whom_it_does_best() -> None:
    """Two GPUs; the third job is better off beside the second, the fourth can share with nobody."""
    jobs = [
        job(0, 100.0, {"2": 0.8}),
        job(1, 90.0, {"2": 0.9}),
        job(2, 90.0, {"0": 0.8, "1": 0.9}),
        job(3, 50.0, {"0": 0.6}),
    ]
    policy = "gavel-fifo:space_sharing=true,round=100"
    outcomes = together(*jobs, cluster="1x2", policy=policy).outcomes
    assert outcomes.finish == pytest.approx([100.0, 100.0, 100.0, 150.0])


def crowd(seed: int) -> tuple[list[Job], str]:
    rng = np.random.default_rng(seed)
    names = ["x", "y", "z"]
    jobs = [
        job(
            n,
            float(rng.integers(50, 900)),
            {name: float(rng.choice([0.3, 0.6, 0.95])) for name in names},
            gpus=int(rng.choice([1, 2])),
            name=str(rng.choice(names)),
        )
        for n in range(int(rng.integers(2, 8)))
    ]
    late = [float(t) for t in np.sort(rng.choice([0.0, 0.0, 130.0, 260.0], len(jobs)))]
    return [
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, submit_time=at))
        for one, at in zip(jobs, late, strict=True)
    ], str(rng.choice(["1x2", "1x3"]))


@pytest.mark.parametrize("policy", [POLICY, POLICY.replace("las", "fifo")])
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_no_gpu_is_given_to_more_than_two_and_every_unit_of_work_is_done(
    policy: str, seed: int
) -> None:
    """Work is reckoned anew from the decisions: each holding at the rate of who shared it."""
    jobs, cluster = crowd(seed)
    run = together(*jobs, cluster=cluster, policy=policy)
    done = np.zeros(len(jobs))
    holds: dict[int, tuple[float, int]] = {}
    before = 0.0
    for entry in run.journal.entries:
        for number, (gpus, other) in holds.items():
            truth, width = jobs[number].truth, jobs[number].spec.gpus
            model = truth.beside[jobs[other].spec.name] if other >= 0 else truth.throughput
            assert gpus == (width if other < 0 else width / 2)
            done[number] += model.rate(width) * (entry.time - before)
        before = entry.time
        for event in entry.events:
            if type(event).__name__ == "JobFinished":
                holds.pop(event.number)  # type: ignore[union-attr]
        decision = entry.decision
        partners = decision.partner if len(decision.partner) else np.full(len(decision.job), -1)
        for number, gpus, other in zip(
            decision.job.tolist(), decision.gpus.tolist(), partners.tolist(), strict=True
        ):
            holds.pop(number, None)
            if gpus > 0:
                holds[number] = (gpus, other)
        assert sum(gpus for gpus, _ in holds.values()) <= parse_cluster(cluster).gpus + 1e-9
        for number, (_, other) in holds.items():
            if other in holds and len(decision.job):
                assert holds[other][1] == number
    assert done == pytest.approx([one.truth.work for one in jobs])


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_journals_replay_and_forecasts_come_true(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    jobs, cluster = crowd(seed)
    scenario = Scenario.of(parse_cluster(cluster), jobs, policy=POLICY)
    foreseen: list[dict[int, float]] = []

    def look_ahead(world: World) -> None:
        if world.now >= scenario.last_arrival:
            foreseen.append(Fork(world.scheduler).until().finish)

    run = happen(scenario, on_moment=look_ahead)
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    run.journal.write(path)
    replay(*read_journal(path))
    for finish in foreseen:
        for number, time in finish.items():
            assert run.outcomes.finish[number] == pytest.approx(time, rel=1e-9)


def test_decisions_that_differ_in_who_shares_are_different() -> None:
    one, other = np.array([0]), np.array([1])
    assert Decision(job=one, partner=one) != Decision(job=one, partner=other)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_pairs_help_and_no_job_is_in_two_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(2, 8)), int(rng.integers(1, 3))
    gpus = rng.choice([1.0, 2.0], jobs)
    rates = rng.choice([1.0, 3.0], (jobs, types))
    first, second = np.triu_indices(jobs, 1)
    same = gpus[first] == gpus[second]
    first, second = first[same], second[same]
    pairs = Pairs(
        first,
        second,
        rates[first] * rng.choice([0.6, 0.9], (len(first), 1)),
        rates[second] * rng.choice([0.6, 0.9], (len(first), 1)),
    )
    capacity = rng.integers(2, 5, types).astype(float)
    pool = rng.integers(-1, 1, jobs)
    quota = np.array([2.0])
    demand = Demand(rates, gpus, np.ones(jobs), pool, capacity, quota, quota, np.ones(jobs), pairs)
    nothing = np.zeros(jobs)

    def level(demand: Demand) -> tuple[Floats, float]:
        scale = normaliser(demand)
        split = demand.equal_split()
        shared = raise_together(demand, scale, np.ones(jobs), nothing, split, 10.0)
        return shared.fractions, shared.level

    fractions, best = level(demand)
    _, alone = level(demand._replace(pairs=no_pairs(types)))
    assert best >= alone - 1e-7
    scaled = normaliser(demand) * demand.throughput(fractions)
    assert scaled.min() == pytest.approx(best, rel=1e-6)
    time = fractions[:jobs].sum(axis=1)
    np.add.at(time, first, fractions[jobs:].sum(axis=1))
    np.add.at(time, second, fractions[jobs:].sum(axis=1))
    assert np.all(time <= 1 + 1e-7)
    used = gpus @ fractions[:jobs] + gpus[first] @ fractions[jobs:]
    assert np.all(used <= capacity + 1e-6)


def test_sharing_without_knowing_how_jobs_fare_is_refused() -> None:
    lonely = Scenario.of(parse_cluster("1x1"), [job(0, 60.0, {})], policy=POLICY)
    with pytest.raises(Problem, match="of no job is it known how fast it is beside others"):
        simulate(lonely.workload, lonely.setting)


def test_a_placement_that_names_gpus_is_refused() -> None:
    jobs = [job(0, 60.0, {"1": 0.9})]
    named = Scenario.of(parse_cluster("1x1"), jobs, policy=POLICY, placement="first-free")
    with pytest.raises(Problem, match="Choose --placement none"):
        simulate(named.workload, named.setting)


def test_who_does_not_know_types_cannot_share() -> None:
    jobs = [job(0, 60.0, {"1": 0.9})]
    unaware = Scenario.of(parse_cluster("1x1"), jobs, policy=f"{POLICY},aware=false")
    with pytest.raises(Problem, match="space_sharing needs aware"):
        simulate(unaware.workload, unaware.setting)


def test_pair_rates_are_read_from_gavels_file() -> None:
    document: dict[str, dict[str, dict[str, object]]] = {
        "k80": {
            "('A', 1)": {"null": 2.0, "('B', 1)": [1.5, 0.5], "('A', 1)": [0.0, 0.0]},
            "('B', 1)": {"null": 1.0, "('A', 1)": [0.5, 1.5]},
            "('A', 2)": {"null": 3.0, "('B', 2)": [2.5, 0.7], "('B', 1)": [9.0, 9.0]},
        }
    }
    pairs = gavel_pairs(document)
    assert [pairs["A"]["B"].rate(gpus, "k80") for gpus in (1, 2)] == [1.5, 2.5]
    assert pairs["B"]["A"].rate(1, "k80") == 0.5
    assert "A" not in pairs["A"]
    with pytest.raises(ValueError, match="no two rates"):
        gavel_pairs({"k80": {"('A', 1)": {"('B', 1)": 3.0}}})


def test_nobody_shares_where_there_are_gpus_enough() -> None:
    jobs = [job(n, 90.0, {str(other): 0.9 for other in range(3)}) for n in range(3)]
    run = together(*jobs, cluster="1x3")
    assert run.outcomes.finish == pytest.approx([90.0] * 3)
