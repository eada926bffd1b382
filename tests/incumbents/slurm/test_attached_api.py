"""An attached cluster by HTTP: the reading half of a server's API, of what a recorded run showed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from attached_server import AttachedServer as Attached
from slurm_runs import RecordedSlurm

from volvelle.incumbents.attach.attached import AttachedCluster
from volvelle.incumbents.attach.session import Session
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.model.job_number import job_name, job_number

POLLS = 60


@pytest.fixture(scope="module")
def attached(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attached]:
    run = RecordedSlurm(shared / "golden" / "slurm" / "run1")
    found = Attached(run, incumbent(), tmp_path_factory.mktemp("attached"))
    for _ in range(POLLS):
        found.session.step()
    yield found
    found.session.close()


def test_every_job_is_listed_with_what_only_slurm_knows(attached: Attached) -> None:
    page = attached.client().get("/v1/jobs").json()
    shown = {job_name(job["number"]): job for job in page["jobs"]}
    follower = attached.session.follower
    assert follower is not None
    there = {job.key: job for job in follower.snapshot.jobs if job.pending or job.running}
    assert shown.keys() == there.keys()
    for name, job in there.items():
        view = shown[name]
        assert (view["attached"]["qos"], view["attached"]["account"]) == (job.qos, job.account)
        assert view["attached"]["reason"] == job.reason
        assert (view["started"] is None) == job.pending
        assert sum(len(gpus) for _, gpus in view["grants"]) == (job.gpus if job.running else 0)
        if job.pending:
            assert view["predicted_start"] <= view["attached"]["start_p90"]
        assert view["predicted_p50"] <= view["predicted_p90"]


def test_no_gpu_is_shown_with_two_jobs(attached: Attached) -> None:
    table = attached.client("u1").get("/v1/queue").json()
    jobs = [dict(zip(table["job_columns"], row, strict=True)) for row in table["jobs"]]
    held = [(node, gpu) for job in jobs for node, gpus in job["grants"] for gpu in gpus]
    nodes = {row[0]: dict(zip(table["node_columns"], row, strict=True)) for row in table["nodes"]}
    assert held
    assert len(held) == len(set(held))
    assert all(gpu < nodes[node]["gpus"] for node, gpu in held)
    assert sum(node["gpus"] - node["free"] for node in nodes.values()) == len(held)


def test_why_has_the_rule_and_those_ahead(attached: Attached) -> None:
    client = attached.client()
    waiting = client.get("/v1/jobs", params={"state": "waiting"}).json()["jobs"]
    found = [client.get(f"/v1/jobs/{job['number']}/why").json() for job in waiting]
    assert found
    assert all(one["reason"] for one in found if one["job"]["attached"]["reason"] != "None")
    last = max(found, key=lambda one: one["job"]["predicted_start"])
    assert len(last["ahead"]) == sum(
        job["predicted_start"] < last["job"]["predicted_start"] for job in waiting
    )
    points = client.get(f"/v1/jobs/{waiting[0]['number']}/forecasts").json()["points"]
    assert points


def test_history_is_by_the_end_and_in_pages(attached: Attached) -> None:
    client = attached.client()
    whole = client.get("/v1/jobs", params={"over": True}).json()["jobs"]
    assert len(whole) > 20
    assert any("_" in job_name(job["number"]) for job in whole)  # tasks of an array
    ends = [job["ended"] for job in whole]
    assert ends[0] >= ends[-1]
    assert {job["state"] for job in whole} <= {"finished", "failed", "cancelled"}
    first = client.get("/v1/jobs", params={"over": True, "limit": 7}).json()
    second = client.get(
        "/v1/jobs", params={"over": True, "limit": 7, "after": first["next"]}
    ).json()
    numbers = [job["number"] for job in (*first["jobs"], *second["jobs"])]
    assert numbers == [job["number"] for job in whole[:14]]
    own = attached.client("u1").get("/v1/jobs", params={"over": True}).json()["jobs"]
    assert {job["user"] for job in own} == {"u1"}
    past = client.get("/v1/holdings", params={"seconds": 366 * 86400}).json()
    assert len(past["holdings"]) >= len(whole) / 2


def test_nothing_is_changed_through_it(attached: Attached) -> None:
    client = attached.client()
    number = client.get("/v1/jobs").json()["jobs"][0]["number"]
    for method, path in (
        ("POST", f"/v1/jobs/{number}/cancel"),
        ("POST", "/v1/jobs"),
        ("PATCH", f"/v1/jobs/{number}"),
        ("PUT", "/v1/policy"),
        ("POST", "/v1/nodes/a1/drain"),
        ("GET", "/v1/journal"),
        ("GET", f"/v1/jobs/{number}/logs"),
    ):
        answer = client.request(method, path, json={})
        assert answer.status_code == 405
        assert answer.json()["detail"].startswith("Slurm 26.05.5 of spike decides here")
    assert client.get("/v1/policy").json()["policy"] == "slurm"
    assert client.post("/v1/tokens", json={"user": "u7"}).status_code == 201
    session = attached.client("u1").get("/v1/session").json()
    assert session["reads"] == "Slurm 26.05.5 of spike"
    assert session["titles"]["qos"] == "QOS"


def test_changes_of_the_site_are_answered_by_queue_and_user(attached: Attached) -> None:
    """A cap of a QOS, a partition's nodes and limit, a reservation, nodes, a setting; each has an effect."""
    client = attached.client()
    examples = client.get("/v1/forecast/site").json()["examples"]
    assert len(examples) == 9
    for one in examples:
        answer = client.post("/v1/forecast/site", json={"changes": [one["change"]]})
        assert answer.status_code == 200, (one, answer.text)
        found = answer.json()["effects"]
        assert {each["kind"] for each in found} == {"all", "queue", "user"}
        assert all(
            each["least"] <= each["after"] - each["before"] <= each["most"] for each in found
        )
    assert attached.client("u1").get("/v1/forecast/site").status_code == 403
    wrong = client.post("/v1/forecast/site", json={"changes": ["QOS=nothing MaxWall=1"]})
    assert wrong.status_code == 409
    assert "there is no QOS 'nothing'" in wrong.json()["detail"]


