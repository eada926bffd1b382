"""Promises of placements. (GPUs held by name in runs are audited with every policy, too.)"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobFailed
from volvelle.core.facets import PlacesAllAnew, PlacesBatches
from volvelle.core.log import EachMoment
from volvelle.core.parts import Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.cluster import Cluster, Node
from volvelle.testing.audit import audited
from volvelle.testing.machine_code import check_machine_code, small_setting
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen
from volvelle.testing.strategies import EVERYTHING, WITH_PARTS, scenarios

placement_promises: Promises[Placement] = Promises(placements.make)


def _names_gpus(placement: Placement) -> bool:
    return placement.names_gpus


@st.composite
def clusters_in_use(draw: st.DrawFn) -> Resources:
    """A cluster of one GPU type some of whose GPUs are taken."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cluster = Cluster(tuple(Node(f"n{i}", gpus) for i, gpus in enumerate(widths)))
    return partly_taken(cluster, draw(st.sets(st.integers(0, sum(widths) - 1))))


@placement_promises.promise(_names_gpus)
def gpus_are_distinct_of_the_type_and_on_nodes_that_take_jobs(placement: str) -> None:
    """The audit of whole runs under several policies."""

    def check(scenario: Scenario, policy: str) -> None:
        audited(scenario.under(policy, placement))

    under = st.sampled_from(["srtf", "fifo-skip", "las:round=30"])
    features = replace(WITH_PARTS, levels=True, uneven=True)
    on_random(24, check, scenario=scenarios(features), policy=under)


@placement_promises.promise(_names_gpus)
def a_gang_that_fits_gets_exactly_its_count_of_free_gpus(placement: str) -> None:
    """`Placement.choose` takes what is free, as much as is asked for, and changes nothing.

    Where a gang that fits on a node `may_spread` not, it takes one node.
    """

    def check(resources: Resources, data: st.DataObject) -> None:
        free = resources.free.copy()
        assume(free.sum())
        gpus = data.draw(st.integers(1, int(free.sum())))
        made = placements.make(placement)
        taken = made.choose(free, gpus, resources)
        assert np.array_equal(free, resources.free), "what is free is only looked at"
        if taken is not None:
            assert taken.sum() == gpus
            assert np.all((taken >= 0) & (taken <= free))
            largest = int(np.max(resources.node_gpus, where=resources.schedulable, initial=0))
            if gpus <= largest and not made.may_spread(gpus, largest):
                assert np.count_nonzero(taken) == 1

    on_random(60, check, resources=clusters_in_use(), data=st.data())


class Moves(EachMoment):
    """Notices jobs that go on with as many GPUs of the same type on other slots."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[float, int, list[int]]] = {}
        self.moved: list[int] = []

    def record(self, time: float, events: Iterable[Event], decision: Decision) -> None:
        """Compare the slots of each job in ``decision`` with the slots that it held before."""
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


def _moves(placement: Placement) -> bool:
    return isinstance(placement, PlacesAllAnew) or (
        isinstance(placement, PlacesBatches) and placement.moves
    )


@placement_promises.promise(lambda placement: placement.names_gpus and not _moves(placement))
def a_job_whose_share_is_unchanged_keeps_its_gpus(placement: str) -> None:
    """Jobs move only where their share changes, or under a placement that `moves` them."""

    def check(scenario: Scenario, policy: str) -> None:
        moves = Moves()
        happen(scenario.under(policy, placement), moves)
        assert not moves.moved

    under = st.sampled_from(["srtf", "max-min", "las:round=30"])
    on_random(20, check, scenario=scenarios(EVERYTHING), policy=under)


@placement_promises.promise()
def machine_code_predicts_and_measures_the_same(placement: str) -> None:
    """Predictions, the choices of a synthesizer and figures of a search, compiled and interpreted."""
    check_machine_code(small_setting(placement=placement))
