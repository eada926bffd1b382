"""Attach beside a Kueue: what it tells, learns, keeps and says, of a simulated one and of an API server's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_objects import Object
from attached_server import AttachedServer
from fake_api_server import READ_ONLY, FakeApiServer, Rule, User
from simulated_kueue import SimulatedKueue, laboratory
from typer.testing import CliRunner
from waiting import until

from volvelle.cli import jobs as cli_jobs
from volvelle.incumbents.attach import look_ahead
from volvelle.incumbents.attach.command import app
from volvelle.incumbents.attach.effects import Present, effects
from volvelle.incumbents.attach.follow import Attached
from volvelle.incumbents.attach.listing import heading, prometheus, summary
from volvelle.incumbents.attach.recording import read
from volvelle.incumbents.attach.session import Replay, Session, replay, resumed
from volvelle.incumbents.kueue.attach import incumbent, kept
from volvelle.incumbents.kueue.folder import Folder
from volvelle.incumbents.kueue.watch import Watch
from volvelle.kubernetes_api import KubernetesApi
from volvelle.model.problems import Problem

HOURS = 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Attached]:
    """A recording of some hours of an overloaded cluster, and what was known at its end."""
    folder, kueue = tmp_path_factory.mktemp("kueue"), SimulatedKueue(1, 120.0, load=1.3)
    session = Session(kueue, folder, incumbent(), clock=lambda: kueue.time)
    for _ in range(HOURS * 30):
        told = {one.key: one for one in session.step()}
        assert session.follower is not None
        jobs = [job for job in session.follower.snapshot.jobs if job.pending or job.running]
        assert told.keys() == {job.key for job in jobs}, "no workload is without an answer"
        assert all(one.start <= one.start_p90 and one.end <= one.end_p90 for one in told.values())
    session.close()
    assert session.follower is not None
    return folder, session.follower


def test_most_starts_come_by_their_p90_and_nearer_than_by_average(
    recorded: tuple[Path, Attached],
) -> None:
    ours, naive = recorded[1].accuracy.of_starts()
    assert ours is not None
    assert naive is not None
    assert ours.polls > 200
    assert ours.held > 0.8
    assert ours.median < naive.median


def test_run_times_are_learned_by_owner_and_image(recorded: tuple[Path, Attached]) -> None:
    follower = recorded[1]
    ended = [job for job in follower.over if "sweep" in job.name and job.start and job.end]
    believed = follower.believed()
    waiting = [one for one in follower.snapshot.jobs if "sweep" in one.name and one.pending]
    assert len(ended) > 5
    assert waiting
    assert all(60.0 < believed[one.key] < 3600.0 for one in waiting)


def test_a_recording_is_known_as_kueues_and_told_again(recorded: tuple[Path, Attached]) -> None:
    folder, follower = recorded
    assert json.loads((folder / "attach.jsonl").open().readline()) == {"of": "kueue"}
    *_, (again, _) = replay(folder)
    assert again.accuracy.line() == follower.accuracy.line()
    assert heading(again).startswith("laboratory: 4 ClusterQueues, 2 flavours, quotas of 56 GPUs;")
    at_the_end = resumed(read(folder), incumbent()).follower
    assert at_the_end is not None
    assert at_the_end.accuracy.line() == follower.accuracy.line()
    done = CliRunner().invoke(app, ["replay", str(folder), "--user", "vision"])
    assert done.exit_code == 0, done.output
    assert "BY AVERAGE" in done.output
    assert "robots/" not in done.output
    with pytest.raises(Problem, match="holds a recording of Kueue"):
        from volvelle.incumbents.slurm.attach import incumbent as slurm

        Session(SimulatedKueue(), folder, slurm())


def test_why_names_the_quota_the_lender_and_those_ahead(recorded: tuple[Path, Attached]) -> None:
    folder, follower = recorded
    follower.tell()
    waiting = [job for job in follower.snapshot.jobs if job.pending and job.queue == "vision"]
    said = [follower.why[job.key] for job in waiting]
    assert any("in use, cohort research has none left to lend" in one for one in said)
    assert any("ahead of it: vision/job-" in one for one in said)
    done = CliRunner().invoke(app, ["why", str(folder), waiting[-1].key])
    assert done.output.startswith("Kueue says: ")
    assert "The rules say: " in done.output


def test_what_if_changes_quotas_weights_and_nodes(recorded: tuple[Path, Attached]) -> None:
    follower = recorded[1]

    def moved(*changes: str) -> float:
        [whole] = [one for one in effects(Present.of(follower), changes) if one.kind == "all"]
        return whole.after - whole.before

    assert moved("ClusterQueue=vision nominalQuota=48 flavor=a100") < -60.0
    assert moved("ResourceFlavor=a100 nodes=+4") < -60.0
    assert moved("ResourceFlavor=a100 nodes=-2") > 60.0
    assert moved("ClusterQueue=speech lendingLimit=0") > 60.0
    assert moved("ClusterQueue=language lendingLimit=-1") < -60.0
    assert moved("ClusterQueue=vision weight=2") == 0.0, "without fair sharing weights are idle"
    for written, said in {
        "ClusterQueue=visoin nominalQuota=4": "there is no ClusterQueue 'visoin'.*vision",
        "ClusterQueue=vision nominalQuota=4": "has nvidia.com/gpu of a100, nvidia.com/gpu of h100",
        "ClusterQueue=vision quota=4": "is no field that is modelled",
        "ClusterQueue=robots nominalQuota=four": "'four' is no quantity",
        "Queue=vision nominalQuota=4": "names nothing that can be changed",
        "ResourceFlavor=a100 nodes=many": "is no change of nodes",
        "ClusterQueue=vision": "changes nothing",
    }.items():
        with pytest.raises(Problem, match=said):
            effects(Present.of(follower), [written])


def test_figures_and_the_week_in_words(recorded: tuple[Path, Attached]) -> None:
    follower = recorded[1]
    text = prometheus(follower)
    assert "volvelle_attach_average_start_error_mean_seconds" in text
    assert "When Kueue was last asked" in text
    words = list(summary(follower, 0.0))
    assert any(one.startswith("vision: ") for one in words)


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[AttachedServer]:
    """A server over an overloaded cluster, some hours in."""
    found = AttachedServer(SimulatedKueue(2, 600.0, load=1.3), incumbent(), tmp_path)
    for _ in range(20):
        found.session.step()
    yield found
    found.session.close()


def test_the_api_of_a_server_shows_it(attached: AttachedServer) -> None:
    api_client = attached.client()
    jobs = api_client.get("/v1/jobs").json()["jobs"]
    waiting = next(one for one in jobs if one["state"] == "waiting")
    assert waiting["attached"]["partition"] in ("vision", "language", "speech", "robots")
    assert waiting["attached"]["start"] is None, "Kueue tells none"
    why = api_client.get(f"/v1/jobs/{waiting['number']}/why").json()
    assert "ClusterQueue" in why["reason"]
    nodes = api_client.get("/v1/nodes").json()["nodes"]
    held = {one["name"]: one["gpus"] - one["free"] for one in nodes}
    running = [one for one in jobs if one["state"] == "running"]
    assert sum(held.values()) == sum(one["gpus"] for one in running)
    over = api_client.get("/v1/jobs", params={"over": True}).json()["jobs"]
    assert {one["state"] for one in over} == {"finished"}
    assert api_client.get("/v1/policy").json()["policy"] == "kueue"
    assert "Kueue of laboratory decides" in api_client.post("/v1/jobs", json={}).json()["detail"]


def test_changes_of_quotas_weights_and_nodes_are_answered_over_http(
    attached: AttachedServer,
) -> None:
    client = attached.client()
    examples = client.get("/v1/forecast/site").json()["examples"]
    assert len(examples) == 6
    known = ({"change": "ClusterQueue=vision nominalQuota=48 flavor=a100"}, *examples)
    means = []
    for one in known:
        answer = client.post("/v1/forecast/site", json={"changes": [one["change"]]})
        assert answer.status_code == 200, (one, answer.text)
        whole = next(each for each in answer.json()["effects"] if each["kind"] == "all")
        means.append(whole["after"] - whole["before"])
    assert means[0] < -60.0
    wrong = client.post("/v1/forecast/site", json={"changes": ["ClusterQueue=visoin weight=2"]})
    assert wrong.status_code == 409
    assert "there is no ClusterQueue 'visoin'" in wrong.json()["detail"]


def test_queue_and_why_use_its_words(
    attached: AttachedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its queues and classes, and no start of a scheduler that tells none."""
    with attached.served() as url:
        monkeypatch.setenv("VOLVELLE_SERVER", url)
        monkeypatch.setenv("VOLVELLE_TOKEN", attached.tokens["root"])
        cli_jobs.queue()
        head = capsys.readouterr().out.splitlines()[0]
        waiting = attached.client().get("/v1/jobs", params={"state": "waiting"}).json()["jobs"]
        cli_jobs.why(waiting[0]["number"])
    assert [one for one in ("queue", "class") if one not in head] == []
    assert [one for one in ("partition", "QOS", "site tells") if one in head] == []
    words = capsys.readouterr().out
    assert "Local queue gpus, queue " in words
    assert "; its scheduler says WaitingForQuota." in words


