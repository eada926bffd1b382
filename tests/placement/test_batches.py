"""Placements that choose for all jobs of a decision together."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs

from volvelle.core.facets import PlacesBatches
from volvelle.core.parts import Gang, Placement
from volvelle.core.resources import Resources
from volvelle.core.scheduler import Scheduler
from volvelle.model.arrays import IntColumn
from volvelle.model.cluster import parse_cluster
from volvelle.placement.basic import consolidate
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import Features, scenarios

GANGS = Features(elastic=False)


class OneByOne(Placement, PlacesBatches):
    """Consolidated, in a batch; it notes what it is asked."""

    name: ClassVar[str] = "one-by-one"
    asked: ClassVar[list[list[int]]] = []

    def choose_batch(
        self, gangs: Sequence[Gang], free: IntColumn, resources: Resources
    ) -> list[IntColumn | None]:
        self.asked.append([gang.gpus for gang in gangs])
        chosen: list[IntColumn | None] = []
        for gang in gangs:
            fits = int(free.sum()) >= gang.gpus
            chosen.append(consolidate(free, gang.gpus) if fits else None)
            free = free - (consolidate(free, gang.gpus) if fits else 0)
        return chosen


def placed_by(placement: Placement, scenario: Scenario, *, compiled: bool = False) -> Run:
    made = scenario.scheduler()
    composition = scenario.setting.composition.build()._replace(placement=placement)
    scheduler = Scheduler(scenario.cluster, composition, overheads=made.overheads, seed=made.seed)
    return happen(scenario, scheduler=scheduler, compiled=compiled)


@needs("gavel")
@settings(max_examples=60)
@given(
    scenario=scenarios(GANGS),
    policy=st.sampled_from(["fifo-skip", "srtf", "las:round=30", "gavel-las", "optimus"]),
    compiled=st.booleans(),
)
def test_a_batch_in_turn_decides_what_one_after_another_does(
    scenario: Scenario, policy: str, compiled: bool
) -> None:
    scenario = scenario.under(policy, "consolidated")
    assert placed_by(OneByOne(), scenario, compiled=compiled).journal_bytes == (
        happen(scenario).journal_bytes
    )


def test_a_decision_asks_once_for_all_its_jobs() -> None:
    OneByOne.asked.clear()
    jobs = [linear_job(n, 0.0, gpus, 10.0) for n, gpus in enumerate((3.0, 1.0, 4.0, 2.0))]
    jobs.append(linear_job(4, 5.0, 8.0, 10.0))
    placed_by(OneByOne(), Scenario.of(parse_cluster("2x8"), jobs))
    assert OneByOne.asked == [[3, 1, 4, 2], [8]]


def test_each_gpu_type_is_a_batch_of_its_own() -> None:
    OneByOne.asked.clear()
    jobs = [linear_job(n, 0.0, gpus, 10.0) for n, gpus in enumerate((3.0, 4.0, 1.0))]
    placed_by(OneByOne(), Scenario.of(parse_cluster("1x4:a,1x4:b"), jobs))
    assert sorted(OneByOne.asked) == [[3, 1], [4]]


class Last(OneByOne):
    """Stands wherever nobody is, from the last node on; may move."""

    @property
    def moves(self) -> bool:
        return True

    def choose_batch(
        self, gangs: Sequence[Gang], free: IntColumn, resources: Resources
    ) -> list[IntColumn | None]:
        """Those that run go together on one node; a gang of a whole node waits for one."""
        self.asked.append([gang.gpus for gang in gangs])
        together = any(gang.nodes is not None for gang in gangs)
        chosen: list[IntColumn | None] = []
        for gang in gangs:
            fits = np.flatnonzero(free >= gang.gpus)
            if not len(fits):
                chosen.append(None)
                continue
            taken = np.zeros_like(free)
            taken[fits[0] if together else fits[np.argmax(free[fits])]] = gang.gpus
            free = free - taken
            chosen.append(taken)
        return chosen


def test_running_jobs_make_room_where_a_gang_would_wait() -> None:
    """Two jobs of one GPU stand apart; the gang of a node comes, one of them goes to the other."""
    OneByOne.asked.clear()
    jobs = [linear_job(n, float(n), 1.0, 100.0) for n in range(2)]
    jobs.append(linear_job(2, 10.0, 4.0, 10.0))
    scenario = Scenario.of(parse_cluster("2x4"), jobs)
    run = placed_by(Last(), scenario)
    assert OneByOne.asked == [[1], [1], [4], [1, 1, 4]]
    entry = run.journal.entries[2]
    assert entry.time == 10.0
    numbers = entry.decision.job.tolist()
    slots = [entry.decision.slots_of(row).tolist() for row in range(len(numbers))]
    assert dict(zip(numbers, slots, strict=True)) == {1: [1], 2: [4, 5, 6, 7]}
    assert run.outcomes.first_start.tolist() == [0.0, 1.0, 10.0]
    assert placed_by(Last(), scenario, compiled=True).journal_bytes == run.journal_bytes
