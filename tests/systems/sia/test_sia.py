"""Sia: types and counts by hand-worked examples."""

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import AnyThroughput, PerType, Table
from volvelle.systems.sia.policy import _counts
from volvelle.testing.scenario import Run, Scenario, happen

HOUR = 3600.0


def job(number: int, slow: float, fast: float, most: int = 1) -> Job:
    """An hour of work on one slow GPU at rate 1; every further GPU of its type adds as much."""
    spec = JobSpec(id=str(number), submit_time=0.0, gpus=1, min_gpus=1, max_gpus=most)
    types: dict[str, AnyThroughput] = {
        kind: Table(tuple(rate * gpus for gpus in range(1, most + 1)))
        for kind, rate in (("slow", slow), ("fast", fast))
    }
    return Job(spec, Truth(work=HOUR, throughput=PerType(types)))


def under(jobs: list[Job], cluster: str, policy: str = "sia") -> Run:
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy))


def test_the_type_goes_to_the_job_that_gains_most_by_it() -> None:
    """Both want the one fast GPU; it is four times as fast for the second, twice for the first."""
    finish = under([job(0, 1.0, 2.0), job(1, 1.0, 4.0)], "1x1:slow,1x1:fast").outcomes.finish
    assert finish[1] == HOUR / 4
    assert finish[0] > HOUR / 2


def test_a_job_grows_to_twice_its_gpus_each_round() -> None:
    run = under([job(0, 1.0, 1.0, most=4)], "1x4:slow")
    held = run.outcomes.segments
    assert held.gpus.tolist() == [1.0, 2.0, 4.0]
    assert held.start.tolist() == [0.0, 60.0, 120.0]


def test_every_job_is_served_before_one_grows() -> None:
    run = under([job(number, 1.0, 1.0, most=4) for number in range(4)], "1x4:slow")
    assert run.outcomes.first_start.tolist() == [0.0] * 4


def test_configurations_are_powers_of_two_on_a_node_and_whole_nodes_beyond() -> None:
    assert _counts(4, 16.0).tolist() == [1.0, 2.0, 4.0, 8.0, 12.0, 16.0]
    assert _counts(8, 16.0).tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]
