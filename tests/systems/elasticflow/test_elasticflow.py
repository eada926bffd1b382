"""ElasticFlow: its simulator's results job by job, and its rules by hand-worked examples."""

import csv
from pathlib import Path

import numpy as np
import pytest
from elasticflow_clock import CLOCKS, simulated

from volvelle.model.cluster import Cluster, Node, Pool, parse_cluster
from volvelle.model.job import Job, JobSpec, Reward, Truth
from volvelle.model.throughput import Table
from volvelle.policies.profile import Profile
from volvelle.systems.elasticflow.shares import (
    Share,
    Wish,
    Wishes,
    empty_plan,
    grow,
    least_share,
    share_out,
    start_gangs,
)
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.workload.reading import read_trace

HOUR = 3600.0


class TestTheAuthorsSimulator:
    @pytest.mark.parametrize("scheduler", CLOCKS)
    def test_every_job_starts_and_ends_as_there(self, shared: Path, scheduler: str) -> None:
        """Every recorded run; jobs that are missing there were declined."""
        runs = sorted((shared / "golden/elasticflow/runs").glob(f"*__n*g*__{scheduler}.csv"))
        assert runs
        for run in runs:
            trace, cluster, _ = run.stem.split("__")
            nodes, gpus = map(int, cluster.removeprefix("n").split("g"))
            tables = shared / "data/elasticflow/scheduler/throughputs_A100"
            workload = read_trace(
                run.with_name(f"{trace}.csv"),
                "elasticflow-measured",
                options={"throughputs": tables},
            )
            rows = {row["job_id"]: row for row in csv.DictReader(run.open())}
            first = float(next(csv.DictReader(run.with_name(f"{trace}.csv").open()))["submit_time"])
            jobs = list(workload)
            found = simulated(scheduler, jobs, nodes * gpus, 240.0)
            assert {jobs[place].spec.id for place in found} == rows.keys()
            for place, (start, end, held) in found.items():
                row = rows[jobs[place].spec.id]
                there = tuple(float(row[name]) for name in ("start_time", "end_time", "num_gpu"))
                assert (start + first, end + first, held) == there, (
                    f"{run.name}, job {row['job_id']}"
                )


def test_an_elastic_job_grows_no_larger_than_the_quota_of_its_pool() -> None:
    """Its request is of all that the pool has, and the next power of two is of more: it waited for ever."""
    job = linear_job(0, 0.0, 2.0, 10.0, min_gpus=1.0, max_gpus=5.0, pool="red")
    cluster = Cluster((Node("n0", 8),), (Pool("red", 2.0), Pool("blue", 6.0)))
    run = happen(Scenario.of(cluster, [job], policy="elasticflow"))
    assert run.outcomes.finish.tolist() == [10.0]


class TestLeastShare:
    """On 8 GPUs, 1 unit a second on one GPU and half as much more on each next level, in slots of 100 s."""

    LEVELS, SPEED = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 1.5, 2.25, 3.375])

    def share(self, work: float, deadline: float, free: dict[float, float]) -> Share:
        times, gpus = np.array(list(free)), np.array(list(free.values()))
        profile = Profile(times, gpus, np.array([len(times)]))
        wish = Wish(work, deadline, self.LEVELS, self.SPEED)
        return least_share(profile, wish, -1, 100.0, np.zeros(9), np.zeros(9))

    def test_one_gpu_where_that_is_enough(self) -> None:
        share = self.share(150.0, 1000.0, {0.0: 8.0})
        assert (share.gpus.tolist(), share.end, share.real_end) == ([1.0], 200.0, 150.0)

    def test_more_where_one_would_be_late(self) -> None:
        share = self.share(150.0, 100.0, {0.0: 8.0})
        assert (share.gpus.tolist(), share.real_end) == ([2.0], 100.0)

    def test_the_higher_level_as_late_as_will_do(self) -> None:
        """From 50 s on two GPUs do 225 of 210 units, so that before one is enough."""
        share = self.share(210.0, 200.0, {0.0: 4.0, 50.0: 8.0})
        assert share.at.tolist() == [0.0, 50.0]
        assert share.gpus.tolist() == [1.0, 2.0]

    def test_what_is_free_is_all_that_it_gets(self) -> None:
        share = self.share(320.0, 200.0, {0.0: 3.0, 100.0: 8.0})
        assert share.gpus.tolist() == [2.0, 4.0]

    def test_a_deadline_that_cannot_be_met_is_missed_on_all_that_is_free(self) -> None:
        share = self.share(1000.0, 200.0, {0.0: 3.0, 100.0: 8.0})
        assert share.gpus.tolist() == [2.0, 8.0]
        assert share.real_end > 200.0

    def test_without_a_deadline_a_job_is_planned_behind_the_others(self) -> None:
        share = self.share(100.0, np.inf, {0.0: 4.0, 300.0: 8.0})
        assert (share.at.tolist(), share.gpus.tolist()) == ([0.0, 300.0], [0.0, 1.0])


