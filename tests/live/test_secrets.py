"""Secret variables of jobs: encrypted wherever the server keeps them, and shown by their names only."""

from pathlib import Path

import pytest
from api_fixtures import ApiFixture
from fake_cluster import ControllerHarness, sleeping

from volvelle.cli.main import app
from volvelle.live.control.requests import KeyUsedBefore, Release, Submit
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.http.client import ApiClient
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import Grant, Launch, Start
from volvelle.live.store.backup import back_up
from volvelle.model.problems import Problem

pytest.importorskip("cryptography")
pytest_plugins = ["api_fixtures"]

PLAIN = "hunter2-and-more"


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path)


def submit(harness: ControllerHarness, request: JobRequest, key: str | None = None) -> int:
    answer = harness.controller.request(Submit("dana", request, key))
    harness.deliver()
    (number,) = answer.result(timeout=0.0)
    assert isinstance(number, int)
    return number


def holding(folder: Path, text: str) -> list[str]:
    """The files that contain ``text``."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if text.encode() in path.read_bytes()]


def test_a_secret_reaches_the_job_and_is_in_no_file_of_the_server_nor_in_a_backup(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    number = submit(harness, sleeping(5, name="named", secrets={"TOKEN": PLAIN}))
    environment = harness.fake_cluster.runs[number].start.launch.environment
    assert environment == {"TOKEN": PLAIN}
    harness.controller._loop._snapshots.close(harness.controller._cycle.state)
    back_up(f"sqlite:///{tmp_path}/store.db", tmp_path / "monday.db")
    assert "monday.db" in holding(tmp_path, "named")
    assert holding(tmp_path, PLAIN) == []
    key = tmp_path / "secrets.key"
    assert key.stat().st_mode & 0o077 == 0
    assert holding(tmp_path, key.read_text().strip()) == [key.name]
    harness.step(5)
    assert holding(tmp_path, PLAIN) == []


def test_a_job_that_waits_over_a_restart_has_its_secret(harness: ControllerHarness) -> None:
    submit(harness, sleeping(5, 2))
    number = submit(harness, sleeping(5, 2, secrets={"TOKEN": PLAIN}))
    harness.crash()
    harness.deliver()
    harness.step(5)
    assert harness.fake_cluster.runs[number].start.launch.environment == {"TOKEN": PLAIN}


def test_a_repeated_submission_is_known_and_another_secret_is_another_job(
    harness: ControllerHarness,
) -> None:
    number = submit(harness, sleeping(5, secrets={"TOKEN": PLAIN}), "a key")
    assert submit(harness, sleeping(5, secrets={"TOKEN": PLAIN}), "a key") == number
    with pytest.raises(KeyUsedBefore):
        submit(harness, sleeping(5, secrets={"TOKEN": "another"}), "a key")


def test_without_the_key_jobs_with_secrets_are_held_until_it_is_back_and_others_go_on(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    submit(harness, sleeping(5, 2))
    secret = submit(harness, sleeping(5, 2, secrets={"TOKEN": PLAIN}))
    other = submit(harness, sleeping(5, 2))
    key, aside = tmp_path / "secrets.key", tmp_path / "aside"
    key.rename(aside)
    harness.crash()
    harness.deliver()
    (warning,) = harness.controller.warnings
    assert (
        f"the secrets of 1 jobs (as job {secret}) cannot be read: {key} is not the key" in warning
    )
    assert "Put that key back, start the server anew and release them" in warning
    assert not key.exists()
    harness.step(5)
    states = {number: job.state for number, job in harness.controller.status.jobs.items()}
    assert states == {secret: "held", other: "running"}
    with pytest.raises(Problem, match="is missing or another one"):
        submit(harness, sleeping(5, secrets={"TOKEN": PLAIN}))
    aside.rename(key)
    harness.crash()
    harness.deliver()
    assert harness.controller.warnings == ()
    harness.controller.request(Release(secret))
    harness.step(5)
    assert harness.fake_cluster.runs[secret].start.launch.environment == {"TOKEN": PLAIN}


def test_a_sealed_secret_is_bound_to_its_user_and_name(tmp_path: Path) -> None:
    box = SecretBox(tmp_path / "secrets.key")
    assert box.begin(()) == ""
    sealed = box.seal("dana", sleeping(5, secrets={"TOKEN": PLAIN, "EMPTY": ""})).secrets
    launch, grants = Launch(command=("true",)), (Grant("node-0", (0,)),)
    order = Start(number=1, attempt=1, user="dana", grants=grants, launch=launch)
    assert box.opened(order, sealed).launch.environment == {"TOKEN": PLAIN, "EMPTY": ""}
    eves = Start(number=2, attempt=1, user="eve", grants=grants, launch=launch)
    for stolen in ((eves, sealed), (order, {"OTHER": sealed["TOKEN"]})):
        with pytest.raises(Problem, match="is missing or another one"):
            box.opened(*stolen)


def test_the_api_shows_names_of_secrets_only(api: ApiFixture) -> None:
    dana = api.client("dana")
    job = {"command": ["true"], "gpus": 9, "secrets": {"TOKEN": PLAIN}}
    assert dana.post("/v1/jobs", json=job | {"gpus": 8}).status_code == 201
    for path in ("/v1/jobs/0", "/v1/jobs", "/v1/journal", "/v1/snapshot"):
        told = api.client("root").get(path)
        assert told.status_code == 200
        assert PLAIN not in told.text
    assert dana.get("/v1/jobs/0").json()["request"]["secrets"] == {"TOKEN": ""}
    twice = dana.post("/v1/jobs", json=job | {"gpus": 1, "environment": {"TOKEN": "x"}})
    assert twice.status_code == 422
    assert "TOKEN is in environment and in secrets" in twice.json()["detail"]


class _Asked:
    """A client that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: dict[str, dict[str, object]] = {}

    def post(self, path: str, body: dict[str, object], key: str = "") -> dict[str, object]:
        self.sent[path] = body
        return {"numbers": [7], "notices": [], "deadline_share": 1.0}

    def get(self, path: str, **query: object) -> dict[str, object]:
        if query:
            return {"jobs": []}
        return {"predicted_p50": 1.0, "ended": None, "profiling": False}


def test_a_secret_is_sent_with_the_job_and_not_for_a_forecast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _Asked()
    monkeypatch.setattr(ApiClient, "find", lambda: asked)
    monkeypatch.setenv("TOKEN", PLAIN)
    words = ["--secret", "TOKEN", "--secret", "MORE=x", "--deadline", "2h", "-o", "csv", "true"]
    with pytest.raises(SystemExit) as ended:
        app(["submit", *words])
    assert ended.value.code == 0
    assert asked.sent["/v1/jobs"]["secrets"] == {"TOKEN": PLAIN, "MORE": "x"}
    assert "secrets" not in asked.sent["/v1/forecast"]
    assert PLAIN not in capsys.readouterr().out