def test_a_poll_without_a_queue_keeps_no_later_one_from_being_read(tmp_path: Path) -> None:
    objects, file = [*laboratory(), workload("train-1", "gpus")], tmp_path / "objects.json"
    without = [one for one in objects if one["kind"] != "ClusterQueue"]
    newer = {"apiVersion": "kueue.x-k8s.io/v9"}
    unread = [one | newer if one["kind"] == "ClusterQueue" else one for one in objects]
    for items in (without, objects, unread, objects):  # each time started again
        file.write_text(json.dumps({"kind": "List", "items": items}))
        session = Session(Folder(file), tmp_path / "recording", incumbent())
        if items is not objects:
            why = ": ClusterQueue vision: version 'v9'" if items is unread else r"\. Write it"
            with pytest.raises(Problem, match=f"no ClusterQueue that can be read{why}"):
                session.step()
        else:
            assert [one.key for one in session.step()] == ["vision/train-1"]
        session.close()


# ---------------------------------------------------------------------- what is read

LISTED = ["Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor"]


def filled(server: FakeApiServer, version: str = "v1beta2") -> None:
    """Put the laboratory, and a workload, into a server."""
    kinds = {kind.kind: kind for kind in server.store.kinds}
    for one in [*laboratory(), workload("train-1", "gpus")]:
        kind = kinds[one["kind"]]
        api = f"{kind.group}/{version}" if "kueue" in kind.group else "v1"
        server.store.create(kind, {**one, "apiVersion": api})


