"""Deadlines promised to real jobs are kept under a flood of best effort, over the server's death.

The tutorial ``guarantees-kept`` shows the same; that it does is tested with all pages.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_cluster import ControllerHarness, sleeping
from server_process import ServerProcess, server_process
from waiting import until

from volvelle.core.decision import Promise
from volvelle.core.promises import keeps
from volvelle.systems.chronus import reasons

CONFIG = """
cluster = "1x4"
policy = "chronus:lease=10,parts=5"
executor = { name = "local", pretend = true, linger_seconds = 5 }

[listen]
port = 0
"""
LINE = Path(__file__).parents[3] / "examples" / "train_line.py"


def submit(server: ServerProcess, epochs: int, *options: str) -> dict[str, Any]:
    """What is answered to a job of so many seconds, about."""
    command = ("--", sys.executable, str(LINE), str(epochs), "0.01")
    answer: dict[str, Any] = json.loads(server.volvelle("submit", "-o", "json", *options, *command))
    return answer


def why(server: ServerProcess, number: int) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(server.volvelle("why", str(number), "-o", "json"))["job"]
    return job


def nobody_left(server: ServerProcess) -> bool:
    time.sleep(0.5)
    return not json.loads(server.volvelle("queue", "-o", "json"))


def asking(estimate: int, deadline: float) -> tuple[str, ...]:
    return ("--gpus", "4", "--estimate", f"{estimate}s", "--deadline", f"{deadline:.1f}s")


@pytest.mark.slow
def test_two_promises_are_kept_a_third_is_refused_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    with server_process(tmp_path, CONFIG) as server:
        submit(server, 10, "--array", "10", "--estimate", "15s")
        submit(server, 5, "--gpus", "2", "--estimate", "15s", "--deadline", "45s")
        submit(server, 5, *asking(15, 65.0))
        submit(server, 5, *asking(40, 45.0))
        promised = [why(server, number)["guarantee"] for number in (10, 11)]
        refused = why(server, 12)
        assert all(one["finish_by"] is not None for one in promised)
        assert refused["guarantee"]["finish_by"] is None
        assert "guarantees made before" in refused["guarantee"]["reason"]

        earliest = refused["guarantee"]["earliest"]
        for later, able in ((8.0, True), (-8.0, False)):
            told = submit(server, 5, "--dry-run", *asking(40, earliest + later - time.time()))
            assert (told["guarantee"]["finish_by"] is not None) is able

        server.kill()
        server.start(CONFIG)
        assert [why(server, number)["guarantee"] for number in (10, 11)] == promised
        for number in (10, 11):
            server.volvelle("logs", "--follow", str(number))
        until(lambda: nobody_left(server), "the end of all jobs")
        ended = [why(server, number) for number in range(13)]
        assert {job["state"] for job in ended} == {"finished"}
        for number, guarantee in zip((10, 11), promised, strict=True):
            assert ended[number]["guarantee"] == guarantee
            assert keeps(ended[number]["ended"], guarantee["finish_by"])
        assert server.volvelle("why", "11").endswith(": kept.\n")
        server.stop()


def test_a_policy_remembers_what_it_decided_before_where_only_its_words_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guarantees rest on what chronus remembers: an upgrade that says why in other words keeps them."""
    harness = ControllerHarness.at(tmp_path, policy="chronus:lease=4")
    harness.submit(sleeping(5, 2, deadline=30.0))
    hopeless = harness.submit(sleeping(50, 2, deadline=20.0))
    guarantee = harness.controller.status.jobs[hopeless].guarantee
    assert guarantee is not None
    assert guarantee.reason

    def in_other_words(*fields: Any, **more: Any) -> Promise:
        made = Promise(*fields, **more)
        return msgspec.structs.replace(made, reason=made.reason and "not yet")

    monkeypatch.setattr(reasons, "Promise", in_other_words)
    harness.crash(snapshot=False)
    assert not harness.controller.warnings
