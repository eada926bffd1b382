"""Synergy's division of CPUs and memory: promises, the loop against its plain twin, and the optimum."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.demand import AllWants, Declared, Wants, wants_where
from volvelle.core.parts import KnownJob
from volvelle.core.policy import policies
from volvelle.core.stock import Standing, Stock
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_SHARE
from volvelle.systems.synergy.generator import MODELS
from volvelle.systems.synergy.opt import optimum
from volvelle.systems.synergy.tune import tune, tuned
from volvelle.testing.resources import sensitivities


def plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The undecorated function behind a compiled loop."""
    return cast(Callable[..., Any], cast(Any, loop).py_func)


@dataclass(frozen=True)
class Case:
    """Jobs on nodes."""

    jobs: list[KnownJob]
    standing: Standing
    stock: Stock

    @property
    def columns(self) -> AllWants:
        return wants_where(declared(self.jobs), self.standing, self.stock)

    @property
    def wants(self) -> list[Wants]:
        return list(self.columns.each())

    @property
    def demands(self) -> tuple[FloatColumn, FloatColumn]:
        return self.columns[:2]

    def share(self, job: int) -> tuple[float, float]:
        return self.stock.share_at(self.places_of(job))

    def places_of(self, job: int) -> Any:
        return self.standing.place[self.standing.first[job] : self.standing.first[job + 1]]

    def left(self, amounts: FloatColumn) -> FloatColumn:
        """What is left of everything everywhere."""
        left = self.stock.capacity.copy()
        for job in range(len(self.jobs)):
            for k in range(self.standing.first[job], self.standing.first[job + 1]):
                left[:, self.standing.place[k]] -= amounts[:, job] * self.standing.gpus[k]
        return left


def known(
    number: int, gpus: float, profile: Any = None, cpus: float = 0.0, memory_gb: float = 0.0
) -> KnownJob:
    spec = JobSpec(id=str(number), submit_time=0.0, gpus=gpus, cpus=cpus, memory_gb=memory_gb)
    return KnownJob(spec, Truth(work=1.0, sensitivity=profile))


def declared(jobs: list[KnownJob]) -> Declared:
    return Declared.of((job.spec, job.believed.sensitivity) for job in jobs)


@st.composite
def cases(draw: st.DrawFn, most_jobs: int = 7) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = int(rng.integers(1, 4))
    room = rng.integers(1, 9, nodes)
    gpus = room.astype(np.float64)
    capacity = rng.choice([2.0, 3.0, 4.0, np.inf], (2, nodes), p=[0.3, 0.3, 0.3, 0.1]) * gpus
    capacity[1] *= 10.0
    jobs: list[KnownJob] = []
    first, place, taken = [0], [], []
    for number in range(int(rng.integers(1, most_jobs + 1))):
        if not room.any():
            break
        wanted = int(rng.integers(1, room.sum() + 1)) if rng.integers(4) == 0 else 1
        total = wanted
        for node in rng.permutation(nodes).tolist():
            here = min(wanted, int(room[node]))
            if here:
                place.append(node)
                taken.append(float(here))
                room[node] -= here
                wanted -= here
        first.append(len(place))
        profile = draw(st.none() | sensitivities())
        declared = rng.choice([0.0, 1.0, 6.0], 2)
        jobs.append(known(number, float(total), profile, declared[0] * total, declared[1] * total))
    standing = Standing(np.array(first), np.array(place), np.array(taken))
    return Case(jobs, standing, Stock(capacity, gpus))


def check_promises(case: Case, amounts: FloatColumn) -> None:
    finite = np.isfinite(case.stock.capacity)
    assert np.all(np.isfinite(amounts))
    assert np.all(amounts >= 0)
    assert np.all((case.left(amounts) >= -1e-6)[finite]), "more than there is"
    for job, wants in enumerate(case.wants):
        if wants.profile is not None:
            cpus, memory = amounts[:, job].tolist()
            promised = wants.profile.share(*case.share(job))
            assert wants.profile.share(cpus, memory) >= promised - 1e-9, "slower than its share"