class TestGangs:
    @pytest.mark.parametrize("seed", range(60))
    def test_they_start_as_if_they_grew(self, seed: int) -> None:
        """Now, and when something changes next, though only jobs with deadlines and one more are planned."""
        rng, slot, now = np.random.default_rng(seed), 100.0, 1000.0
        many, due = int(rng.integers(1, 9)), int(rng.integers(0, 5))
        deadline = np.sort(np.where(np.arange(many) < due, rng.integers(800, 3000, many), np.inf))
        gpus = rng.choice([1.0, 2.0, 3.0, 4.0, 8.0], (many, 1))
        work = rng.integers(1, 900, many) * gpus[:, 0] / rng.choice([1.0, 3.0])
        wishes = Wishes(work, deadline, gpus, gpus.copy(), np.ones(many, np.int64))
        order = np.arange(many)
        whole, _ = share_out(empty_plan(now, 8.0, wishes), order, wishes, slot)
        whole, _ = grow(whole, order, wishes, slot)
        short, _ = share_out(empty_plan(now, 8.0, wishes), order[: due + 1], wishes, slot)
        short = start_gangs(short, order, wishes, slot)
        assert short.held.tolist() == whole.held.tolist()
        assert short.change[0] == whole.change[0]


def elastic(number: int, submit: float, work: float, within: float | None) -> Job:
    rewards = () if within is None else (Reward(within, 1.0),)
    spec = JobSpec(
        id=str(number), submit_time=submit, gpus=1, min_gpus=1, max_gpus=4, rewards=rewards
    )
    return Job(spec, Truth(work=work, throughput=Table((1.0, 1.5, 1.8, 2.0))))


def under(jobs: list[Job], cluster: str = "1x4") -> Run:
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy="elasticflow"))


class TestPolicy:
    def test_a_job_alone_grows_to_its_fastest_level(self) -> None:
        assert under([elastic(0, 0.0, HOUR, 2 * HOUR)]).outcomes.finish.tolist() == [HOUR / 2]

    def test_deadlines_are_met_that_edf_on_requests_misses(self) -> None:
        """On one GPU each the second would take an hour."""
        jobs = [elastic(0, 0.0, 2 * HOUR, 4 * HOUR), elastic(1, 0.0, HOUR, 0.6 * HOUR)]
        finish = under(jobs).outcomes.finish
        assert finish[1] <= 0.6 * HOUR
        assert finish[0] <= 4 * HOUR

    def test_a_job_that_comes_does_not_break_what_was_admitted(self) -> None:
        """The second needs all GPUs, the first too: it runs, but behind the first."""
        jobs = [elastic(0, 0.0, 2 * HOUR, 1.01 * HOUR), elastic(1, 60.0, HOUR, 0.51 * HOUR)]
        finish = under(jobs).outcomes.finish
        assert finish[0] <= 1.01 * HOUR
        assert finish[1] > 0.51 * HOUR + 60.0

    @pytest.mark.parametrize("gpus", [3, 5])
    def test_a_gang_has_no_levels(self, gpus: int) -> None:
        job = Job(JobSpec(id="a", submit_time=0.0, gpus=gpus), Truth(work=gpus * HOUR))
        assert under([job], "1x8").outcomes.finish.tolist() == [HOUR]
