"""Webhooks and mail: what is told, and that it arrives, with a real HTTP and a real SMTP server."""

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from api_fixtures import ApiFixture, api  # noqa: F401 - a fixture
from fake_cluster import ControllerHarness, sleeping
from pydantic import ValidationError
from waiting import until

from volvelle.live.config import ServeConfig
from volvelle.live.control.requests import Cancel
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.job_request import JobRequest
from volvelle.live.notifications.delivery import Delivery, Pauses
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.notifications.webhook import signature
from volvelle.live.store import Notification, Store
from volvelle.model.problems import Problem

HOOK = "https://hooks.example.org/ada"
QUICK = Pauses(first=0.02, longest=0.1, mail=0.02)


def settings(**more: Any) -> NotificationSettings:
    given = {"webhook_origins": ["https://hooks.example.org"], **more}
    return NotificationSettings.model_validate(given)


def told(store: Store) -> list[tuple[str, str, Any]]:
    """What waits to be delivered: event, account, and the job's number or else the node."""
    return [
        (each.event, each.account, body["node"] if body["job"] is None else body["job"]["number"])
        for each in store.outbox.list_waiting()
        for body in [json.loads(each.body)]
    ]


def noticed(folder: Path, cluster: str, policy: str = "fifo", **more: Any) -> ControllerHarness:
    harness = ControllerHarness.at(folder, cluster, policy)
    harness.notifications = settings(**more)
    harness.crash()
    harness.deliver()
    return harness


def test_ends_preemptions_and_lost_nodes_are_told_once_also_through_a_restart(
    tmp_path: Path,
) -> None:
    operators = {"target": "https://ops.example.org/", "events": ["failed", "node-lost"]}
    harness = noticed(tmp_path, "2x2", "srsf", to=[operators])
    store = harness.controller.store
    long, doomed = harness.submit(sleeping(50, 4, notify=[HOOK])), 1
    harness.step(2)
    assert harness.submit(JobRequest(command=("fail", "2", "127"), notify=[HOOK])) == doomed
    harness.submit(sleeping(9))  # nobody asked to be told of it
    harness.step(1)
    assert told(store) == [("preempted", "ada", long)]
    harness.crash()
    harness.deliver()
    store = harness.controller.store
    assert told(store) == [("preempted", "ada", long)]
    for _ in range(4):
        harness.step(1)
    failed = [("failed", "", doomed), ("failed", "ada", doomed)]
    assert told(store)[1:] == failed
    for _ in range(3):
        harness.step(4)
    harness.fake_cluster.lose("node-1")
    harness.deliver()
    assert told(store)[3:] == [("node-lost", "", "node-1"), ("node-lost", "ada", long)]
    cancelled = harness.submit(sleeping(50, notify=[HOOK]))
    harness.controller.request(Cancel(cancelled))
    harness.fake_cluster.join("node-1")
    for _ in range(12):
        harness.step(5)
    assert told(store)[5:] == [("finished", "ada", long)]
    assert len({each.id for each in store.outbox.list_waiting()}) == 6


def test_a_deadline_at_risk_is_told_once(tmp_path: Path) -> None:
    harness = noticed(tmp_path, "1x2")
    late = {"kind": "soft", "within": 30}
    harness.submit(sleeping(20, 2))
    number = harness.submit(sleeping(20, 2, deadline=late, notify=[HOOK]))
    harness.submit(sleeping(1, 2, deadline={"kind": "soft", "within": 90}, notify=[HOOK]))

    def forecast() -> None:
        fork = harness.controller._cycle.state.scheduler.fork()
        update = forecast_jobs(fork, fork.now, ForecastCalibration(), 0.0)
        harness.controller._loop.inbox.put(update)
        harness.deliver()

    forecast()
    (one,) = harness.controller.store.outbox.list_waiting()
    assert told(harness.controller.store) == [("deadline-at-risk", "ada", number)]
    job = json.loads(one.body)["job"]
    assert job["predicted_p50"] > job["due"] == job["submitted"] + 30
    harness.controller.store.outbox.settle([one.id], 1e6, "deadline-at-risk")
    harness.submit(sleeping(9, 2, priority=5))
    forecast()
    assert harness.controller.status.jobs[number].predicted_p50 > job["predicted_p50"]
    assert not told(harness.controller.store), "it is told once"
    harness.crash()
    harness.deliver()
    forecast()
    assert not told(harness.controller.store)
    harness.controller.store.outbox.forget(1e6 + 1)
    assert not harness.controller.store.outbox.ids_of("deadline-at-risk")