@settings(max_examples=300)
@given(cases())
def test_tuning_keeps_its_promises_compiled_and_plain(case: Case) -> None:
    demand, fallback = case.demands
    amounts, full = tuned(declared(case.jobs), case.standing, case.stock)
    assert full == np.array_equal(amounts, demand)
    assert np.array_equal(
        amounts, plain(tune)(case.standing, case.stock.capacity, demand, fallback, False)
    )
    check_promises(case, amounts)
    for job in range(len(case.jobs)):
        has_demand = np.array_equal(amounts[:, job], demand[:, job])
        assert has_demand or np.array_equal(amounts[:, job], fallback[:, job])
    if np.all(case.left(demand)[np.isfinite(case.stock.capacity)] >= 0):
        assert np.array_equal(amounts, demand), "there is enough for everybody"


@given(cases())
def test_leftovers_only_add_and_leave_nothing_that_somebody_wants(case: Case) -> None:
    demand, fallback = case.demands
    before = tune(case.standing, case.stock.capacity, demand, fallback, False)
    amounts = tune(case.standing, case.stock.capacity, demand, fallback, True)
    assert np.array_equal(
        amounts, plain(tune)(case.standing, case.stock.capacity, demand, fallback, True)
    )
    check_promises(case, amounts)
    assert np.all(amounts >= before)
    left = case.left(amounts)
    for job in range(len(case.jobs)):
        short = amounts[:, job] < demand[:, job] - 1e-9
        assert np.all(left[:, case.places_of(job)].min(axis=1)[short] <= 1e-6)


@given(cases())
def test_the_fallback_is_within_the_demand_and_the_share(case: Case) -> None:
    for job, wants in enumerate(case.wants):
        for fallback, demand, share in zip(
            wants.fallback, wants.demand, case.share(job), strict=True
        ):
            assert fallback <= min(demand, share)


def test_the_last_to_come_is_served_from_those_who_have_most_above_their_share() -> None:
    """8 GPUs, 24 CPUs, 500 GB: the figures of the paper's machines."""
    image, speech = MODELS["image"], MODELS["speech"]
    jobs = [
        known(0, 1.0, MODELS["language"]["lstm"].profile),
        known(1, 1.0, image["resnet18"].profile),
        known(2, 1.0, image["mobilenet"].profile),
        known(3, 1.0, speech["deepspeech"].profile),
        known(4, 1.0, speech["deepspeech"].profile),
        known(5, 1.0, image["alexnet"].profile),
        known(6, 1.0, speech["deepspeech"].profile),
    ]

    def cpus(count: int) -> list[float]:
        standing = Standing(np.arange(count + 1), np.zeros(count, np.int64), np.ones(count))
        case = Case(jobs[:count], standing, Stock(np.array([[24.0], [500.0]]), np.array([8.0])))
        amounts = tune(case.standing, case.stock.capacity, *case.demands, False)
        check_promises(case, amounts)
        return [float(cpus) for cpus in amounts[0]]

    assert cpus(3) == [1.0, 9.0, 6.0]
    assert cpus(5) == [1.0, 9.0, 6.0, 3.0, 3.0]
    assert cpus(6) == [1.0, 3.0, 6.0, 3.0, 3.0, 3.0], "resnet18 had the most CPUs for a GPU"
    assert cpus(7) == [1.0, 3.0, 6.0, 3.0, 3.0, 3.0, 3.0]


def test_a_job_nobody_knows_has_what_it_declares_or_else_its_share() -> None:
    def demand(job: KnownJob, cpus: float = 24.0) -> list[float]:
        stock = Stock(np.array([[cpus], [480.0]]), np.array([8.0]))
        standing = Standing(np.array([0, 1]), np.array([0]), np.array([job.spec.gpus]))
        wants = wants_where(declared([job]), standing, stock)
        assert (wants.fallback <= wants.demand).all()
        return wants.demand[:, 0].tolist()  # type: ignore[no-any-return]

    assert demand(known(0, 2.0)) == [3.0, 60.0]
    assert demand(known(0, 2.0, cpus=20.0)) == [10.0, 60.0]
    assert demand(known(0, 2.0, cpus=99.0, memory_gb=10.0)) == [12.0, 5.0]
    assert demand(known(0, 1.0), np.inf) == [0.0, 60.0]


