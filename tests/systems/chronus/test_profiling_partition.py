"""Jobs are profiled on a partition first, on examples worked out by hand."""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobFailed, JobSubmitted, NodeChanged
from volvelle.core.journal import read_journal, replay
from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.model.cluster import Cluster, NodeState, Profiling, cluster_from, parse_cluster
from volvelle.model.job import Job, JobSpec, Reward, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import Log2, Table
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.simulate.run_directory import load_outcomes, write_outcomes
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload


def cluster_of(size: str, **profiling: Any) -> Cluster:
    return msgspec.structs.replace(parse_cluster(size), profiling=Profiling(**profiling))


def run(
    cluster: Cluster,
    *jobs: Job,
    policy: str = "fifo",
    placement: str = "consolidated",
    estimator: str = "profiled",
    **rest: Any,
) -> Simulation:
    written = WrittenComposition(policy, placement, "accept-all", estimator, "completion")
    setting = Setting(cluster=cluster, composition=written, **rest)
    return simulate(Workload(jobs), setting, journal=True)


def named(job: Job, **changed: Any) -> Job:
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changed))


def profiled_starts(outcomes: Outcomes) -> list[float]:
    assert outcomes.profiled is not None
    return [float(start) for start in outcomes.profiled.start]


def test_who_ends_in_the_partition_never_comes_to_the_scheduler() -> None:
    """T is 300 s: the short job is done there, the long one begins anew behind it."""
    short, long = linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 0.0, 1.0, 1000.0)
    simulation = run(cluster_of("2x1", nodes=1), short, long)
    outcomes = simulation.outcomes
    assert outcomes.finish.tolist() == [100.0, 100.0 + 300.0 + 1000.0]
    assert outcomes.first_start.tolist() == [0.0, 400.0]
    assert profiled_starts(outcomes) == [0.0, 100.0]
    assert outcomes.gpu_seconds.tolist() == [100.0, 1000.0]
    assert simulation.journal is not None
    told = [e for entry in simulation.journal.entries for e in entry.events]
    submissions = [event for event in told if isinstance(event, JobSubmitted)]
    assert [(event.time, event.spec.id) for event in submissions] == [(400.0, "job-1")]
    assert measure(outcomes, "profiled_only") == 50.0
    assert measure(outcomes, "profile_wait:max") == 100.0
    assert measure(outcomes, "profile_error:max") == pytest.approx(0.0)
    assert measure(outcomes, "profiling_gpus") == 1.0


def test_a_job_that_crashes_meanwhile_is_given_back_to_its_user() -> None:
    buggy = linear_job(0, 0.0, 1.0, 1000.0, failures=(20.0,))
    outcomes = run(cluster_of("2x1", nodes=1), buggy, linear_job(1, 0.0, 1.0, 400.0)).outcomes
    assert outcomes.status.tolist() == [JobStatus.FAILED.value, JobStatus.FINISHED.value]
    assert outcomes.reason == ["crashed while it was profiled", ""]
    assert profiled_starts(outcomes) == [0.0, 20.0]


def test_all_jobs_may_end_in_the_partition() -> None:
    outcomes = run(cluster_of("2x1", nodes=1), linear_job(0, 5.0, 1.0, 10.0)).outcomes
    assert (outcomes.finish.tolist(), outcomes.end_time) == ([15.0], 15.0)


def test_first_come_first_served_also_where_a_later_job_would_fit() -> None:
    jobs = [linear_job(n, 0.0, gpus, 50.0) for n, gpus in enumerate((3.0, 2.0, 1.0))]
    outcomes = run(cluster_of("2x4", nodes=1), *jobs).outcomes
    assert profiled_starts(outcomes) == [0.0, 50.0, 50.0]


def test_starting_costs_there_what_it_costs_elsewhere() -> None:
    cluster, overheads = cluster_of("2x1", nodes=1), Overheads(start=30.0)
    outcomes = run(cluster, linear_job(0, 0.0, 1.0, 100.0), overheads=overheads).outcomes
    assert outcomes.finish.tolist() == [130.0]


def wide(gpus: float, one: float, two: float, iterations: float, model: Any = None) -> Job:
    truth = Truth(work=iterations, throughput=model or Log2(one, two))
    return Job(JobSpec(id="wide", submit_time=0.0, gpus=gpus), truth)


def test_a_wide_job_is_extrapolated_from_one_node_and_two() -> None:
    """t_8 = 2 + 3 (2.5 - 2) = 3.5 s: what the world has, too. It holds 4 GPUs, then 8, for 300 s each."""
    job = wide(32.0, 2.0, 2.5, 1000.0)
    simulation = run(cluster_of("10x4", nodes=2), job)
    profiled = simulation.outcomes.profiled
    assert profiled is not None
    assert profiled.seconds.tolist() == [3500.0]
    assert profiled.end.tolist() == [600.0]
    assert profiled.gpu_seconds.tolist() == [300.0 * 4 + 300.0 * 8]
    assert simulation.outcomes.finish.tolist() == [600.0 + 3500.0]


