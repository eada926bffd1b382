"""Buddy cells as a placement: what was agreed is always given; cells of gangs stay whole."""

import numpy as np
from buddies import Buddies
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from volvelle.core.resources import Resources
from volvelle.core.state import State
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.simulate.world import World
from volvelle.systems.hived.cells import level_of
from volvelle.systems.hived.placement import Buddy
from volvelle.testing.scenario import Scenario, happen, linear_job


class Held:
    """Gangs on the nodes of a cluster."""

    def __init__(self, nodes: list[int]) -> None:
        self.state = State()
        cluster = Cluster(tuple(Node(f"n{i}", gpus) for i, gpus in enumerate(nodes)))
        self.resources = Resources(cluster, self.state)
        self.slots: dict[int, list[int]] = {}
        self.numbers = 0

    def start(self, gpus: int) -> list[int] | None:
        placement = Buddy()
        free = self.resources.free
        if free.sum() < gpus:
            return None
        taken = placement.choose(free, gpus, self.resources)
        if taken is None:
            return None
        mine: list[int] = []
        for node in np.flatnonzero(taken).tolist():
            slots = self.resources.free_slots(node)
            picked = placement.pick(slots, int(taken[node]), node, self.resources).tolist()
            assert set(picked) <= set(slots.tolist())
            mine += picked
            self._own(picked, self.numbers)
        assert len(mine) == gpus
        self.slots[self.numbers] = mine
        self.numbers += 1
        return mine

    def end(self, number: int) -> None:
        self._own(self.slots.pop(number), -1)

    def _own(self, slots: list[int], owner: int) -> None:
        for slot in slots:
            self.state.slots.owner[slot] = owner
            self.state.nodes.free[self.state.slots.node[slot]] += 1 if owner < 0 else -1


@settings(max_examples=100)
@given(
    nodes=st.lists(st.sampled_from([2, 3, 4, 6, 8]), min_size=1, max_size=4),
    agreed=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    data=st.data(),
)
def test_gangs_within_what_was_agreed_never_wait(
    nodes: list[int], agreed: list[int], data: st.DataObject
) -> None:
    """HiveD's theorem for gangs of any width on a node: by level no more than cells agreed on."""
    assume(Buddies.of(nodes).fits(agreed))
    largest = 1 << (max(nodes).bit_length() - 1)
    held = Held(nodes)
    used: list[list[int]] = [[] for _ in agreed]
    for gpus, comes in data.draw(
        st.lists(st.tuples(st.integers(1, largest), st.booleans()), max_size=40)
    ):
        level = level_of(gpus)
        if comes and len(used[level]) < agreed[level]:
            slots = held.start(gpus)
            assert slots is not None
            assert len(set(held.resources.slot_node[slots].tolist())) == 1
            used[level].append(held.numbers - 1)
        elif used[level]:
            place = data.draw(st.integers(0, len(used[level]) - 1))
            held.end(used[level].pop(place))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_whatever_the_cluster_has_is_given_when_it_is_empty(
    nodes: list[int], data: st.DataObject
) -> None:
    held = Held(nodes)
    slots = held.start(data.draw(st.integers(1, sum(nodes))))
    assert slots is not None
    assert len(set(slots)) == len(slots)


def test_the_rest_of_a_cell_stays_empty() -> None:
    held = Held([8])
    assert held.start(3) == [0, 1, 2]
    assert held.start(1) == [4]
    assert held.start(4) is None
    held.end(1)
    assert held.start(4) == [4, 5, 6, 7]
    assert held.start(1) is None


def test_wide_gangs_take_whole_nodes_and_a_cell() -> None:
    held = Held([8, 8, 8])
    assert held.start(1) == [0]
    assert held.start(12) == [4, 5, 6, 7, *range(8, 16)]
    assert held.start(16) is None
    assert Held([6]).start(5) == [0, 1, 2, 3, 4]


# ---------------------------------------------------------------------- guests


@st.composite
def shared(draw: st.DrawFn) -> tuple[Cluster, list[Job]]:
    """Pools that own nodes of eight and lend them; jobs of 1 to 8 GPUs come faster than they go."""
    count = draw(st.integers(2, 4))
    pools = tuple(Pool(f"pool-{n}", 8.0, lends=True) for n in range(count))
    jobs, time = [], 0.0
    for number in range(draw(st.integers(4, 30))):
        time += draw(st.sampled_from([0.0, 0.0, 1.0, 5.0]))
        gpus, seconds = draw(st.sampled_from([1, 1, 2, 3, 4, 8])), draw(st.sampled_from([2.0, 9.0]))
        owner = pools[draw(st.integers(0, count - 1))].name
        jobs.append(linear_job(number, time, gpus, seconds, pool=owner))
    return Cluster(tuple(Node(f"node-{n}", 8) for n in range(count)), pools), jobs


@settings(max_examples=60)
@given(shared(), st.sampled_from(["mmfs", "fifo:preemptive=false", "hived-nonpreemptive"]))
def test_guests_never_start_in_the_buddy_of_a_dedicated_cell(
    case: tuple[Cluster, list[Job]], policy: str
) -> None:
    """Whoever starts as a guest has a cell of its own, in whose buddy no dedicated job stood."""
    cluster, jobs = case
    scenario = Scenario.of(cluster, jobs, policy=policy, placement="buddy:lanes=true")
    guests = 0

    def look(world: World) -> None:
        nonlocal guests
        scheduler = world.scheduler
        view, owner = scheduler.view(), scheduler.resources.owner
        lanes = dict(
            zip(view.jobs.number.astype(int).tolist(), view.borrowed.tolist(), strict=True)
        )
        begun = dict(
            zip(view.jobs.number.astype(int).tolist(), view.jobs.column("started"), strict=True)
        )
        for number, guest in lanes.items():
            slots = np.flatnonzero(owner == number)
            if not guest or begun[number] != world.now or not len(slots):
                continue
            guests += 1
            size = 1 << level_of(len(slots))
            cell = int(slots[0]) // size
            assert set(slots // size) == {cell}
            if size < 8:
                buddy = owner[(cell ^ 1) * size : ((cell ^ 1) + 1) * size]
                older = [n for n in buddy[buddy >= 0].tolist() if begun[n] < world.now]
                assert all(lanes[other] for other in older)

    run = happen(scenario, on_moment=look)
    assert np.isfinite(run.outcomes.finish).all()
    event(f"{min(guests, 3)} guests or more")


def test_without_lanes_a_guest_stands_beside_a_dedicated_job() -> None:
    """Red owns one GPU of two: its second job waits for the end of the first, or stands beside it."""
    pools = (Pool("red", 1.0, lends=True), Pool("blue", 1.0, lends=True))
    cluster = Cluster((Node("node", 2),), pools)
    jobs = [linear_job(n, 0.0, 1.0, 10.0, pool="red") for n in range(2)]
    starts = {
        placement: happen(
            Scenario.of(cluster, jobs, policy="mmfs", placement=placement)
        ).outcomes.first_start.tolist()
        for placement in ("buddy", "buddy:lanes=true")
    }
    assert starts == {"buddy": [0.0, 0.0], "buddy:lanes=true": [0.0, 10.0]}
