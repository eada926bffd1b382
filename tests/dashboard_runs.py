"""A small run for the dashboard."""

from volvelle.dashboard.run import RunMoments
from volvelle.model.cluster import parse_cluster
from volvelle.testing.scenario import Scenario, happen, linear_job


def two_jobs_and_a_late_one() -> RunMoments:
    """From 100 s on: job 0 has both nodes for 10 s, then job 1, which came at 104 s, has one for 5 s."""
    cluster = parse_cluster("2x2")
    jobs = [linear_job(0, 100.0, 4.0, 10.0), linear_job(1, 104.0, 1.0, 5.0)]
    run = happen(Scenario.of(cluster, jobs, placement="first-free"))
    return RunMoments("a run", "fifo", cluster, run.outcomes)