# ---------------------------------------------------------------------- the optimum


def value(case: Case, amounts: FloatColumn) -> float:
    """Rates over those with the fallback, added up."""
    total = 0.0
    for wants, (cpus, memory) in zip(case.wants, amounts.T.tolist(), strict=True):
        least = wants.value(wants.fallback)
        total += wants.value((cpus, memory)) / least if least else 1.0
    return total


def best_by_trying(case: Case) -> float:
    """The best division in which every job has a point of its profile, its fallback or its demand."""
    choices = []
    for wants in case.wants:
        points = {wants.fallback, wants.demand}
        if wants.profile is not None:
            points |= set(itertools.product(wants.profile.cpus, wants.profile.memory_gb))
        least = wants.value(wants.fallback)
        choices.append([point for point in points if wants.value(point) >= least])
    finite = np.isfinite(case.stock.capacity)
    slack = SAME_SHARE * case.stock.capacity[finite]
    return max(
        value(case, amounts)
        for amounts in (np.array(points).T for points in itertools.product(*choices))
        if np.all(case.left(amounts)[finite] >= -slack)
    )


@settings(max_examples=60, deadline=None)
@given(cases(most_jobs=3))
def test_the_program_is_within_its_gap_of_the_best_division(case: Case) -> None:
    pytest.importorskip("highspy", reason="the optimum needs the extra 'solvers'")
    found = optimum(declared(case.jobs), case.standing, case.stock, 10.0)
    check_promises(case, found.amounts)
    reached = value(case, found.amounts)
    best = best_by_trying(case)
    assert best <= reached * (1.0 + found.gap) + 1e-6, "the bound holds"
    greedy = tune(case.standing, case.stock.capacity, *case.demands, False)
    assert reached >= value(case, greedy) - 1e-9, "never worse than the heuristic"


def test_the_program_gives_cpus_to_those_who_gain_most() -> None:
    """Of 19 CPUs 20 are wanted: the loop takes from alexnet, which has most, the program from mobilenet."""
    pytest.importorskip("highspy", reason="the optimum needs the extra 'solvers'")
    image = MODELS["image"]
    jobs = [
        known(0, 1.0, image["mobilenet"].profile),
        known(1, 1.0, image["alexnet"].profile),
        known(2, 1.0, MODELS["language"]["lstm"].profile),
        known(3, 1.0, MODELS["language"]["gnmt"].profile),
    ]
    standing = Standing(np.arange(5), np.zeros(4, np.int64), np.ones(4))
    case = Case(jobs, standing, Stock(np.array([[19.0], [400.0]]), np.array([4.0])))
    greedy = tune(case.standing, case.stock.capacity, *case.demands, False)
    assert greedy[0].tolist() == pytest.approx([6.0, 4.75, 1.0, 1.0])
    found = optimum(declared(case.jobs), case.standing, case.stock, 10.0)
    assert found.amounts[0, 1] == 12.0
    assert found.gap < 0.05
    assert value(case, found.amounts) > 1.2 * value(case, greedy)


# ---------------------------------------------------------------------- the policies


def test_an_order_that_is_synergy_itself_is_refused() -> None:
    with pytest.raises(Problem, match=r"has an order of its own\. Name that one: order=srtf"):
        policies.make("synergy-tune:order=synergy-opt:order=srtf")


def test_an_order_that_stands_still_is_kept_and_any_other_is_asked_for() -> None:
    assert policies.make("synergy-tune:order=sjf").decider.name == "sjf"
    assert policies.make("synergy-tune:order=las").decider.name == "synergy-tune"


def test_the_order_may_have_a_parameter_of_its_own() -> None:
    policy = policies.make("synergy-tune:order=las:service=seconds,round=60")
    assert policy.label == "synergy-tune:round=60,order=las:service=seconds"
    assert policies.make(policy.label) == policy
    assert policy.round == 60.0
