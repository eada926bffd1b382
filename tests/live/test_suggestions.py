"""Suggestions for a waiting job come from forecasts of the scheduler itself."""

import time

import msgspec
import pytest
from fake_cluster import header_of
from systems_here import of

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobHeld, JobSubmitted, NodeChanged
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts import suggestions as suggestions_module
from volvelle.live.forecasts.calibration import (
    SECONDS_BESIDE,
    ForecastCalibration,
    PastForecast,
)
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.forecasts.suggestions import Suggestions, suggest
from volvelle.live.job_request import JobRequest
from volvelle.live.status.reasons import waiting_reasons
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.model.cluster import Cluster, Node, NodeState, Pool, parse_cluster
from volvelle.testing.scenario import state_of

EPOCH = 1000.0
HOUR = 3600.0


def wanted(gpus: int, **others: object) -> JobRequest:
    return JobRequest.model_validate({"command": "train", "gpus": gpus, "estimate": "1h"} | others)


def scheduler_of(cluster: Cluster, policy: str, *requests: JobRequest) -> Scheduler:
    """A scheduler to which these were submitted at time 0, one after the other."""
    written = WrittenComposition(policy, "consolidated", "accept-all", "declared")
    scheduler = msgspec.structs.replace(header_of(cluster), composition=written).scheduler()
    for number, request in enumerate(requests):
        scheduler.handle(0.0, [JobSubmitted(0.0, number, request.spec(number, "ada", 0.0))])
    return scheduler


def suggestions_for(
    scheduler: Scheduler, number: int, request: JobRequest, *, forecast_seconds: float = 0.0
) -> Suggestions:
    """Suggestions for job ``number`` at time 10, if the last forecast took ``forecast_seconds``."""
    job = view_of(number, request)
    return suggest(scheduler.fork(), ForecastCalibration(), job, 10.0, EPOCH, forecast_seconds)


def view_of(number: int, request: JobRequest) -> JobStatusView:
    return JobStatusView(
        number=number, name="", user="ada", state=JobState.WAITING, gpus=float(request.gpus),
        submitted=EPOCH, request=request.as_json(),
    )  # fmt: skip


def test_fewer_gpus_that_are_free_help_only_where_the_job_finishes_sooner_on_them() -> None:
    """On 2 GPUs it starts at once and takes 4 h; as it is it starts after the other and takes 1 h.

    Six minutes of four hours are next to nothing.
    """
    for others_hours, gain in ((10, 7.0), (3.1, None), (2, None)):
        requests = wanted(5, estimate=f"{others_hours}h"), wanted(8)
        scheduler = scheduler_of(parse_cluster("1x8"), "fifo", *requests)
        found = suggestions_for(scheduler, 1, requests[1])
        assert found.after == (0,)
        if gain is None:
            assert (found.changes, found.complete) == ((), True)
            continue
        (change,) = found.changes
        assert (change.what, change.request["gpus"]) == ("2 GPUs instead of 8", 2)
        assert (change.start, change.p50) == (EPOCH + 10, EPOCH + 10 + 4 * HOUR)
        assert change.sooner == pytest.approx(gain * HOUR - 10)


def test_all_jobs_whose_gpus_a_waiting_job_needs_are_named() -> None:
    requests = wanted(3), wanted(5, estimate="2h"), wanted(8)
    scheduler = scheduler_of(parse_cluster("1x8"), "fifo", *requests)
    assert suggestions_for(scheduler, 2, requests[2]).after == (0, 1)
    narrow = scheduler_of(parse_cluster("1x8"), "fifo", *requests[:2], wanted(4))
    assert suggestions_for(narrow, 2, wanted(4)).after == (1,)


def test_the_best_finish_comes_first_not_the_first_start() -> None:
    """One GPU is free at once, four are in 20 minutes, on which it finishes 12 hours sooner."""
    requests = wanted(4, estimate="20m"), wanted(3, estimate="20h"), wanted(8, estimate="2h")
    scheduler = scheduler_of(parse_cluster("1x8"), "fifo-skip", *requests)
    (change,) = suggestions_for(scheduler, 2, requests[2]).changes
    assert change.what == "4 GPUs instead of 8"
    assert change.p50 == EPOCH + HOUR / 3 + 4 * HOUR


def test_finishes_are_compared_by_what_the_job_was_told() -> None:
    """Jobs took half as long again as forecast: so would this one, as it is and on fewer GPUs."""
    calibration = ForecastCalibration()
    late = [
        PastForecast(n, -HOUR, n * 60.0, 8.0, HOUR, n * 90.0 + HOUR / 2) for n in range(100, 140)
    ]
    calibration.replay(late)
    requests = wanted(5, estimate="10h"), wanted(8)
    scheduler = scheduler_of(parse_cluster("1x8"), "fifo", *requests)
    told = forecast_jobs(scheduler.fork(), 10.0, calibration, EPOCH).times[1].p50
    job = view_of(1, requests[1])
    (change,) = suggest(scheduler.fork(), calibration, job, 10.0, EPOCH, 0.0).changes
    assert told is not None and told > 11 * HOUR
    assert change.p50 is not None
    assert change.sooner == pytest.approx(EPOCH + told - change.p50)
    then, there = (change.p50 - EPOCH - 10, 4 * HOUR), (told - 10, 11 * HOUR - 10)
    stretches = [(p50 + SECONDS_BESIDE) / (at + SECONDS_BESIDE) for p50, at in (then, there)]
    assert stretches[0] == pytest.approx(stretches[1])