def workload(name: str, queue: str, **spec: Any) -> Object:
    """A workload of a GPU, with a command that nobody is to keep."""
    container = {
        "name": "main",
        "image": "train:1",
        "command": ["python", "--token=x1y2"],
        "env": [{"name": "TOKEN", "value": "x1y2"}],
        "resources": {"requests": {"nvidia.com/gpu": "1"}},
    }
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "kind": "Workload",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"queueName": queue, "podSets": [pods], **spec},
    }


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    """A server with the laboratory."""
    with FakeApiServer(bookmark_seconds=0.1) as server:
        filled(server)
        yield server


def watch(server: FakeApiServer, folder: Path, token: str = "") -> Watch:
    return Watch(KubernetesApi(str(server.kubeconfig(folder, token=token))))


def followed(watch: Watch) -> Replay:
    leads = Replay(incumbent())
    leads.feed({"t": 1793534400.0, "site": watch.site()})
    leads.feed({"t": 1793534400.0, "poll": watch.poll()})
    return leads


def test_objects_are_watched_and_come_back_after_an_expiry(
    server: FakeApiServer, tmp_path: Path
) -> None:
    with watch(server, tmp_path) as watched:
        follower = followed(watched).follower
        assert follower is not None
        assert [one.key for one in follower.tell()] == ["vision/train-1"]
        kind = server.store.kind("workloads")
        server.store.create(kind, workload("train-2", "gpus"))
        until(lambda: len(watched.poll()["Workload"]) == 2)
        server.break_connections()
        server.store.create(kind, workload("train-3", "gpus"))
        server.store.delete(kind, "vision", "train-1")
        server.store.compact()
        names = {"train-2", "train-3"}

        def current() -> bool:
            try:
                found = watched.poll()["Workload"]
            except Problem:
                return False
            return {one["metadata"]["name"] for one in found} == names

        until(current)