def test_a_partition_of_one_node_does_not_see_what_communication_costs() -> None:
    profiled = run(cluster_of("9x4", nodes=1), wide(32.0, 2.0, 2.5, 1000.0)).outcomes.profiled
    assert profiled is not None
    assert profiled.seconds.tolist() == [2000.0]


def test_the_extrapolation_has_the_error_that_it_has() -> None:
    """Rates 1, 1.8, 2.4 units a second on 1, 2, 4 GPUs: iterations of a GPU's share take 1, 2/1.8 s.

    On four nodes 1 + 2 (2/1.8 - 1) s are expected, in truth they take 4/2.4 s.
    """
    model = Table((1.0, 1.8, 2.1, 2.4))
    outcomes = run(cluster_of("6x1", nodes=2), wide(4.0, 0, 0, 2400.0, model)).outcomes
    expected = 2400.0 / 4.0 * (1.0 + 2.0 * (2.0 / 1.8 - 1.0))
    assert outcomes.profiled is not None
    assert outcomes.profiled.seconds.tolist() == pytest.approx([expected])
    assert measure(outcomes, "profile_error") == pytest.approx(100.0 * abs(expected / 1000.0 - 1.0))


def test_a_user_who_submits_much_waits_and_others_pass() -> None:
    """Four GPUs of a user in each 300 s: ada's second job waits for the next interval, bo's does not."""
    jobs = [
        named(linear_job(0, 10.0, 4.0, 400.0), user="ada"),
        named(linear_job(1, 20.0, 1.0, 400.0), user="ada"),
        named(linear_job(2, 30.0, 4.0, 400.0), user="bo"),
        named(linear_job(3, 40.0, 9.0, 400.0), user="cy"),
    ]
    outcomes = run(cluster_of("9x4", nodes=4, user_gpus=4), *jobs).outcomes
    assert profiled_starts(outcomes) == [10.0, 300.0, 30.0, 40.0]


def test_what_is_believed_is_what_was_measured() -> None:
    """Shortest first by the profile: the job that takes 350 s passes the one that takes 900 s."""
    jobs = [linear_job(0, 0.0, 1.0, 500.0), linear_job(1, 0.0, 1.0, 900.0)]
    jobs.append(linear_job(2, 0.0, 1.0, 350.0))
    cluster = cluster_of("4x1", nodes=3)
    finish = run(cluster, *jobs, policy="sjf").outcomes.finish
    assert finish.tolist() == [300.0 + 350.0 + 500.0, 300.0 + 350.0 + 500.0 + 900.0, 650.0]


def test_deadlines_count_from_submission_and_promises_are_made_after_the_profile() -> None:
    job = named(linear_job(0, 0.0, 1.0, 400.0), rewards=(Reward(800.0, 100.0),))
    written = WrittenComposition("fifo", "consolidated", "deadlines", "profiled", "completion")
    ended_before = linear_job(1, 0.0, 1.0, 10.0)
    setting = Setting(cluster=cluster_of("3x1", nodes=2), composition=written)
    outcomes = simulate(Workload([ended_before, job]), setting).outcomes
    [told] = outcomes.promises
    assert (told.time, told.promise.number, told.promise.finish_by) == (300.0, 1, 800.0)
    assert measure(outcomes, "guarantee_broken") == 0.0
    assert measure(outcomes, "deadline_miss") == 0.0


def busy(count: int, every: float) -> list[Job]:
    return [linear_job(n, n * every, 2.0, 700.0) for n in range(count)]


def test_the_partition_has_the_nodes_that_lambda_times_t_asks_for() -> None:
    """30 jobs of 2 GPUs in the hour before: 60 GPUs x 300 s / 3600 s = 5 GPUs, 3 nodes. Then none come."""
    cluster = cluster_of("8x2", nodes=1, most_nodes=4)
    overheads = Overheads(checkpoint=10.0)
    simulation = run(cluster, *busy(60, 120.0), overheads=overheads)
    profiled = simulation.outcomes.profiled
    assert profiled is not None
    assert profiled.partition_times.tolist()[:3] == [0.0, 3600.0, 3600.0]
    assert profiled.partition_gpus.tolist()[:3] == [2.0, 4.0, 6.0]
    assert profiled.partition_gpus.tolist()[-1] == 2.0
    assert simulation.journal is not None
    told = [e for entry in simulation.journal.entries for e in entry.events]
    gone = [e for e in told if isinstance(e, NodeChanged) and e.state is NodeState.DOWN]
    assert [(event.time, event.name) for event in gone] == [(3600.0, "node-6"), (3600.0, "node-5")]
    capacity = simulation.outcomes.capacity
    assert capacity.values[0] == 14.0
    assert capacity.values[capacity.times == 3600.0].tolist()[-1] == 10.0
    assert not np.isnan(simulation.outcomes.finish).any()


