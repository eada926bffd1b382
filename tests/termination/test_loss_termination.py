"""Loss-based termination (Blox, section 5.3), by hand."""

import msgspec
import numpy as np
import pytest
from systems_here import needs

from volvelle.core.events import LossReported
from volvelle.core.fork import Fork
from volvelle.core.parts import terminations
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, LossPoint, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import Linear, Table
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.workload.generators import make_generator

CURVE = (LossPoint(0.0, 10.0), LossPoint(40.0, 1.001), LossPoint(100.0, 1.0))


def learning(number: int, submit: float = 0.0, lowest: float | None = 1.0) -> Job:
    job = linear_job(number, submit, 1.0, 100.0)
    spec = msgspec.structs.replace(job.spec, lowest_loss=lowest)
    return Job(spec, msgspec.structs.replace(job.truth, loss_curve=CURVE))


def test_a_job_ends_at_the_first_report_of_a_loss_that_is_near_enough() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [learning(0)], termination="loss:every=7")
    run = happen(scenario)
    assert run.outcomes.finish.tolist() == [42.0]  # converged at 40, reported at 42
    assert run.outcomes.status.tolist() == [JobStatus.FINISHED]
    assert run.outcomes.reason == ["its loss is 1.00097, within 0.1 % of 1"]
    reports = [e for entry in run.journal.entries for e in entry.events if type(e) is LossReported]
    assert [report.time for report in reports] == [7.0, 14.0, 21.0, 28.0, 35.0, 42.0]
    assert reports[0].loss == pytest.approx(10.0 - 7.0 / 40.0 * 8.999)


def test_its_gpus_go_to_the_next_at_once_or_when_its_checkpoint_is_written() -> None:
    jobs = [learning(0), linear_job(1, 1.0, 1.0, 10.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, termination="loss:every=10")
    assert happen(scenario).outcomes.first_start.tolist() == [0.0, 40.0]
    slow = Scenario.of(
        parse_cluster("1x1"), jobs, placement="first-free", termination="loss:every=10",
        overheads=Overheads(checkpoint=5.0),
    )  # fmt: skip
    outcomes = happen(slow).outcomes
    assert outcomes.finish.tolist() == [40.0, 55.0]
    assert outcomes.first_start.tolist() == [0.0, 45.0]
    assert outcomes.gpu_seconds.tolist() == [45.0, 10.0]


def test_a_user_who_declares_no_lowest_loss_is_left_alone() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [learning(0, lowest=None)], termination="loss")
    outcomes = happen(scenario).outcomes
    assert outcomes.finish.tolist() == [100.0]
    assert outcomes.reason == [""]


def test_nobody_reports_where_nobody_asks() -> None:
    run = happen(Scenario.of(parse_cluster("1x1"), [learning(0)]))
    assert len(run.journal.entries) == 2


@pytest.mark.parametrize(("lowest", "loss", "ends"), [(2.0, 2.2, True), (2.0, 2.21, False),
                                                      (-2.0, -1.8, True), (0.0, 0.01, False)])  # fmt: skip
def test_near_is_relative_to_the_lowest_loss(lowest: float, loss: float, ends: bool) -> None:
    spec = JobSpec(id="a", submit_time=0.0, lowest_loss=lowest)
    assert bool(terminations.make("loss:threshold=0.1").judge(spec, 5.0, loss)) is ends


def test_loss_between_points_is_linear_and_beyond_them_constant() -> None:
    truth = Truth(work=200.0, loss_curve=CURVE)
    assert truth.loss_at(0.0) == 10.0
    assert truth.loss_at(20.0) == pytest.approx((10.0 + 1.001) / 2)
    assert truth.loss_at(40.0) == 1.001
    assert truth.loss_at(150.0) == 1.0
    assert Truth(work=9.0, loss_curve=(LossPoint(5.0, 2.0),)).loss_at(1.0) == 2.0


@needs("gavel")
def test_three_quarters_of_generated_jobs_converge_at_forty_percent_of_their_work() -> None:
    generator = make_generator("gavel", {"jobs": 4000, "converging_share": 0.75})
    jobs = generator.generate(np.random.default_rng(1)).jobs
    plain = make_generator("gavel", {"jobs": 4000}).generate(np.random.default_rng(1)).jobs
    assert [j.truth.work for j in jobs] == [j.truth.work for j in plain]
    early = 0
    for job in jobs:
        truth, lowest = job.truth, job.spec.lowest_loss
        assert lowest is not None
        assert truth.loss_at(truth.work) == pytest.approx(lowest)
        assert truth.loss_at(0.0) == pytest.approx(10.0 * lowest)
        near = truth.loss_at(0.4 * truth.work * (1 + 1e-9)) <= 1.001 * lowest * (1 + 1e-12)
        assert near or truth.loss_at(0.99 * truth.work) > 1.001 * lowest
        assert truth.loss_at(0.39 * truth.work) > 1.001 * lowest
        losses = [point.loss for point in truth.loss_curve]
        assert losses == sorted(losses, reverse=True)
        early += near
    assert early / 4000 == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("throughput", [Linear(1.0), Table((1.0, 1.7, 2.1))])
def test_a_forecast_sees_the_end_of_a_job_that_runs_already(
    throughput: Linear | Table,
) -> None:
    points = (LossPoint(0.0, 0.5), LossPoint(100.0, 0.2), LossPoint(500.0, 0.1))
    spec = JobSpec(id="job-0", submit_time=0.0, gpus=2.0, lowest_loss=0.1)
    jobs = [Job(spec, Truth(work=500.0, throughput=throughput, loss_curve=points))]
    jobs.append(linear_job(1, 10.0, 1.0, 5.0))
    scenario = Scenario.of(parse_cluster("1x4"), jobs, termination="loss:threshold=2,every=1")
    foreseen: list[float] = []

    def look_ahead(world: World) -> None:
        if world.settled and (finish := Fork(world.scheduler).until().finish.get(0)) is not None:
            foreseen.append(finish)

    outcomes = happen(scenario, on_moment=look_ahead).outcomes
    assert outcomes.finish[0] < 100.0
    assert foreseen
    assert foreseen == pytest.approx([outcomes.finish[0]] * len(foreseen))
