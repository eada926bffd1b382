"""EASY: by hand, and that the head of the queue is never delayed."""

import pytest
from hypothesis import given, settings

from volvelle.core.fork import Fork
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.testing.strategies import GANGS, scenarios


def test_the_textbook_example() -> None:
    """Four GPUs. A holds two until 10 s; B wants four: reserved for 10 s.

    C (one GPU, 10 s) ends by then and starts at once. D (one GPU, 11 s) would delay B and waits,
    though a GPU is idle; E (one GPU, 8 s, at 2 s) fits the hole.
    """
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 0.0, 4.0, 5.0),
        linear_job(2, 0.0, 1.0, 10.0),
        linear_job(3, 0.0, 1.0, 11.0),
        linear_job(4, 2.0, 1.0, 8.0),
    ]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy="easy"))
    assert run.outcomes.first_start.tolist() == [0.0, 10.0, 0.0, 15.0, 2.0]


def test_a_long_job_may_use_the_gpus_the_head_leaves_over() -> None:
    """The head needs three of the four GPUs that are free at 10 s: one is extra, and only one."""
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 0.0, 3.0, 5.0),
        linear_job(2, 0.0, 1.0, 100.0),
        linear_job(3, 0.0, 1.0, 100.0),
    ]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy="easy"))
    assert run.outcomes.first_start.tolist() == [0.0, 10.0, 0.0, 15.0]


def as_fifo(scheduler: Scheduler) -> Scheduler:
    """The same state from now on under strict fifo."""
    fork = scheduler.fork()
    fork.composition = fork.composition._replace(policy=policies.make("fifo:elastic=false"))
    return fork


@settings(max_examples=60)
@given(scenarios(GANGS))
def test_the_head_starts_no_later_than_if_nobody_were_let_past_it(scenario: Scenario) -> None:
    """From the moment at which a job is the first that waits, strict fifo would start it at the
    earliest possible time: when enough of what runs now has ended."""
    promised: dict[int, float] = {}

    def promise(world: World) -> None:
        scheduler = world.scheduler
        jobs = scheduler.view().jobs
        waiting = sorted(jobs.number[~jobs.running].astype(int).tolist())
        for head in waiting[:1]:
            if head not in promised:
                promised[head] = Fork(as_fifo(scheduler)).until().start[head]

    outcomes = happen(scenario.under("easy"), on_moment=promise).outcomes
    for number, start in promised.items():
        assert outcomes.first_start[number] <= start + 1e-9 * max(start, 1.0)


@settings(max_examples=50)
@given(scenarios(GANGS))
def test_letting_jobs_past_the_head_never_costs_the_first_who_waits(scenario: Scenario) -> None:
    easy = happen(scenario.under("easy")).outcomes
    fifo = happen(scenario.under("fifo")).outcomes
    waited = [n for n in range(len(fifo)) if fifo.first_start[n] > fifo.submit_time[n]]
    for first in waited[:1]:
        assert easy.first_start[first] == pytest.approx(fifo.first_start[first])


def test_an_elastic_job_is_backfilled_by_the_time_it_takes_on_what_it_requests() -> None:
    """The head waits for four GPUs until 10 s. The last job runs 30 s on the GPU it would get."""
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 0.0, 4.0, 5.0),
        linear_job(2, 0.0, 1.0, 30.0, min_gpus=1.0, max_gpus=4.0),
    ]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy="easy"))
    assert run.outcomes.first_start.tolist() == [0.0, 10.0, 15.0]


def test_what_a_start_costs_is_part_of_when_a_job_is_believed_to_end() -> None:
    """The first job ends at 11 s; the third, started at 1 s, would end at 12 s and delay the head."""
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 1.0, 4.0, 5.0),
        linear_job(2, 1.0, 1.0, 10.0),
    ]
    scenario = Scenario.of(
        parse_cluster("1x4"), jobs, policy="easy", overheads=Overheads(start=1.0)
    )
    assert happen(scenario).outcomes.first_start.tolist() == [0.0, 11.0, 17.0]


def test_what_the_head_leaves_counts_all_that_end_when_it_starts() -> None:
    """Two jobs of two GPUs end together; the head takes three of five, so a long narrow job may start."""
    jobs = [
        linear_job(0, 0.0, 2.0, 100.0),
        linear_job(1, 0.0, 2.0, 100.0),
        linear_job(2, 1.0, 3.0, 50.0),
        linear_job(3, 2.0, 1.0, 500.0),
    ]
    outcomes = happen(Scenario.of(parse_cluster("1x5"), jobs, policy="easy")).outcomes
    assert outcomes.first_start.tolist() == [0.0, 0.0, 100.0, 2.0]
