"""Chronus' local search: algorithm 1 against trying everything, its equations, its limits."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.parts import Gang, KnownJob
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import LINEAR, Log2
from volvelle.placement.basic import consolidate
from volvelle.systems.chronus.local_search import (
    LocalSearch,
    Place,
    Sized,
    count_places,
    places,
    search,
    sized,
    table,
)
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen, linear_job

SLOWDOWNS = [0.0, 0.1, 0.5, 1.0, 4.0, 9.0]


def gang(gpus: int, slowdown: float) -> Gang:
    truth = Truth(work=1.0, spread_slowdown=slowdown)
    return Gang(KnownJob(JobSpec(id="a", submit_time=0.0, gpus=float(gpus)), truth), gpus)


@st.composite
def batches(draw: st.DrawFn, most: int = 4) -> tuple[Resources, list[Gang]]:
    """Up to three nodes of a size, some GPUs taken, and gangs that their GPUs suffice for."""
    node, nodes = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    taken = draw(st.sets(st.integers(0, node * nodes - 1)))
    resources = partly_taken(parse_cluster(f"{nodes}x{node}"), taken)
    left, gangs = int(resources.free.sum()), []
    for gpus in draw(st.lists(st.integers(1, max(2 * node - 1, 1)), max_size=most)):
        if gpus <= left:
            left -= gpus
            gangs.append(gang(gpus, draw(st.sampled_from(SLOWDOWNS))))
    return resources, gangs


def rewards(gangs: Sequence[Gang], resources: Resources) -> list[Sized]:
    return [sized(one, resources.free, resources) for one in gangs]


def earned(chosen: Sequence[IntColumn | None], known: Sequence[Sized]) -> float:
    """What gangs earn in all; each has its place."""
    total = 0.0
    for taken, one in zip(chosen, known, strict=True):
        assert taken is not None
        assert taken.sum() == one.gpus
        total += one.reward(int(np.count_nonzero(taken)))
    return total


def by_potential(known: Sequence[Sized]) -> list[Sized]:
    return sorted(known, key=lambda one: -one.potential)


def in_turn(free: IntColumn, known: Sequence[Sized]) -> float:
    """Quasi-consolidation of gangs one after another."""
    left, total = free.copy(), 0.0
    for one in known:
        taken = consolidate(left, one.gpus)
        left -= taken
        total += one.reward(int(np.count_nonzero(taken)))
    return total


def by_trying_all(free: IntColumn, known: Sequence[Sized], searched: int, node: int) -> float:
    """Lines 5 to 12 of the algorithm, over nodes one by one."""
    options = [places(one.gpus, node, len(free)) for one in known[:searched]]
    best = 0.0
    for combination in itertools.product(*options):
        left, total = free.copy(), 0.0
        for place, one in zip(combination, known, strict=False):
            taken = place.take(left)
            if taken.sum() != one.gpus or (taken > left).any():
                break
            if np.count_nonzero(taken) != len(place.split) or (
                place.on and left[np.argmax(taken)] != place.on
            ):
                break
            left -= taken
            total += one.reward(len(place.split))
        else:
            best = max(best, total + in_turn(left, known[searched:]))
    return best


@settings(max_examples=300)
@given(batches())
def test_the_best_of_all_combinations(batch: tuple[Resources, list[Gang]]) -> None:
    resources, gangs = batch
    node = int(np.diff(resources.first_slot).max())
    small = [one for one in gangs if one.gpus < 2 * node]
    known = rewards(small, resources)
    chosen = LocalSearch().choose_batch(small, resources.free, resources)
    total = np.sum([np.zeros_like(resources.free), *(c for c in chosen if c is not None)], axis=0)
    assert (total <= resources.free).all()
    ranked = by_potential(known)
    sensitive = sum(one.potential > 0.0 for one in known)
    best = by_trying_all(resources.free, ranked, sensitive, node)
    assert earned(chosen, known) == pytest.approx(best)
    assert earned(chosen, known) >= in_turn(resources.free, ranked) - 1e-9


@settings(max_examples=100)
@given(batches(), st.integers(1, 60))
def test_as_many_are_searched_as_the_space_allows(
    batch: tuple[Resources, list[Gang]], space: int
) -> None:
    resources, gangs = batch
    node, nodes = int(np.diff(resources.first_slot).max()), int(np.count_nonzero(resources.free))
    small = [one for one in gangs if one.gpus < 2 * node]
    known = rewards(small, resources)
    ranked = by_potential(known)
    combinations = np.cumprod([count_places(one.gpus, node, nodes) for one in ranked])
    searched = int(np.count_nonzero(combinations <= space))
    searched = min(searched, sum(one.potential > 0.0 for one in known))
    chosen = LocalSearch(space=space).choose_batch(small, resources.free, resources)
    best = by_trying_all(resources.free, ranked, searched, node)
    assert earned(chosen, known) == pytest.approx(best)


@settings(max_examples=50)
@given(batches(5), st.data())
def test_the_compiled_search_is_its_plain_twin(
    batch: tuple[Resources, list[Gang]], data: st.DataObject
) -> None:
    resources, gangs = batch
    node, nodes = int(np.diff(resources.first_slot).max()), int(np.count_nonzero(resources.free))
    known = by_potential(rewards(gangs, resources))
    many = data.draw(st.integers(0, len(known)))
    options = [one.places(node, nodes) for one in known[:many]]
    flat = [(one, place) for one, some in zip(known, options, strict=False) for place in some]
    parts = np.zeros((len(flat), 12), dtype=np.int64)
    for row, (_, place) in enumerate(flat):
        parts[row, : len(place.split)] = place.split
    arguments = (
        np.bincount(resources.free, minlength=node + 1),
        np.cumsum([0, *map(len, options)]),
        parts,
        np.array([place.on for _, place in flat], dtype=np.int64),
        np.array([one.reward(len(place.split)) for one, place in flat]),
        *table(known[many:]),
    )
    assert np.array_equal(search(*arguments), search.py_func(*arguments))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_places_are_counted(gpus: int, node: int, nodes: int) -> None:
    every = places(gpus, node, nodes) if gpus <= node * nodes else ()
    assert len(set(every)) == len(every)
    assert all(sum(place.split) == gpus for place in every)
    if every:
        assert count_places(gpus, node, nodes) == len(every)


def test_places_of_three_on_nodes_of_four() -> None:
    assert places(3, 4, 2) == (Place((3,), 3), Place((3,), 4), Place((2, 1)))


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (Truth(work=1.0), (4.0, 4.0, 4.0)),
        (Truth(work=1.0, spread_slowdown=1.0), (4.0, 2.0, 4.0 / 3.0)),
        (Truth(work=1.0, throughput=LINEAR), (4.0, 4.0, 4.0)),
    ],
)
def test_equations_7_and_8(truth: Truth, expected: tuple[float, ...]) -> None:
    resources = partly_taken(parse_cluster("3x4"), [0])
    known = KnownJob(JobSpec(id="a", submit_time=0.0, gpus=4.0), truth)
    one = sized(Gang(known, 4), resources.free, resources)
    assert one.rewards == pytest.approx(expected)
    assert one.potential == pytest.approx(max(expected) - min(expected))


def test_a_throughput_model_that_goes_by_nodes_counts() -> None:
    resources = partly_taken(parse_cluster("3x4"), [])
    truth = Truth(work=1.0, throughput=Log2(1.0, 1.5))
    one = sized(Gang(KnownJob(gang(4, 0.0).job.spec, truth), 4), resources.free, resources)
    rates = [truth.rate(4, "", nodes) for nodes in (1, 2, 3)]
    assert one.rewards == pytest.approx([4 * rate / rates[0] for rate in rates])
    assert one.potential > 0.0


def test_large_gangs_get_whole_nodes_before_the_others() -> None:
    resources = partly_taken(parse_cluster("3x4"), [])
    gangs = [gang(1, 9.0), gang(8, 0.0)]
    chosen = LocalSearch().choose_batch(gangs, resources.free, resources)
    assert [None if c is None else c.tolist() for c in chosen] == [[0, 0, 1], [4, 4, 0]]


def test_it_finds_what_one_after_another_misses() -> None:
    """Nodes with 5 and 4 GPUs free: gangs of 2, 4 and 3, the first the most sensitive, fit as 2 + 3 and 4."""
    blockers = [linear_job(0, 0.0, 1.0, 1000.0)]
    jobs = [
        Job(linear_job(n, 1.0, gpus, 60.0).spec, Truth(work=60.0 * gpus, spread_slowdown=slowdown))
        for n, (gpus, slowdown) in enumerate([(2.0, 19.0), (4.0, 0.8), (3.0, 1.0)], start=1)
    ]

    def ends(placement: str) -> list[float]:
        scenario = Scenario.of(parse_cluster("2x5"), [*blockers, *jobs], placement=placement)
        run = happen(scenario)
        assert happen(scenario, compiled=True).journal_bytes == run.journal_bytes
        finish: list[float] = run.outcomes.finish.tolist()
        return finish[1:]

    assert ends("consolidated") == [61.0, 61.0, 121.0]
    assert ends("local-search") == [61.0, 61.0, 61.0]