def test_who_floods_is_dropped_and_others_are_not(tmp_path: Path) -> None:
    harness = noticed(tmp_path, "1x2", waiting_of_a_user=1, to=[{"target": "https://ops.de/"}])
    for _ in range(2):
        harness.submit(sleeping(1, notify=[HOOK]))
    harness.step(2)
    accounts = [account for _, account, _ in told(harness.controller.store)]
    assert sorted(accounts) == ["", "", "ada"]
    assert "notifications of ada are dropped: too many wait" in harness.controller.health.problems


# ---------------------------------------------------------------------- delivery


def news(target: str, id: str = "a1", account: str = "", **more: Any) -> Notification:
    job = {"number": 7, "name": "net", "state": "failed", "reason": "exit\ncode 1"}
    body = json.dumps({"id": id, "event": "failed", "job": job, "node": None, "jobs": []})
    given = {"key": "", "created": time.time(), **more}
    return Notification(id=id, event="failed", account=account, target=target, body=body, **given)


class Hooks:
    """A web server that answers with ``statuses``, the last one again and again."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = [*statuses]
        self.taken: list[tuple[dict[str, str], bytes]] = []

    @contextmanager
    def listening(self) -> Iterator[str]:
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hooks.taken.append((dict(self.headers), body))
                status = hooks.statuses.pop(0) if len(hooks.statuses) > 1 else hooks.statuses[0]
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        with serving(HTTPServer(("127.0.0.1", 0), Handler)) as port:
            yield f"http://127.0.0.1:{port}"


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


class Mailbox:
    """An SMTP server, as far as mail is sent to one address at a time."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[int]:
        mails = self.mails

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                while line := self.rfile.readline():
                    command = line.split()[0].upper()
                    refused = command == b"RCPT" and b"nobody" in line
                    answer = b"550 no such user" if refused else b"250 yes"  # to QUIT too
                    if command == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                    self.wfile.write(answer + b"\r\n")

        with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
            yield port


@contextmanager
def delivering(folder: Path, made: NotificationSettings, *waiting: Notification) -> Iterator[Any]:
    store = Store.open(str(folder / "store.db"))
    store.outbox.add(waiting)
    delivery = Delivery(store.outbox, made, QUICK)
    delivery.start()
    yield store, delivery
    delivery.close()
    store.close()


def test_a_webhook_is_signed_and_tried_again_under_its_id_while_others_go_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_text("of operators\n")
    hooks = Hooks(500, 302, 204)
    with hooks.listening() as url, Hooks(404).listening() as other:
        made = settings(webhook_origins=[other], to=[{"target": url, "key_file": tmp_path / "key"}])
        old = news(f"{other}/old", "c1", "ada", created=time.time() - 2 * 86_400)
        waiting = [news(f"{other}/secret", "b1", "ada"), old, news(url), news(url, "a2")]
        with delivering(tmp_path, made, *waiting) as (store, delivery):
            problem = f"notifications to {other} fail: HTTP status 404"
            until(lambda: problem in delivery.problems and len(hooks.taken) == 4)
            until(lambda: [each.id for each in store.outbox.list_waiting()] == ["b1"])
    ids = [headers["X-Volvelle-Delivery"] for headers, _ in hooks.taken]
    assert ids == ["a1", "a1", "a1", "a2"]
    headers, body = hooks.taken[-1]
    assert headers["X-Hub-Signature-256"] == signature("of operators", body)
    assert json.loads(body)["job"]["number"] == 7


