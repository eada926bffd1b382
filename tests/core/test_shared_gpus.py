"""Parts of GPUs by name: two jobs on one, none over two, whole jobs on whole ones."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from volvelle.cli.output import remark_on_passed_over
from volvelle.core.events import NodeChanged
from volvelle.live.control.composition_checks import check_recomposition
from volvelle.live.control.requests import Recompose
from volvelle.metrics import series
from volvelle.model.cluster import NodeState, parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.report.gantt import bars_of
from volvelle.simulate.run_directory import RunRecord
from volvelle.simulate.synthesis import Synthesis
from volvelle.testing.audit import audited
from volvelle.testing.promises import on_random
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import WITH_PARTS, scenarios


def held(run: Run, until: float = math.inf) -> dict[int, list[int]]:
    """The GPUs that each job was given last, of those that were given any."""
    return {
        number: entry.decision.slots_of(row).tolist()
        for entry in run.journal.entries
        if entry.time <= until
        for row, number in enumerate(entry.decision.job.tolist())
    }


@pytest.mark.parametrize("placement", ["consolidated", "topology-aware"])
def test_a_part_goes_to_the_fullest_gpu_with_room_and_whole_jobs_to_whole_gpus(
    placement: str,
) -> None:
    """The first by the loop's own kernel, the second by a placement that Python asks."""
    wanted = [0.3, 0.8, 0.2, 2.0, 0.6]
    jobs = [linear_job(n, float(n), gpus, 100.0) for n, gpus in enumerate(wanted)]
    scenario = Scenario.of(parse_cluster("2x2"), jobs, policy="fifo-skip", placement=placement)
    assert held(audited(scenario)) == {0: [0], 1: [1], 2: [1], 3: [2, 3], 4: [0]}


def test_seven_sevenths_fit_on_a_gpu_and_an_eighth_job_waits() -> None:
    jobs = [linear_job(n, 0.0, 1 / 7, 10.0) for n in range(8)]
    run = audited(Scenario.of(parse_cluster("1x1"), jobs, placement="first-free"))
    assert run.outcomes.first_start.tolist() == [0.0] * 7 + [10.0]


def test_a_part_starts_when_all_checkpoints_of_its_gpu_are_written() -> None:
    first, second = linear_job(0, 0.0, 0.5, 100.0), linear_job(1, 0.0, 0.5, 100.0)
    short = linear_job(2, 10.0, 1.0, 10.0)
    scenario = Scenario.of(
        parse_cluster("1x1"),
        [first, second, short],
        policy="srtf",
        placement="consolidated",
        overheads=Overheads(checkpoint=5.0),
    )
    assert audited(scenario).outcomes.finish[2] == 25.0


