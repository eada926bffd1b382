"""What every placement promises by being registered. (Slots in runs are audited in test_policies.)"""

import itertools

import numpy as np
import pytest
from audit import Audit
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from resource_cases import partly_taken
from strategies import EVERYTHING, Scenario, clusters, happen, scenarios

from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobFailed
from volvelle.core.parts import placements
from volvelle.core.resources import Resources
from volvelle.model.cluster import Cluster, Node

NAMING = [name for name, part in placements.all().items() if part.names_gpus]


@pytest.mark.parametrize("placement", [*NAMING, "round-up:move=true", "buddy:lanes=true"])
@settings(max_examples=40)
@given(
    scenario=scenarios(EVERYTHING), policy=st.sampled_from(["srtf", "fifo-skip", "las:round=30"])
)
def test_slots_are_distinct_of_the_type_and_on_nodes_that_take_jobs(
    placement: str, scenario: Scenario, policy: str
) -> None:
    scenario = scenario.under(policy, placement)
    audit = Audit(scenario)
    audit.close(happen(scenario, audit).outcomes)


@st.composite
def clusters_in_use(draw: st.DrawFn) -> Resources:
    """A cluster of one GPU type some of whose GPUs are taken."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cluster = Cluster(tuple(Node(f"n{i}", gpus) for i, gpus in enumerate(widths)))
    return partly_taken(cluster, draw(st.sets(st.integers(0, sum(widths) - 1))))


@pytest.mark.parametrize("placement", NAMING)
@given(resources=clusters_in_use(), data=st.data())
def test_a_gang_that_fits_gets_exactly_its_count_of_free_gpus(
    placement: str, resources: Resources, data: st.DataObject
) -> None:
    free = resources.free.copy()
    assume(free.sum())
    gpus = data.draw(st.integers(1, int(free.sum())))
    taken = placements.make(placement).choose(free, gpus, resources)
    assert np.array_equal(free, resources.free), "what is free is only looked at"
    if taken is not None:
        assert taken.sum() == gpus
        assert np.all((taken >= 0) & (taken <= free))


@given(resources=clusters_in_use(), data=st.data())
def test_consolidated_uses_the_fewest_nodes_and_the_best_fit(
    resources: Resources, data: st.DataObject
) -> None:
    free = resources.free.copy()
    assume(free.sum())
    gpus = data.draw(st.integers(1, int(free.sum())))
    taken = placements.make("consolidated").choose(free, gpus, resources)
    assert taken is not None
    nodes = range(len(free))
    fewest = next(
        count
        for count in range(1, len(free) + 1)
        if any(free[list(some)].sum() >= gpus for some in itertools.combinations(nodes, count))
    )
    assert np.count_nonzero(taken) == fewest
    if fewest == 1:
        node = int(np.argmax(taken))
        assert free[node] == min(int(gap) for gap in free if gap >= gpus)


class Moves:
    """Notices jobs that go on with as many GPUs of the same type on other slots."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[float, int, list[int]]] = {}
        self.moved: list[int] = []

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        for event in events:
            if isinstance(event, JobFailed):
                self.held.pop(event.number)
        for row, number in enumerate(decision.job.tolist()):
            given = float(decision.gpus[row]), int(decision.gpu_type[row])
            slots = decision.slots_of(row).tolist()
            before = self.held.get(number)
            if before is not None and before[:2] == given and sorted(before[2]) != sorted(slots):
                self.moved.append(number)
            self.held[number] = (*given, slots)


@pytest.mark.parametrize("placement", NAMING)
@settings(max_examples=30)
@given(scenario=scenarios(EVERYTHING), policy=st.sampled_from(["srtf", "max-min", "las:round=30"]))
def test_a_job_whose_share_is_unchanged_keeps_its_gpus(
    placement: str, scenario: Scenario, policy: str
) -> None:
    moves = Moves()
    happen(scenario.under(policy, placement), moves)
    assert not moves.moved


@given(cluster=clusters())
def test_gpus_are_numbered_node_after_node(cluster: Cluster) -> None:
    resources = partly_taken(cluster, ())
    expected = [index for index, node in enumerate(cluster.nodes) for _ in range(node.gpus)]
    assert resources.slot_node.tolist() == expected
