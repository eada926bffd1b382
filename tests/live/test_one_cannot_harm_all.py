"""What fails in one place, or is asked for too often, stops nothing else, and is said."""

import asyncio
import json
import shlex
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from api_fixtures import open_api
from fake_cluster import ControllerHarness, FakeCluster, FakeExecutor, header_of, sleeping
from httpx import ASGITransport, AsyncClient, Response
from starlette.types import Scope
from systems_here import of
from waiting import until

from volvelle.core.policy import policies
from volvelle.live.control.controller import Controller
from volvelle.live.control.inbox import Inbox
from volvelle.live.control.requests import Recompose, Submit
from volvelle.live.forecasts import forecaster
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.http import large_bodies
from volvelle.live.http.authentication import Principal
from volvelle.live.job_request import JobRequest
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
    until(lambda: "no such table: jobs" in controller.health.failure)


def test_a_forecast_that_fails_is_said_and_the_next_one_is_made(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecaster, "_MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(forecaster, "forecast_jobs", lambda *_: 1 / 0)
    controller.request(Submit("ada", sleeping(5))).result(timeout=10)
    until(lambda: "there are no forecasts: ZeroDivisionError" in str(controller.health.problems))
    assert controller.health.ready
    monkeypatch.setattr(forecaster, "forecast_jobs", forecast_jobs)
    controller.request(Submit("ada", sleeping(5))).result(timeout=10)
    until(lambda: "forecasts" not in str(controller.health.problems))


@pytest.mark.parametrize("days", [400, -400])
def test_a_wrong_clock_at_a_start_is_bounded_and_said(tmp_path: Path, days: int) -> None:
    harness = ControllerHarness.at(tmp_path)
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


def test_a_wrong_clock_at_a_start_has_the_store_forget_nothing(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    harness.fake_cluster.now += 40 * DAY
    harness.crash()
    harness.deliver()
    due = harness.controller._loop._retention._next_time - time.monotonic()
    assert DAY - 100.0 < due <= DAY
    harness.fake_cluster.now -= 40 * DAY  # it is set
    harness.crash()
    assert harness.controller._clock.now() >= 31 * DAY
    assert harness.controller._clock.earliest() < DAY
    assert harness.controller._loop._retention._next_time <= time.monotonic()


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


KEEN = """
from pydantic import PrivateAttr

from volvelle.policy import Policy, register


class Seen:
    def __init__(self):
        self.jobs = []


@register
class Keen(Policy):
    name = "keen"
    _seen: Seen = PrivateAttr(default_factory=Seen)

    def allocate(self, view):
        raise NotImplementedError
"""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        of("pollux", "pollux:generations=0", "generations"),
        of("anticipatory", "anticipatory:refit=1e300", "refit is 1e\\+300: write 0"),
        ("las:round=1e300", "less than or equal to 1000000000"),
    ],
)
def test_parameters_of_policies_have_bounds(written: str, said: str) -> None:
    with pytest.raises(Problem, match=said):
        policies.make(written)


