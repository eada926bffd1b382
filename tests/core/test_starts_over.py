"""Jobs that begin anew when they were stopped: what they did is lost, in the world and in look-aheads."""

import msgspec
import pytest

from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job


def scenario() -> Scenario:
    """A long job, and a short one that takes its GPU after 40 s."""
    long = linear_job(0, 0.0, 1.0, 100.0)
    long = msgspec.structs.replace(long, spec=msgspec.structs.replace(long.spec, starts_over=True))
    return Scenario.of(parse_cluster("1x1"), [long, linear_job(1, 40.0, 1.0, 10.0)], policy="srtf")


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_a_stopped_job_begins_anew(compiled: bool) -> None:
    outcomes = happen(scenario(), compiled=compiled).outcomes
    assert outcomes.finish.tolist() == [150.0, 50.0], "100 s after the short job, not 60 s"


def test_a_look_ahead_ends_where_jobs_that_begin_anew_take_turns() -> None:
    """Under least attained service each stops the other before it is through."""
    scheduler = scenario().under(policy="las", estimator="declared").scheduler()
    spec = scenario().jobs[0].spec
    arrivals = [
        JobSubmitted(
            0.0, number, msgspec.structs.replace(spec, id=str(number), estimate_seconds=2e3)
        )
        for number in range(2)
    ]
    scheduler.handle(0.0, arrivals)
    assert Fork(scheduler).until().finish.keys() == {0, 1}


def test_a_look_ahead_counts_what_is_lost() -> None:
    ends: list[float] = []

    def look(world: World) -> None:
        if world.scheduler.now == 40.0:
            ends.append(Fork(world.scheduler).until(0).finish[0])

    happen(scenario(), on_moment=look)
    assert ends[-1] == 150.0