def test_jobs_on_a_node_that_the_partition_takes_lose_nothing_and_have_not_failed() -> None:
    long = [named(linear_job(n, 0.0, 2.0, 9000.0), max_retries=0) for n in range(5)]
    late = [linear_job(5 + n, 1000.0 + 80.0 * n, 2.0, 310.0) for n in range(30)]
    cluster = cluster_of("6x2", nodes=1, most_nodes=3)
    simulation = run(cluster, *long, *late)
    assert simulation.journal is not None
    told = [e for entry in simulation.journal.entries for e in entry.events]
    failed = [event for event in told if isinstance(event, JobFailed)]
    assert failed
    assert all(event.requeued and event.lost_gpu_seconds == 0.0 for event in failed)
    outcomes = simulation.outcomes
    assert set(outcomes.status.tolist()) == {JobStatus.FINISHED.value}
    long_run = outcomes.gpu_seconds[:5] / 2.0
    assert long_run == pytest.approx([9000.0] * 5)
    assert outcomes.restarts.sum() > 0


def test_nodes_are_not_taken_from_jobs_that_may_not_be_preempted() -> None:
    job = named(linear_job(0, 0.0, 1.0, 10.0), preemptible=False)
    with pytest.raises(Problem, match="job 'job-0' may not be preempted"):
        run(cluster_of("4x1", nodes=1, most_nodes=2), job)
    run(cluster_of("4x1", nodes=1), job)


def test_nodes_that_move_need_a_placement_that_knows_them() -> None:
    job = linear_job(0, 0.0, 1.0, 10.0)
    with pytest.raises(Problem, match="nodes of this cluster change, and placement 'none'"):
        run(cluster_of("4x1", nodes=1, most_nodes=2), job, placement="none")
    assert run(cluster_of("4x1", nodes=1), job, placement="none").outcomes.finish.tolist() == [10.0]


@pytest.mark.parametrize("policy", ["fifo", "easy", "srsf", "tiresias", "themis", "edf", "chronus"])
def test_any_policy_runs_behind_it_and_its_journal_replays(policy: str, tmp_path: Path) -> None:
    jobs = [linear_job(n, 100.0 * n, 1.0 + n % 3, 200.0 + 90.0 * (n % 9)) for n in range(60)]
    cluster = cluster_of("6x2", nodes=1, most_nodes=2)
    written = WrittenComposition(policy, "consolidated", "accept-all", "profiled", "completion")
    path = tmp_path / "journal.jsonl"
    setting = Setting(cluster=cluster, composition=written)
    outcomes = simulate(Workload(jobs), setting, journal=path).outcomes
    assert not np.isnan(outcomes.finish).any()
    assert (outcomes.finish >= outcomes.submit_time).all()
    scheduler = replay(*read_journal(path))
    assert not scheduler.known
    write_outcomes(outcomes, tmp_path / "outcomes.npz")
    again = load_outcomes(tmp_path / "outcomes.npz")
    assert again.profiled is not None
    assert outcomes.profiled is not None
    assert again.profiled.end.tolist() == outcomes.profiled.end.tolist()


def test_machine_code_gives_the_same() -> None:
    jobs = Workload([linear_job(n, 40.0 * n, 1.0, 290.0 + 30.0 * (n % 7)) for n in range(80)])
    written = WrittenComposition("srsf", "consolidated", "accept-all", "profiled", "completion")
    setting = Setting(cluster=cluster_of("5x2", nodes=1, most_nodes=2), composition=written)
    plain, compiled = (simulate(jobs, setting, compiled=how).outcomes for how in (False, True))
    assert plain.finish.tolist() == compiled.finish.tolist()


def test_a_run_that_is_cut_off_knows_who_was_not_profiled_yet() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 400.0) for n in range(3)]
    outcomes = run(cluster_of("2x1", nodes=1), *jobs, until=650.0).outcomes
    assert outcomes.status.tolist() == ["running", "waiting", "waiting"]
    assert measure(outcomes, "profile_wait:max") == 600.0
    assert math.isnan(outcomes.finish[2])


TABLE: dict[str, Any] = {"nodes": [{"count": 4, "gpus": 8}]}


@pytest.mark.parametrize(
    ("profiling", "said"),
    [
        ({"nodes": 4}, "may take 4 nodes of 4, which leaves none"),
        ({"nodes": 2, "most_nodes": 1}, "most_nodes is 1, less than its 2 nodes"),
        ({"nodes": 0}, "profiling.nodes"),
        ({"nodes": 1, "seconds": 0}, "profiling.seconds"),
        ({"nodes": 1, "user_gpu": 8}, "user_gpus"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(profiling: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem, match=said):
        cluster_from(TABLE | {"profiling": profiling}, "cluster.toml")


def test_nodes_that_differ_are_refused() -> None:
    with pytest.raises(Problem, match="profiling needs nodes that are alike"):
        cluster_from(
            {"nodes": [{"gpus": 8}, {"name": "small", "gpus": 4}], "profiling": {"nodes": 1}}, "c"
        )
