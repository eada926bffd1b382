"""On from a snapshot: the forecast as a run, under the same composition or another."""

from itertools import islice

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.fork import Fork
from volvelle.core.journal import replay
from volvelle.core.snapshot import Snapshot
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.resumed import resumed, setting_of
from volvelle.testing.scenario import Scenario, happen, linear_job


def snapshot(placement: str = "consolidated") -> Snapshot:
    jobs = [linear_job(n, 7.0 * n, 1.0 + n % 3, 50.0 + 40.0 * (n % 4)) for n in range(12)]
    scenario = Scenario.of(
        parse_cluster("2x2"),
        jobs,
        policy="srtf",
        placement=placement,
        overheads=Overheads(checkpoint=3.0, restore=5.0),
    )
    run = happen(scenario)
    return Snapshot.of(replay(run.journal.header, islice(run.journal.entries, 12)), "0")


def test_jobs_go_on_as_forecast() -> None:
    taken = snapshot()
    ahead = Fork(taken.scheduler()).until()
    outcomes = resumed(taken, setting_of(taken, taken.header.composition)).outcomes
    assert len(outcomes) == len(ahead.finish) > 4
    expected = [finish - taken.now for _, finish in sorted(ahead.finish.items())]
    np.testing.assert_allclose(outcomes.finish, expected)
    assert set(outcomes.status) == {JobStatus.FINISHED}
    assert outcomes.segments.start.min() == 0.0


def test_another_policy_takes_over_what_there_is() -> None:
    taken = snapshot()
    fifo = WrittenComposition("fifo", "consolidated")
    outcomes = resumed(taken, setting_of(taken, fifo)).outcomes
    assert set(outcomes.status) == {JobStatus.FINISHED}
    assert not outcomes.preemptions.any()


def test_a_placement_that_only_counts_cannot_take_over_jobs_on_named_gpus() -> None:
    taken = snapshot()
    with pytest.raises(Problem, match="placement 'none' only counts GPUs, and jobs of the snapsh"):
        resumed(taken, setting_of(taken, WrittenComposition("fifo", "none")))


def test_a_placement_that_names_gpus_cannot_take_over_jobs_on_counted_ones() -> None:
    taken = snapshot("none")
    with pytest.raises(
        Problem, match="placement 'consolidated' names GPUs, and jobs of the snapsh"
    ):
        resumed(taken, setting_of(taken, WrittenComposition("srtf", "consolidated")))