def test_without_an_estimate_fewer_gpus_are_said_to_start_sooner_only() -> None:
    requests = wanted(5), wanted(8, estimate=None)
    scheduler = scheduler_of(parse_cluster("1x8"), "fifo", *requests)
    changes = suggestions_for(scheduler, 1, requests[1]).changes
    assert [(one.what, one.start, one.p50) for one in changes] == [
        ("2 GPUs instead of 8", EPOCH + 10, None)
    ]


def test_a_job_whose_nodes_are_busy_is_told_so_and_what_would_do_without_the_label() -> None:
    requests = wanted(4, constraints=["nvlink"]), wanted(4, constraints=["nvlink"])
    cluster = Cluster((Node("x", 4, labels=("nvlink",)), Node("y", 4)))
    scheduler = scheduler_of(cluster, "fifo", *requests)
    text = "waits for 4 GPUs: none free on nodes with nvlink"
    assert waiting_reasons(scheduler)[1] == (text, None)
    change = suggestions_for(scheduler, 1, requests[1]).changes[0]
    assert (change.what, change.start) == ("nodes without nvlink, too", EPOCH + 10)


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (NodeState.DOWN, "no node is connected"),
        (NodeState.DRAINING, "no node takes new jobs: all are drained, down or not back yet"),
        (NodeState.UP, "waits for 2 GPUs: 1 free, most on node-1 (1)"),
    ],
)
def test_a_reason_says_that_no_node_takes_jobs(second: NodeState, text: str) -> None:
    scheduler = scheduler_of(parse_cluster("2x1"), "fifo")
    states = zip(scheduler.cluster.nodes, (NodeState.DOWN, second), strict=True)
    scheduler.handle(0.0, [NodeChanged(0.0, node.name, state) for node, state in states])
    scheduler.handle(0.0, [JobSubmitted(0.0, 0, wanted(2).spec(0, "ada", 0.0))])
    assert waiting_reasons(scheduler)[0].text == text


@pytest.mark.parametrize("policy", ["las", "fifo", "srsf"])
def test_a_job_whose_nodes_came_back_between_two_rounds_waits_for_the_next(policy: str) -> None:
    scheduler = scheduler_of(parse_cluster("2x2"), f"{policy}:round=20s")
    nodes = [node.name for node in scheduler.cluster.nodes]
    scheduler.handle(0.0, [NodeChanged(0.0, name, NodeState.DOWN) for name in nodes])
    scheduler.handle(1.0, [JobSubmitted(1.0, 0, wanted(2).spec(0, "ada", 1.0))])
    scheduler.handle(20.0, [])
    scheduler.handle(25.0, [NodeChanged(25.0, name, NodeState.UP) for name in nodes])
    said = waiting_reasons(scheduler)[0].text
    assert said == f"the next round of policy '{policy}:round=20' decides"


def test_a_reason_names_the_types_that_a_job_may_have_where_there_are_others() -> None:
    typed, any_type = wanted(4, gpu_types=["h100"]), wanted(4)
    scheduler = scheduler_of(parse_cluster("1x4:h100,1x4:a100"), "fifo", typed, typed, any_type)
    reasons = waiting_reasons(scheduler)
    assert reasons[1] == ("waits for 4 h100 GPUs: 0 free", 0)
    assert "h100" not in reasons[2].text


def test_another_gpu_type_that_is_free_comes_before_fewer_gpus() -> None:
    requests = wanted(4, gpu_types=["a100"]), wanted(4, gpu_types=["a100"])
    cluster = parse_cluster("1x4:a100,1x4:v100")
    found = suggestions_for(scheduler_of(cluster, "fifo-skip", *requests), 1, requests[1])
    (change,) = found.changes
    assert change.what == "GPU type v100 instead of a100"
    assert change.request == {"gpu_types": ("v100",)}


def test_another_pool_with_room_helps_where_ones_own_is_used_up() -> None:
    requests = wanted(4, pool="vision"), wanted(4, pool="vision")
    pools = (Pool("vision", 4.0), Pool("speech", 4.0))
    cluster = msgspec.structs.replace(parse_cluster("1x8"), pools=pools)
    scheduler = scheduler_of(cluster, "fifo-skip", *requests)
    assert (
        suggestions_for(scheduler, 1, requests[1]).changes[0].what
        == "pool speech instead of vision"
    )