def test_metrics_have_the_accuracy_beside_slurm(attached: Attached) -> None:
    lines = attached.client("u1").get("/metrics").text.splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(figures['volvelle_jobs{state="running"}']) > 0
    ours = float(figures["volvelle_attach_start_error_mean_seconds"])
    assert ours < float(figures["volvelle_attach_slurm_start_error_mean_seconds"])
    load = attached.client("u1").get("/v1/load").json()
    follower = attached.session.follower
    assert follower is not None
    assert attached.client("u1").get("/v1/told").json()["sentence"] == follower.accuracy.line()
    assert load["p90_held"] + load["p90_missed"] == sum(
        one.polls for one in follower.accuracy.starts
    )


def test_a_server_that_comes_back_has_the_history(attached: Attached, shared: Path) -> None:
    before = attached.client().get("/v1/jobs", params={"over": True}).json()["jobs"]
    attached.session.close()
    cluster = AttachedCluster()
    again = Session(attached.asked, attached.session.folder, incumbent(), cluster.take)
    again.close()
    after = cluster.ended.list_latest(limit=1000)
    assert [one.number for one in after] == [one["number"] for one in before][: len(after)]
    assert len(after) == len(before)


@pytest.mark.parametrize("name", ["12", "0", "1188_3", "67108863_4000000"])
def test_names_of_jobs_come_back(name: str) -> None:
    assert job_name(job_number(name)) == name


@pytest.mark.parametrize("name", ["", "x", "1188_", "1_2_3", "-1", "1188_[6-9]"])
def test_what_names_no_job_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no job"):
        job_number(name)
