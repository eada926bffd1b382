"""Dependencies, priorities and time limits in simulation, interpreted and compiled, and in traces."""

from pathlib import Path

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster
from volvelle.model.job import Dependency, Job, JobSpec, Truth
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import Scenario, happen
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload
from volvelle.workload.writing import write_trace


def job(name: str, submit: float, seconds: float = 10.0, **spec: object) -> Job:
    """One that needs the whole cluster of two GPUs."""
    declared = {"gpus": 2.0, "max_retries": 0, **spec}
    failures = (5.0,) if name.startswith("bad") else ()
    made = JobSpec(id=name, submit_time=submit, **declared)  # type: ignore[arg-type]
    return Job(made, Truth(work=seconds * made.gpus, failures=failures))


def run(jobs: list[Job], policy: str = "fifo", *, compiled: bool = False) -> Outcomes:
    setting = Setting(cluster=Cluster.of("1x2"), composition=WrittenComposition(policy))
    return simulate(Workload.of(jobs), setting, compiled=compiled).outcomes


CHAIN = [
    job("a", 0.0, 100.0),
    job("b", 1.0, after=(Dependency("a", think_seconds=30.0),)),
    job("bad", 2.0),
    job("c", 3.0, after=(Dependency("bad"),)),
    job("d", 4.0, after=(Dependency("c"),)),
    job("e", 5.0, after=(Dependency("bad", any_end=True),)),
    job("f", 6.0, after=(Dependency("nobody"),)),
    job("wide", 7.0, gpus=3.0),
    job("g", 8.0, after=(Dependency("wide"),)),
]


@pytest.mark.parametrize("compiled", [False, True])
def test_jobs_start_when_those_they_are_after_are_through(compiled: bool) -> None:
    outcomes = run(CHAIN, compiled=compiled)
    nan = np.nan
    np.testing.assert_allclose(
        outcomes.first_start, [0.0, 130.0, 100.0, nan, nan, 102.5, 112.5, nan, nan]
    )
    assert outcomes.reason[3:5] == [
        "dependency failed: job bad did not succeed",
        "dependency failed: job c did not succeed",
    ]
    assert outcomes.reason[8] == "dependency failed: job wide did not succeed"


@pytest.mark.parametrize(("policy", "first"), [("fifo", 2), ("easy", 2), ("sjf", 1)])
def test_a_higher_priority_goes_first_where_the_policy_heeds_it(policy: str, first: int) -> None:
    jobs = [job("a", 0.0), job("b", 1.0), job("c", 2.0, priority=1)]
    starts = run(jobs, policy).first_start
    assert starts[first] == 10.0
    assert starts[3 - first] == 20.0


def test_a_time_limit_counts_what_a_job_ran_not_what_it_waited() -> None:
    limited = job("b", 1.0, 100.0, time_limit_seconds=15.0)
    outcomes = run([job("a", 0.0), limited, job("c", 2.0)])
    assert outcomes.status.tolist() == ["finished", "failed", "finished"]
    assert outcomes.reason[1] == "its time limit of 15s is over"
    assert outcomes.first_start.tolist() == [0.0, 10.0, 25.0]


def test_dependencies_priorities_and_limits_are_in_traces(tmp_path: Path) -> None:
    after = (Dependency("a:b", any_end=True), Dependency("a", think_seconds=90.0))
    jobs = [job("a", 0.0), job("a:b", 1.0, priority=-3), job("c", 2.0, after=after)]
    jobs.append(job("d", 3.0, time_limit_seconds=60.0, after=(Dependency("c"),)))
    write_trace(Workload.of(jobs), tmp_path / "jobs.csv")
    again = read_trace(tmp_path / "jobs.csv").specs
    assert [spec.after for spec in again] == [one.spec.after for one in jobs]
    assert [spec.priority for spec in again] == [0, -3, 0, 0]
    assert again[3].time_limit_seconds == 60.0
    swf = tmp_path / "jobs.swf"
    swf.write_text(
        "1 0 0 10 1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 -1 -1\n"
        "2 1 0 10 1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 1 5\n"
    )
    assert read_trace(swf, options={"procs_as": "gpu"}).specs[1].after == (
        Dependency("1", any_end=True, think_seconds=5.0),
    )


def test_a_chain_of_jobs_leaves_the_verdicts_on_arrivals_as_they_are() -> None:
    """Were they copied and gone through again for each job, a chain would cost its length's square."""
    jobs = [job("0", 0.0)]
    jobs += [job(str(i), 0.0, after=(Dependency(str(i - 1)),)) for i in range(1, 30)]
    tables: list[object] = []
    outcomes = happen(
        Scenario.of(Cluster.of("1x2"), jobs),
        on_moment=lambda world: tables.append(world.scheduler.state.verdict),
    ).outcomes
    assert all(table is tables[0] for table in tables)
    assert outcomes.finish.tolist() == [10.0 * i for i in range(1, 31)]
