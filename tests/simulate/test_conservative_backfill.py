"""Conservative backfill: by hand, and that nobody who comes later delays anybody."""

from hypothesis import given, settings

from volvelle.core.fork import Fork
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.testing.strategies import GANGS, scenarios


def test_a_job_that_easy_would_start_waits_where_it_would_delay_the_second_in_the_queue() -> None:
    """Four GPUs, two until 10 s. B wants three then, until 15 s; C all four after that.

    D (one GPU, 30 s) takes only what B leaves over, so EASY starts it at once, and C starts at 30 s.
    """
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 0.0, 3.0, 5.0),
        linear_job(2, 0.0, 4.0, 5.0),
        linear_job(3, 0.0, 1.0, 30.0),
    ]
    starts = {
        policy: happen(
            Scenario.of(parse_cluster("1x4"), jobs, policy=policy)
        ).outcomes.first_start.tolist()
        for policy in ("easy", "conservative")
    }
    assert starts["easy"] == [0.0, 10.0, 30.0, 0.0]
    assert starts["conservative"] == [0.0, 10.0, 15.0, 20.0]


@settings(max_examples=40)
@given(scenarios(GANGS))
def test_nobody_starts_later_than_if_nobody_came_after_him(scenario: Scenario) -> None:
    """With true beliefs the start reserved at submission holds, whoever comes."""
    reserved: dict[int, float] = {}

    def look(world: World) -> None:
        for number, start in Fork(world.scheduler).until().start.items():
            reserved.setdefault(number, start)

    outcomes = happen(scenario.under("conservative"), on_moment=look).outcomes
    assert len(reserved) == len(outcomes)
    for number, start in reserved.items():
        assert outcomes.first_start[number] <= start + 1e-6


@settings(max_examples=50)
@given(scenarios(GANGS))
def test_first_in_first_out_is_never_better_for_anybody(scenario: Scenario) -> None:
    conservative = happen(scenario.under("conservative")).outcomes
    fifo = happen(scenario.under("fifo:elastic=false")).outcomes
    for number in range(len(fifo)):
        assert conservative.first_start[number] <= fifo.first_start[number] + 1e-6
