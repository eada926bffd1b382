"""`volvelle dashboard RUN`: the cluster of a run at any moment."""

import http.client
import json
import threading
from dataclasses import replace
from math import isnan
from typing import Any

import pytest
from dashboard_runs import two_jobs_and_a_late_one

from volvelle.dashboard.columns import JOB_COLUMNS, JOB_TABLE, HoldingRow, NodeRow
from volvelle.dashboard.run_server import make_server
from volvelle.live.status.view import JobStatusView
from volvelle.metrics.catalogue import metrics
from volvelle.model.problems import Problem


def rows(table: dict[str, Any], kind: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in table[kind]]


def test_jobs_and_nodes_are_as_they_were_at_a_moment() -> None:
    run = two_jobs_and_a_late_one()
    then = run.table(5.0)
    first, second = rows(then, "jobs", JOB_COLUMNS)
    assert (first["state"], first["started"], first["predicted_p50"]) == ("running", 0, 10)
    assert first["grants"] == [("node-0", [0, 1]), ("node-1", [0, 1])]
    assert (second["state"], second["submitted"], second["predicted_start"]) == ("waiting", 4, 10)
    assert [node["free"] for node in rows(then, "nodes", NodeRow._fields)] == [0, 0]
    assert run.holdings(5.0)["holdings"] == run.history(5.0)["jobs"] == []
    later = run.table(12.0)
    assert [(job["number"], job["grants"]) for job in rows(later, "jobs", JOB_COLUMNS)] == [
        (1, [("node-0", [0])])
    ]
    assert [node["free"] for node in rows(later, "nodes", NodeRow._fields)] == [1, 2]
    assert [(job["number"], job["ended"]) for job in run.history(12.0)["jobs"]] == [(0, 10)]
    [holding] = rows(run.holdings(12.0), "holdings", HoldingRow._fields)
    assert (holding["number"], holding["start"], holding["end"]) == (0, 0, 10)
    assert run.table(run.end)["jobs"] == []
    assert run.load(9.0)["points"] == [(0, 4, 0), (4, 4, 1)]
    assert run.load(run.end)["points"][2:] == [(10, 1, 0), (15, 0, 0)]


def test_the_page_of_a_run_is_for_this_machine_only() -> None:
    server = make_server(two_jobs_and_a_late_one(), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:

        def get(path: str, host: str = "") -> tuple[int, bytes]:
            port = server.server_address[1]
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
            answer = connection.getresponse()
            return answer.status, answer.read()

        assert b"<title>Volvelle</title>" in get("/dashboard/")[1]
        assert json.loads(get("/v1/session")[1])["role"] == "run"
        assert [row[0] for row in json.loads(get("/v1/queue?at=5")[1])["jobs"]] == [0, 1]
        assert get("/v1/queue?at=noon")[0] == 422
        assert get("/dashboard/../../etc/passwd")[0] == 404
        assert get("/v1/queue", host="rebound.example:80")[0] == 403
    finally:
        server.shutdown()
        server.server_close()


def test_the_history_has_the_metrics_that_are_asked_for_by_their_names() -> None:
    plain = two_jobs_and_a_late_one()
    run = replace(plain, metrics=[metrics.get("jct"), metrics.get("deadline_miss")])
    ended = run.history(run.end)["jobs"]
    assert [job["metrics"]["jct"] for job in ended] == [11.0, 10.0]
    assert all(isnan(job["metrics"]["deadline_miss"]) for job in ended)
    with pytest.raises(Problem, match="'makespan' is not a number for each job"):
        replace(plain, metrics=[metrics.get("makespan")])


def test_a_column_is_named_once_for_servers_and_runs() -> None:
    names = [one.name for one in JOB_TABLE]
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(JobStatusView, name) or name in JobStatusView.__dataclass_fields__
    assert two_jobs_and_a_late_one().table(0.0)["job_titles"] == {
        "attempt": "Attempt",
        "preemptions": "Preempted",
    }