def test_a_policy_that_decides_without_a_pause_is_refused_live(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    answer = harness.controller.request(Recompose("las:round=0.001", "accept-all"))
    harness.deliver()
    with pytest.raises(Problem, match="would decide every 0\\.001 s"):
        answer.result(timeout=0.0)


def test_a_policy_whose_memory_cannot_be_written_is_refused_live(tmp_path: Path) -> None:
    policy = tmp_path / "keen.py"
    policy.write_text(KEEN, encoding="utf-8")
    harness = ControllerHarness.at(tmp_path)
    answer = harness.controller.request(Recompose(str(policy), "accept-all"))
    harness.deliver()
    with pytest.raises(
        Problem, match="'keen' remembers in _seen cannot be written: Seen declares no"
    ):
        answer.result(timeout=0.0)


def test_an_array_is_refused_whose_jobs_are_too_large_together(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    variables = {f"V{i}": "x" * 200 for i in range(4500)}
    large = harness.controller.request(
        Submit("ada", sleeping(5, array=10_000, environment=variables))
    )
    many_rates = {f"type-{i}": {1: 1.0, 2: 2.0} for i in range(100)}
    wide = sleeping(5, array=1000, rates=many_rates, max_gpus=1_000_000)
    expanding = harness.controller.request(Submit("ada", wide))
    small = harness.controller.request(Submit("lee", sleeping(5)))
    harness.deliver()
    for refused in (large, expanding):
        with pytest.raises(Problem, match="more than 33,554,432 bytes together"):
            refused.result(0.0)
    assert small.result(0.0) == (0,)


def test_jobs_of_an_array_share_their_request_through_a_restart(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    for user in ("ada", "lee"):
        harness.controller.request(Submit(user, sleeping(5, array=20, environment={"OF": user})))
    harness.deliver()
    harness.crash()
    jobs = harness.controller._cycle.state.jobs.values()
    assert len(jobs) == 40
    for name in ("request", "request_json"):
        assert len({id(getattr(job, name)) for job in jobs}) == 2


_TRUE = {"command": "true"}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"command": "\\" * 400_000}, "command has 400,000 characters, at most 8,192"),
        (_TRUE | {"setup": ["\\" * 20_000]}, "setup item has 20,000 characters"),
        ({"command": [*range(150_000)]}, "command has 150,000 items, at most 4,096"),
        (_TRUE | {"after": ["x"] * 200_000}, "after has 200,000 items, at most 4,096"),
        (_TRUE | {f"key{i}": 0 for i in range(50_000)}, "50,001 values in all"),
        (_TRUE | {"after": [[0] * 3000] * 3}, "values in all, at most 5,000"),
        (_TRUE | {"gpus": "x" * 5000}, "key 'gpus' is 'xxx"),
        ("[" * 100_000 + "]" * 100_000, "not JSON, or nested too deeply"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/forecast"])
def test_no_body_is_interpreted_that_is_longer_than_a_job_needs(
    path: str, document: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    split = shlex.split

    def split_and_note(line: str) -> list[str]:
        lengths.append(len(line))
        return split(line)

    monkeypatch.setattr(shlex, "split", split_and_note)
    body = document if isinstance(document, str) else json.dumps(document)
    with open_api(tmp_path, body_bytes=1 << 21) as api:
        client = api.client("dana")
        headers = {"Content-Type": "application/json"}
        answered = client.post(path, content=body, headers=headers)
        assert (answered.status_code, answered.json()["place"]) == (422, "body")
        assert said in answered.json()["detail"]
        unknown = api.client().post(path, content=body, headers=headers)
        assert unknown.status_code == 401
    assert all(length <= 8192 for length in lengths)


def test_a_user_whose_bodies_take_long_to_read_waits_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body of one is read until the others have been answered."""
    others_done, reading = threading.Event(), threading.Event()
    threads: set[str] = set()
    read = large_bodies._read

    def read_slowly(principal: Principal, scope: Scope, body: bytes) -> JobRequest | None:
        threads.add(threading.current_thread().name)
        if principal.user == "dana":
            reading.set()
            assert others_done.wait(20)
        return read(principal, scope, body)

    monkeypatch.setattr(large_bodies, "_read", read_slowly)
    job = {"command": "true", "environment": {f"V{i}": "x" * 50 for i in range(100)}}

    async def ask() -> None:
        transport = ASGITransport(app=api.app)

        def post(user: str) -> asyncio.Task[Response]:
            headers = {"Authorization": f"Bearer {api.tokens[user]}"}
            return asyncio.create_task(client.post("/v1/jobs", json=job, headers=headers))

        async with AsyncClient(transport=transport, base_url="http://x") as client:
            slow = [post("dana") for _ in range(6)]
            await asyncio.to_thread(reading.wait, 20)
            assert (await post("lee")).status_code == 201
            others_done.set()
            statuses = sorted([(await each).status_code for each in slow])
            assert statuses == [201] * 4 + [429] * 2

    with open_api(tmp_path) as api:
        asyncio.run(ask())
    assert threading.current_thread().name not in threads


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
    harness.close()


def test_a_server_without_jobs_sleeps(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    assert harness.controller._loop._seconds_to_sleep() > 0.0
    harness.close()
