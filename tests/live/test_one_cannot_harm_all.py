"""What fails in one place, or is asked for too often, stops nothing else, and is said."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fake_cluster import (
    ControllerHarness,
    FakeCluster,
    FakeExecutor,
    header_of,
    sleeping,
    wait_for,
)

from volvelle.core.policy import policies
from volvelle.live.control.controller import Controller
from volvelle.live.control.inbox import Inbox
from volvelle.live.control.requests import Recompose, Submit
from volvelle.live.forecasts import forecaster
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.messages import AttemptEnded, AttemptProgress, Outcome
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem

DAY = 86_400.0


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """In its threads."""
    cluster = parse_cluster("1x2")
    fake_cluster = FakeCluster(cluster, up={"node-0"})
    store = Store.open(str(tmp_path / "store.db"))
    context = ExecutorContext(cluster, tmp_path, "secret")
    executor = FakeExecutor(fake_cluster=fake_cluster)
    controller = Controller(store, header_of(cluster), executor, context)
    controller.start()
    yield controller
    controller.stop()


def test_a_damaged_store_ends_the_controller_instead_of_being_tried_for_ever(
    controller: Controller, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("drop table jobs")
    answer = controller.request(Submit("ada", sleeping(5)))
    with pytest.raises(Problem, match="the controller is stopping"):
        answer.result(timeout=10)
    wait_for(lambda: "no such table: jobs" in controller.health.failure)


def test_a_forecast_that_fails_is_said_and_the_next_one_is_made(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecaster, "_MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(forecaster, "forecast_jobs", lambda *_: 1 / 0)
    controller.request(Submit("ada", sleeping(5))).result(timeout=10)
    wait_for(lambda: "there are no forecasts: ZeroDivisionError" in str(controller.health.problems))
    assert controller.health.ready
    monkeypatch.setattr(forecaster, "forecast_jobs", forecast_jobs)
    controller.request(Submit("ada", sleeping(5))).result(timeout=10)
    wait_for(lambda: "forecasts" not in str(controller.health.problems))


@pytest.mark.parametrize("days", [400, -400])
def test_a_wrong_clock_at_a_start_is_bounded_and_said(tmp_path: Path, days: int) -> None:
    harness = ControllerHarness.at(tmp_path)
    harness.deliver()
    harness.controller.request(Submit("ada", sleeping(1e6, estimate=1e6)))
    harness.step(10)
    before = harness.controller.status.time
    right = harness.fake_cluster.now
    harness.fake_cluster.now += days * DAY
    harness.crash()
    harness.deliver()
    assert before <= harness.controller.status.time <= before + 31 * DAY + 10
    (problem,) = harness.controller.health.problems
    way = "ahead of" if days > 0 else "behind"
    assert f"days {way} the server's" in problem
    harness.fake_cluster.now = right + 31 * DAY  # it is set, and time has passed
    harness.crash()
    harness.deliver()
    assert harness.controller.health.problems == ()


def test_what_nodes_repeat_is_pending_once() -> None:
    inbox = Inbox()
    for iteration in range(1000):
        metrics = {"loss": float(iteration)} if iteration % 2 else {"accuracy": 0.5}
        inbox.put(
            AttemptProgress(1, 1, "a-b", iterations=iteration, saved_iterations=0, metrics=metrics)
        )
        inbox.put(AttemptEnded(2, 1, "a-b", outcome=Outcome.FINISHED))
        inbox.put(AttemptProgress(1, 1, "c-d", iterations=7, saved_iterations=0))
    assert len(inbox) == 3
    taken, closed = inbox.take(0.0)
    assert not closed
    assert [type(each) for each in taken] == [AttemptProgress, AttemptEnded, AttemptProgress]
    latest = taken[0]
    assert isinstance(latest, AttemptProgress)
    assert (latest.iterations, latest.metrics) == (999, {"loss": 999.0, "accuracy": 0.5})
    inbox.put(latest)
    assert inbox.take(0.0) == ([latest], False)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("pollux:generations=0", "generations"),
        ("anticipatory:refit=1e300", "refit is 1e\\+300: write 0"),
    ],
)
def test_parameters_of_policies_have_bounds(written: str, said: str) -> None:
    with pytest.raises(Problem, match=said):
        policies.make(written)


def test_a_policy_that_decides_without_a_pause_is_refused_live(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    harness.deliver()
    answer = harness.controller.request(Recompose("las:round=0.001", "accept-all"))
    harness.deliver()
    with pytest.raises(Problem, match="would decide every 0\\.001 s"):
        answer.result(timeout=0.0)


def test_health_is_told_while_nodes_join(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    problems = harness.controller._cycle.node_problems

    class OfAJoiningNode(str):
        """A problem that is read while the controller's thread learns of another node."""

        def __bool__(self) -> bool:
            problems[f"node-{len(problems)}"] = "has not joined"
            return True

    problems["node-0"] = OfAJoiningNode("has joined twice")
    assert "has joined twice" in harness.controller.health.problems
    harness.controller.store.close()


def test_a_server_without_jobs_sleeps(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    harness.deliver()
    assert harness.controller._seconds_to_sleep() > 0.0
    harness.controller.store.close()