def test_jobs_with_parts_stay_on_a_draining_node_and_count_as_its_capacity() -> None:
    jobs = [linear_job(n, 0.0, 0.5, 100.0) for n in range(3)]
    scenario = Scenario.of(parse_cluster("2x1"), jobs, placement="first-free")
    run = happen(scenario)
    scheduler = scenario.scheduler()
    scheduler.handle(0.0, run.journal.entries[0].events)
    scheduler.handle(1.0, [NodeChanged(1.0, "node-0", NodeState.DRAINING)])
    assert list(scheduler.state.types.capacity) == [2.0]
    assert [scheduler.state.jobs.pinned[scheduler.row_of(n) or 0] for n in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("placement", ["consolidated", "topology-aware"])
def test_an_elastic_job_has_the_gpus_that_can_be_named_beside_parts(placement: str) -> None:
    """Three parts of 0.6 have a GPU each: of 5 the job has 2, and of 3 the one that it must keep."""
    parts = [linear_job(n, 1.0, 0.6, 100.0) for n in range(1, 4)]
    elastic = linear_job(0, 0.0, 3.0, 500.0, min_gpus=1.0, max_gpus=5.0, preemptible=False)
    on_five = Scenario.of(
        parse_cluster("1x5"), [elastic, *parts], policy="smallest", placement=placement
    )
    assert len(held(audited(on_five), 1.0)[0]) == 2
    run = audited(replace(on_five, setting=replace(on_five.setting, cluster=parse_cluster("1x3"))))
    assert [len(slots) for slots in held(run, 1.0).values()] == [1, 1, 1]
    assert run.outcomes.first_start.tolist() == [0.0, 1.0, 1.0, 101.0]


def test_parts_that_find_no_gpu_wait_in_the_order_of_the_policy() -> None:
    """Of four parts of 0.6 three are served by count, two by name; the shortest is next."""
    seconds = [100.0, 100.0, 10.0, 10.0]
    jobs = [linear_job(n, 5.0 * (n // 2), 0.6, seconds[n]) for n in range(4)]
    scenario = Scenario.of(parse_cluster("2x1"), jobs, policy="srtf", placement="first-free")
    assert audited(scenario).outcomes.finish.tolist() == [100.0, 120.0, 15.0, 25.0]


def test_runs_with_parts_are_sound_and_the_same_by_machine_code() -> None:
    def check(scenario: Scenario, placement: str) -> None:
        scenario = scenario.under("srtf", placement)
        assert happen(scenario, compiled=True).journal_bytes == audited(scenario).journal_bytes

    by_name = st.sampled_from(["first-free", "consolidated"])
    every = scenarios(WITH_PARTS)
    on_random(20, check, scenario=every, placement=by_name)


@pytest.mark.parametrize("placement", ["none", "first-free"])
@pytest.mark.parametrize("policy", ["slurm", "kueue"])
def test_policies_of_whole_gpus_reject_parts_and_are_not_switched_to_where_one_runs(
    policy: str, placement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [linear_job(0, 0.0, 0.5, 500.0), linear_job(1, 0.0, 1.0, 50.0)]
    scenario = Scenario.of(parse_cluster("1x2"), jobs, placement=placement)
    rejected = happen(scenario.under(policy)).outcomes
    assert [str(status) for status in rejected.status] == ["rejected", "finished"]
    why = "wants 0.5 GPUs, this policy and placement give whole ones"
    assert rejected.reason[0] == why

    among = Synthesis(policies=(policy, "srtf"), admissions=("accept-all",), every=100.0)
    setting = replace(scenario.setting, synthesis=among)
    run = happen(replace(scenario, setting=setting))
    assert {choice.policy for choice in run.outcomes.choices} == {"srtf"}
    remark_on_passed_over([(RunRecord.of("", {}, setting), run.outcomes)])
    assert f"note: {policy} is passed over while" in (said := capsys.readouterr().err)
    assert f"job 'job-0' {why}" in said

    scheduler = scenario.under(placement="first-free", estimator="declared").scheduler()
    scheduler.handle(0.0, run.journal.entries[0].events)
    with pytest.raises(Problem, match=rf"'{policy}' cannot serve .* job 'job-0' {why}"):
        check_recomposition(scheduler, Recompose(policy, "accept-all"))


def test_shares_add_up_in_gpu_time_and_in_the_bars_of_each_gpu() -> None:
    """Bars that are on one GPU at a time have lanes of their own, and as many as their shares."""
    wanted = [0.5, 0.5, 0.25, 2.0, 0.3, 1.0, 0.45]
    jobs = [linear_job(n, 10.0 * n, gpus, 100.0 + 30 * n) for n, gpus in enumerate(wanted)]
    scenario = Scenario.of(parse_cluster("2x2"), jobs, policy="fifo-skip", placement="consolidated")
    outcomes = audited(scenario).outcomes
    seconds = [gpus * (100.0 + 30 * n) for n, gpus in enumerate(wanted)]
    assert outcomes.gpu_seconds.tolist() == pytest.approx(seconds)
    busy = series.busy_gpus(outcomes)
    assert float(np.diff(busy.times) @ busy.values[:-1]) == pytest.approx(sum(seconds))
    assert busy.values.max() <= 4.0
    bars = bars_of(outcomes, 100)
    area = (bars.end - bars.start) @ bars.height / bars.per_gpu
    assert area == pytest.approx(sum(seconds), rel=0.05), "lanes are tenths of a GPU"
    for one, other in itertools.combinations(range(len(bars.job)), 2):
        together = min(bars.end[[one, other]]) > max(bars.start[[one, other]])
        top = np.minimum(*(bars.lane + bars.height)[[one, other]])
        assert not together or top <= max(bars.lane[[one, other]])
