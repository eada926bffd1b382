"""Chronus' round-up: Proposition 1 and what follows from it; brute force; jobs that move."""

import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.parts import Gang, KnownJob, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.model.cluster import Cluster, Node, parse_cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.systems.chronus.round_up import RoundUp
from volvelle.systems.hived.cells import round_up
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen, linear_job

ANY = KnownJob(JobSpec(id="a", submit_time=0.0), Truth(work=1.0))


def placed(
    resources: Resources, gangs: Sequence[int], placement: str = "round-up"
) -> list[IntColumn | None]:
    """Places for gangs of these GPUs; they hold what they ask for, and nobody's GPUs."""
    batch = [Gang(ANY, gpus) for gpus in gangs]
    chosen = list(
        cast(RoundUp, placements.make(placement)).choose_batch(batch, resources.free, resources)
    )
    total = np.zeros_like(resources.free)
    for gpus, taken in zip(gangs, chosen, strict=True):
        if taken is not None:
            assert taken.sum() == gpus
            total += taken
    assert (total <= resources.free).all()
    return chosen


def all_together(chosen: Sequence[IntColumn | None], gangs: Sequence[int], node: int) -> bool:
    """Whether each gang stands on as few nodes of ``node`` GPUs as could hold it."""
    return all(
        taken is not None and np.count_nonzero(taken) == -(-gpus // node)
        for taken, gpus in zip(chosen, gangs, strict=True)
    )


@st.composite
def gangs_within(draw: st.DrawFn, node: int, *, friendly: bool) -> tuple[int, list[int]]:
    """Free nodes, and gangs that, rounded up, ask for no more GPUs than these have."""
    nodes = draw(st.integers(1, 6))
    left, gangs = nodes * node, []
    for gpus in draw(st.lists(st.integers(1, 3 * node), max_size=20)):
        wanted = round_up(gpus, node)
        if wanted <= left:
            left -= wanted
            gangs.append(wanted if friendly else gpus)
    return nodes, gangs


@pytest.mark.parametrize("node", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("friendly", [True, False])
@given(data=st.data())
def test_proposition_1(node: int, friendly: bool, data: st.DataObject) -> None:
    """Whatever asks, rounded up, for no more than there is stands together, hostile gangs too (Eq. 6)."""
    nodes, gangs = data.draw(gangs_within(node, friendly=friendly))
    resources = partly_taken(parse_cluster(f"{nodes}x{node}"), ())
    assert all_together(placed(resources, gangs), gangs, node)


@given(data=st.data())
def test_proposition_1_on_nodes_of_six(data: st.DataObject) -> None:
    """6 = 4 + 2: as many nodes of four and of two; each kind takes what the proposition lets it."""
    nodes = data.draw(st.integers(1, 6))
    gangs = []
    for node, widths in ((4, [1, 2, 3, 4]), (2, [1, 2])):
        left = nodes * node
        for gpus in data.draw(st.lists(st.sampled_from(widths), max_size=12)):
            if round_up(gpus, node) <= left:
                left -= round_up(gpus, node)
                gangs.append(gpus)
    gangs = data.draw(st.permutations(gangs))
    resources = partly_taken(parse_cluster(f"{nodes}x6"), ())
    assert all_together(placed(resources, gangs), gangs, 6)


def could_stand(free: Sequence[int], sizes: Sequence[int], node: int) -> bool:
    """Whether gangs, rounded up to ``sizes``, could each stand together: by trying all nodes."""
    if not sizes:
        return True
    each, count = (sizes[0], 1) if sizes[0] <= node else (node, sizes[0] // node)
    for some in itertools.combinations(range(len(free)), count):
        if all(free[n] >= each for n in some):
            left = [gpus - each * (n in some) for n, gpus in enumerate(free)]
            if could_stand(left, sizes[1:], node):
                return True
    return False


@settings(max_examples=300)
@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_all_stand_together_wherever_they_could(node: int, nodes: int, data: st.DataObject) -> None:
    taken = data.draw(st.sets(st.integers(0, node * nodes - 1)))
    resources = partly_taken(parse_cluster(f"{nodes}x{node}"), taken)
    gangs = data.draw(st.lists(st.integers(1, 2 * node), max_size=5))
    sizes = [round_up(gpus, node) for gpus in gangs]
    if could_stand(resources.free.tolist(), sizes, node):
        assert all_together(placed(resources, gangs), gangs, node)


def test_gpus_beyond_a_gang_are_for_others_that_stand_together_on_them() -> None:
    """Three of four, three of four, and the two that are left of eight apart from each other."""
    resources = partly_taken(parse_cluster("1x8"), ())
    chosen = placed(resources, [3, 3, 2])
    assert [None if taken is None else taken.tolist() for taken in chosen] == [[3], [3], [2]]


def test_who_would_stand_apart_waits_or_not() -> None:
    resources = partly_taken(parse_cluster("2x4"), [0, 4])
    assert placed(resources, [4, 2])[0] is None
    apart = placed(resources, [4, 2], "round-up:wait=false")
    assert [None if taken is None else taken.tolist() for taken in apart] == [[1, 3], [2, 0]]


@settings(max_examples=200)
@given(data=st.data())
def test_gangs_that_may_move_stay_or_make_room(data: st.DataObject) -> None:
    """Whatever the nodes' GPUs suffice for, rounded up, stands together once those that run may move."""
    node = data.draw(st.sampled_from([4, 6, 8]))
    nodes = data.draw(st.integers(1, 4))
    cluster = Cluster(tuple(Node(f"n{i}", node) for i in range(nodes)))
    room = np.full(nodes, node)
    running = []
    for gpus, at in data.draw(st.lists(st.tuples(st.integers(1, node), st.integers(0, nodes - 1)))):
        if room[at] >= gpus:
            room[at] -= gpus
            held = np.zeros(nodes, dtype=np.int64)
            held[at] = gpus
            running.append(Gang(ANY, gpus, held))
    new = [Gang(ANY, g) for g in data.draw(st.lists(st.integers(1, 2 * node), max_size=4))]
    resources = partly_taken(cluster, ())
    batch = [*running, *new]
    gangs = [gang.gpus for gang in batch]
    chosen = RoundUp().choose_batch(batch, resources.free, resources)
    if could_stand([node] * nodes, [round_up(gpus, node) for gpus in gangs], node):
        assert all_together(chosen, gangs, node)
    if not new:
        rounded = np.zeros(nodes, dtype=np.int64)
        for gang in running:
            assert gang.nodes is not None
            rounded[np.argmax(gang.nodes)] += round_up(gang.gpus, node)
        if (rounded <= node).all():
            for gang, taken in zip(running, chosen, strict=True):
                assert taken is not None
                assert gang.nodes is not None
                assert np.array_equal(taken, gang.nodes), "nobody is moved for nothing"


def test_a_running_job_moves_where_it_may() -> None:
    """Two narrow jobs are left on two nodes; then a gang of a whole node comes."""
    jobs = [linear_job(0, 0.0, 3.0, 20.0), linear_job(1, 0.0, 1.0, 100.0)]
    jobs += [linear_job(2, 1.0, 1.0, 100.0), linear_job(3, 30.0, 4.0, 10.0)]

    def outcomes(placement: str) -> tuple[list[float], list[float]]:
        overheads = {"restore": 7.0}
        scenario = Scenario.of(
            parse_cluster("2x4"), jobs, placement=placement, overheads=Overheads(**overheads)
        )
        run = happen(scenario)
        assert happen(scenario, compiled=True).journal_bytes == run.journal_bytes
        return run.outcomes.first_start.tolist(), run.outcomes.finish.tolist()

    assert outcomes("round-up") == ([0.0, 0.0, 1.0, 100.0], [20.0, 100.0, 101.0, 110.0])
    moved = [20.0, 100.0, 101.0 + 7.0, 40.0]
    assert outcomes("round-up:move=true") == ([0.0, 0.0, 1.0, 30.0], moved)