def test_commands_and_environments_are_not_kept() -> None:
    found = kept(workload("train-1", "gpus"), "Workload")
    assert "x1y2" not in json.dumps(found)
    assert found["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["image"] == "train:1"
    half = workload("half", "gpus", podSets=["x1y2"])
    assert "x1y2" not in json.dumps(kept(half, "Workload"))


def test_rights_that_are_missing_are_said_and_the_rest_works(
    server: FakeApiServer, tmp_path: Path
) -> None:
    names = ("workloads", "clusterqueues", "localqueues", "resourceflavors", "cohorts")
    named = (*names, "topologies", "workloadpriorityclasses", "priorityclasses")
    server.users["few"] = User("few", (Rule(("get", "list", "watch"), named),))
    with watch(server, tmp_path, "few") as watched:
        follower = followed(watched).follower
    assert follower is not None
    said = " ".join(follower.site.remarks)
    assert "may not list nodes: flavours are shown with their quotas alone" in said
    assert "may not list namespaces: queues count as taking all" in said
    assert "Configuration was not read: fair sharing counts as off" in said
    assert follower.tell()
    server.users["none"] = User("none", (Rule(("get", "list", "watch"), ("nodes",)),))
    with (
        pytest.raises(Problem, match=r"cannot list workloads: .*forbidden.*--print-manifest"),
        watch(server, tmp_path, "none"),
    ):
        pass
    with pytest.raises(Problem, match="a token that is valid"), watch(server, tmp_path, "x"):
        pass


def test_an_older_api_is_read_and_an_unknown_one_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    def served(*versions: str) -> FakeApiServer:
        server = FakeApiServer(bookmark_seconds=0.1)
        server.store.kinds = tuple(
            replace(kind, versions=versions) if "kueue" in kind.group else kind
            for kind in server.store.kinds
        )
        return server

    with served("v1beta1") as old:
        filled(old, "v1beta1")
        with watch(old, tmp_path) as watched:
            assert followed(watched).follower is not None
    with (
        served("v3") as new,
        pytest.raises(Problem, match="served as v3 here; v1beta1, v1beta2 are known"),
        watch(new, tmp_path),
    ):
        pass


def test_objects_that_refer_to_nothing_are_said_and_others_told() -> None:
    objects: dict[str, list[Object]] = {}
    odd = [
        workload("lost", "nowhere"),
        workload("off", "gpus", active=False),
        {**workload("future", "gpus"), "apiVersion": "kueue.x-k8s.io/v7"},
        workload("train-1", "gpus"),
        workload("half", "gpus", podSets="not as Kueue has them"),
        workload("", "gpus"),
        workload("odd", "gpus"),
    ]
    containers = odd[-1]["spec"]["podSets"][0]["template"]["spec"]["containers"]
    containers[0]["resources"]["requests"] = {"nvidia.com/gpu": "many"}
    odd[3]["status"] = {
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "False",
                "reason": "Pending",
                "message": "insufficient unused quota",
            }
        ]
    }
    for one in [*laboratory(), *odd]:
        objects.setdefault(one["kind"], []).append(one)
    leads = Replay(incumbent())
    leads.feed({"t": 1793534400.0, "site": {}})
    leads.feed({"t": 1793534400.0, "poll": objects})
    follower = leads.follower
    assert follower is not None
    told = {one.key: one for one in follower.tell()}
    assert told.keys() == {"vision/lost", "vision/off", "vision/train-1"}
    said = " ".join(follower.remarks)
    assert "Workload vision/future: version 'v7' of Kueue's API is not known" in said
    assert (
        "Workload vision/half: Expected 'array', got 'str' - at 'podSets': it is left out" in said
    )
    assert "Workload vision has no metadata.name" in said
    assert "Workload vision/odd: 'many' is no quantity of nvidia.com/gpu" in said
    known = {job.key: job for job in follower.snapshot.jobs}
    assert known["vision/train-1"].said == "Pending: insufficient unused quota"
    assert (
        "LocalQueue vision/nowhere is not there: workloads that name it wait for good (1)" in said
    )
    assert follower.why["vision/lost"] == "LocalQueue vision/nowhere is not there"
    assert "deactivated" in follower.why["vision/off"]
    vision = next(one for one in objects["ClusterQueue"] if one["metadata"]["name"] == "vision")
    vision["spec"]["stopPolicy"] = "Hold"
    leads = Replay(incumbent())
    leads.feed({"t": 1793534400.0, "site": {}})
    leads.feed({"t": 1793534400.0, "poll": objects})
    assert leads.follower is not None
    leads.follower.tell()
    said = leads.follower.why["vision/train-1"]
    assert said == "ClusterQueue vision admits nothing: it is stopped (stopPolicy Hold)"


def test_a_folder_of_objects_is_told_once(tmp_path: Path) -> None:
    items = [*laboratory(), workload("train-1", "gpus")]
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"kind": "List", "items": items}))
    given = ["kueue", "--from", str(objects), "--once", "--record", str(tmp_path / "record")]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert "objects: 4 ClusterQueues" in done.output
    assert "vision/train-1" in done.output
    printed = CliRunner().invoke(app, ["kueue", "--print-manifest"]).output
    import yaml

    rules = [rule for one in yaml.safe_load_all(printed) for rule in one.get("rules", [])]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert READ_ONLY.verbs == ("get", "list", "watch")


def test_the_far_part_of_long_queues_is_told_near_what_playing_it_out_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects: dict[str, list[Object]] = {}
    many = [
        workload(
            f"train-{at}", "gpus", priority=-at, maximumExecutionTimeSeconds=600 + 60 * (at % 7)
        )
        for at in range(150)
    ]
    for one in [*laboratory(), *many]:
        objects.setdefault(one["kind"], []).append(one)
    found = []
    for most in (1000, 100):
        monkeypatch.setattr(look_ahead, "MOST", most)
        monkeypatch.setattr(look_ahead, "NEAR", 80)
        leads = Replay(incumbent())
        leads.feed({"t": 1793534400.0, "site": {}})
        leads.feed({"t": 1793534400.0, "poll": objects})
        assert leads.follower is not None
        found.append({one.key: one.start - 1793534400.0 for one in leads.follower.tell()})
    whole, told = found
    assert told.keys() == whole.keys()
    assert all(told[f"vision/train-{at}"] == whole[f"vision/train-{at}"] for at in (0, 40, 79))
    far = [f"vision/train-{at}" for at in range(80, 150)]
    assert all(abs(told[key] - whole[key]) < 0.35 * whole[key] + 120.0 for key in far)