def test_an_estimate_is_suggested_where_none_is_declared_and_the_policy_looks_at_it() -> None:
    requests = wanted(2, estimate="30m"), wanted(4, estimate="1h"), wanted(2, estimate=None)
    one_node = parse_cluster("1x4")
    backfilled = suggestions_for(scheduler_of(one_node, "easy", *requests), 2, requests[2])
    estimate = "an estimate of 10m 00s, if it is as short as that"
    assert estimate in [one.what for one in backfilled.changes]
    in_order = suggestions_for(scheduler_of(one_node, "fifo", *requests), 2, requests[2])
    assert not any("estimate" in one.what for one in in_order.changes)


def test_nobody_is_advised_to_declare_less_than_the_job_takes() -> None:
    requests = wanted(2, estimate="4h"), wanted(4, estimate="1h"), wanted(2, estimate="6h")
    found = suggestions_for(scheduler_of(parse_cluster("1x4"), "easy", *requests), 2, requests[2])
    assert not any("estimate" in one.request and "gpus" not in one.request for one in found.changes)


def test_a_node_that_is_drained_is_named() -> None:
    request = wanted(4)
    scheduler = scheduler_of(parse_cluster("2x4"), "fifo", wanted(4))
    scheduler.handle(1.0, [NodeChanged(1.0, "node-1", NodeState.DRAINING)])
    scheduler.handle(2.0, [JobSubmitted(2.0, 1, request.spec(1, "ada", 2.0))])
    found = suggestions_for(scheduler, 1, request)
    assert (found.changes[0].what, found.changes[0].request) == ("node node-1 resumed", {})


def test_start_and_finish_are_of_one_forecast_also_behind_a_job_that_overran() -> None:
    """The first was believed to take an hour and has run for three, the second takes one."""
    request = wanted(1)
    scheduler = scheduler_of(parse_cluster("1x1"), "fifo", request, request)
    calibration, now = ForecastCalibration(), 3 * HOUR
    told = forecast_jobs(scheduler.fork(), now, calibration, EPOCH).times[1]
    found = suggest(scheduler.fork(), calibration, view_of(1, request), now, EPOCH, 0.0)
    assert told.start == 2 * now
    assert told.p50 is not None
    assert (found.start, found.p50) == (EPOCH + told.start, EPOCH + told.p50)
    assert told.p50 == told.start + HOUR
    assert found.after == (0,)


def test_for_a_held_job_its_release_is_suggested() -> None:
    request = wanted(4)
    scheduler = scheduler_of(parse_cluster("1x4"), "fifo", request)
    scheduler.handle(1.0, [JobHeld(1.0, 0)])
    scheduler.handle(2.0, [])
    (change,) = suggestions_for(scheduler, 0, request).changes
    assert (change.what, change.start) == ("its release", EPOCH + 10)


def test_for_a_preempted_job_the_next_start_counts() -> None:
    requests = wanted(4, estimate="2h"), wanted(4, estimate="1h")
    scheduler = scheduler_of(parse_cluster("1x4"), "srtf", *requests)
    expected = forecast_jobs(scheduler.fork(), 10.0, ForecastCalibration(), EPOCH).times
    assert (expected[0].start, expected[1].start) == (HOUR, 0.0)
    assert suggestions_for(scheduler, 0, requests[0]).after == (1,)


@pytest.mark.parametrize("policy", ["fifo", "las:round=60", of("themis", "themis")])
def test_if_forecasts_are_slow_only_immediate_starts_are_suggested(policy: str) -> None:
    """For a policy in rounds the next round counts as immediate."""
    requests = wanted(3), wanted(4)
    scheduler = scheduler_of(parse_cluster("1x4"), policy, *requests)
    found = suggestions_for(scheduler, 1, requests[1], forecast_seconds=60.0)
    assert found.after == ()
    period = scheduler.composition.policy.round or 0.0
    for change in found.changes:
        assert change.p50 is None
        assert EPOCH + 10 <= change.start <= EPOCH + 10 + period


@pytest.mark.parametrize(("gpus", "complete"), [(16, True), (32, False)])
def test_candidates_beyond_those_that_are_allowed_are_reported_as_not_tried(
    gpus: int, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions_module, "_TRIED_JOBS", 0)
    requests = wanted(30), wanted(gpus)
    found = suggestions_for(scheduler_of(parse_cluster("1x32"), "fifo", *requests), 1, requests[1])
    assert found.complete is complete


def test_the_live_scheduler_is_unchanged() -> None:
    requests = wanted(3), wanted(4)
    scheduler = scheduler_of(parse_cluster("1x4"), "fifo", *requests)
    before = state_of(scheduler)
    began = time.perf_counter()
    suggestions_for(scheduler, 1, requests[1])
    assert time.perf_counter() - began < 30.0
    assert state_of(scheduler) == before