def test_the_signature_is_that_of_github() -> None:
    """The example of GitHub's documentation of webhooks."""
    expected = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature("It's a Secret to Everybody", b"Hello, World!") == f"sha256={expected}"


def test_mail_to_one_address_is_put_together_and_a_refused_one_is_given_up(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with mailbox.listening() as port:
        mail = {"server": "127.0.0.1", "port": port, "tls": "none", "sender": "volvelle@site.org"}
        made = settings(mail_domains=["site.org"], mail=mail)
        waiting = [
            news("ada@site.org", "a1", "ada"),
            news("ada@site.org", "a2", "ada"),
            news("nobody@site.org", "b1", "bob"),
            news("ada@elsewhere.org", "c1", "eve"),  # was allowed once
        ]
        with delivering(tmp_path, made, *waiting) as (store, delivery):
            until(lambda: not store.outbox.list_waiting())
            store.outbox.add([news("ada@site.org", "a3", "ada")])
            delivery.add([news("ada@site.org", "a3", "ada")])
            until(lambda: len(mailbox.mails) == 2)
            until(lambda: not store.outbox.list_waiting())
    both, one = map(message_from_string, mailbox.mails)
    assert (both["To"], both["Subject"]) == ("ada@site.org", "2 notifications of volvelle")
    assert "[a1]" in str(both.get_payload())
    assert "[a2]" in str(both.get_payload())
    assert one["Subject"] == "job 7 (net) failed: exit code 1"
    assert one["Message-ID"] == "<a3@volvelle>"


# ---------------------------------------------------------------------- what is allowed


def test_a_target_that_the_operator_does_not_allow_is_refused(api: ApiFixture) -> None:  # noqa: F811
    job = {"command": ["true"], "notify": ["https://10.0.0.1/"]}
    answer = api.client("dana").post("/v1/jobs", json=job)
    assert answer.status_code == 403
    assert answer.json()["detail"] == "this server does not notify https://10.0.0.1:443 for users"
    wrong = api.client("dana").post("/v1/jobs", json=job | {"notify": ["ftp://10.0.0.1/"]})
    assert wrong.status_code == 422


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("https://hooks.example.org/x?y=1", True),
        ("https://HOOKS.example.org:443/x", True),
        ("ada@Example.org", True),
        ("http://hooks.example.org/x", False),
        ("https://hooks.example.org:8443/x", False),
        ("https://hooks.example.org.evil.org/x", False),
        ("https://hooks.example.org@10.0.0.1/x", False),
        ("https://10.0.0.1\\@hooks.example.org/", False),
        ("ada@sub.example.org", False),
    ],
)
def test_users_reach_only_what_is_allowed(target: str, *, allowed: bool) -> None:
    mail = {"server": "localhost", "tls": "none", "sender": "v@example.org"}
    made = settings(mail_domains=["example.org"], mail=mail)
    assert made.allows(target) is allowed


def test_the_servers_file_says_who_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        'cluster = "1x8"\n[[notifications.to]]\n'
        'target = "https://ops.example.org/"\nkey_file = "webhook.key"\n'
    )
    made = ServeConfig.load(file, {}).notifications
    with pytest.raises(Problem, match=r"there is nothing to read in .*webhook\.key"):
        made.read_keys()
    (tmp_path / "webhook.key").write_text("k\n")
    assert made.read_keys() == {"https://ops.example.org/": "k"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mail_domains": ["example.org"]}, "mail needs a server"),
        ({"to": [{"target": "ops@example.org"}]}, "mail needs a server"),
        ({"webhook_origins": ["https://h.org/path"]}, "is no origin"),
        ({"mail_domains": ["@example.org"]}, "is no domain"),
        ({"to": [{"target": "/etc/passwd"}]}, "give a web address"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**wrong)


def test_a_password_goes_nowhere_in_plain_text() -> None:
    mail = {"server": "smtp.example.org", "tls": "none", "sender": "v@example.org"}
    with pytest.raises(ValidationError, match="could read the password"):
        settings(mail=mail | {"user": "v", "password_file": "secret"})
