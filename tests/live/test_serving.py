"""``volvelle serve`` as a process, and the commands of its users beside it."""

import importlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from server_process import server_process, volvelle
from test_notifications import Hooks
from waiting import until

from volvelle.live.http.client import ApiClient
from volvelle.model.problems import Problem

vv: Any = importlib.import_module("volvelle")

CONFIG = """
cluster = "1x4"
policy = "srsf"
executor = { name = "local", pretend = true, linger_seconds = 5 }

[listen]
port = 0

[limits]
request = 0.5
connections_of_a_client = 20
streams_of_a_user = 2
"""


HOOKS = Hooks(204)
"""A webhook that the server tells of what failed."""


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which a server runs, started by somebody whose files anybody may read and write."""
    folder = tmp_path_factory.mktemp("served")
    with HOOKS.listening() as url, _umask(0):
        told = f'\n[[notifications.to]]\ntarget = "{url}"\nevents = ["failed"]\n'
        with server_process(folder, CONFIG + told) as server:
            yield server.folder
            server.stop()
            assert not (server.folder / "volvelle-serve" / "server.json").exists()


def test_submit_wait_exits_with_the_outcome_of_the_job(server: Path) -> None:
    good = volvelle(server, "submit", "--wait", "--gpus", "2", "--", "echo", "$(id)", ";", "exit")
    assert good.returncode == 0, good.stderr
    number = good.stdout.split()[1]
    assert volvelle(server, "logs", number).stdout == "$(id) ; exit\n"
    bad = volvelle(server, "submit", "--wait", "--name", "bad", "sh", "-c", "exit 3")
    assert bad.returncode == 1
    ended = json.loads(volvelle(server, "history", "--state", "failed", "-o", "json").stdout)
    [job] = [job for job in ended if job["name"] == "bad"]
    wanted = "failed", "bad", job["user"]

    def told() -> list[tuple[str, str, str]]:
        taken = [json.loads(body) for _, body in HOOKS.taken]
        return [(each["event"], each["job"]["name"], each["job"]["user"]) for each in taken]

    until(lambda: wanted in told(), "the webhook")


def test_a_job_comes_after_all_of_an_array_by_its_name(server: Path) -> None:
    sweep = ("submit", "--gpus", "1", "--name", "sweep", "--array", "4", "--", "sleep", "60")
    first = int(volvelle(server, *sweep).stdout.split()[1].partition("-")[0])
    after = volvelle(server, "submit", "--after", "sweep:any", "--", "true")
    assert after.returncode == 0, after.stderr
    number = int(after.stdout.split()[1])
    [waits] = [
        job
        for job in json.loads(volvelle(server, "queue", "-o", "json").stdout)
        if job["number"] == number
    ]
    assert str(first) in waits["reason"]
    told = json.loads(volvelle(server, "why", str(number), "-o", "json").stdout)
    [declared] = told["job"]["request"]["after"]
    assert (declared["job"], declared["count"]) == (first, 4)
    unknown = volvelle(server, "token", "revoke", "zzz")
    assert unknown.stderr == "error: there is no token 'zzz'. See: volvelle token list.\n"
    volvelle(server, "cancel", str(number), *map(str, range(first, first + 4)))


def test_logs_of_a_job_that_has_not_started_say_so(server: Path) -> None:
    holds, waits = (
        volvelle(server, "submit", "--gpus", "4", "--", "sleep", "60").stdout.split()[1]
        for _ in range(2)
    )
    asked = volvelle(server, "logs", waits)
    assert (asked.stdout, asked.stderr) == ("", f"job {waits} has not started\n")
    volvelle(server, "cancel", waits, holds)
    assert volvelle(server, "logs", waits).stderr == f"job {waits} never started\n"


def test_a_waiting_job_is_changed_and_a_running_one_put_back(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server)
    first, second = (
        volvelle(
            server,
            "submit",
            "--name",
            "rest",
            "--gpus",
            "4",
            "--estimate",
            "1h",
            "--",
            "sleep",
            "60",
        ).stdout.split()[1]
        for _ in range(2)
    )
    changed = volvelle(server, "change", second, "--estimate", "2h", "--retries", "1")
    assert (changed.stdout, changed.returncode) == (f"job {second} changed\n", 0)
    said = "Changed since its submission: retries 1, was 3; estimate 2h 00m, was 1h 00m.\n"
    until(lambda: said in volvelle(server, "why", second).stdout, "the change")
    assert vv.connect().change(int(second), retries=2).request["retries"] == 2
    until(lambda: vv.connect().job(int(first)).state == "running", "the first to run")
    twice = volvelle(server, "change", first, "--priority", "-1", "--estimate", "2h")
    assert f"nothing of job {first} changed: job {first} has its GPUs" in twice.stderr
    refused = volvelle(server, "change", first, "--priority", "-1")
    assert "has its GPUs: what it declares changes only while it waits" in refused.stderr
    nothing = volvelle(server, "change", first)
    assert "nothing changes: give --retries, --estimate" in nothing.stderr
    wider = volvelle(server, "change", first, "--gpus", "8")
    assert "--gpus cannot change once a job is submitted, only --retries" in wider.stderr
    assert f"Cancel it (volvelle cancel {first}), and submit it anew" in wider.stderr
    until(lambda: volvelle(server, "requeue", first).returncode == 0, "the job put back")
    unknown = volvelle(server, "submit", "--after", "rset:any", "--", "true")
    assert "there is no job 'rset' (did you mean 'rest'?)" in unknown.stderr
    several = volvelle(server, "cancel", "rest")
    assert several.returncode == 2
    assert f"2 jobs are called 'rest': {first} (" in several.stderr
    assert "there is no job 'rset' (did you mean 'rest'?)" in volvelle(server, "why", "rset").stderr
    assert volvelle(server, "cancel", second).returncode == 0
    some = volvelle(server, "cancel", second, "99999", "rest")
    assert (some.stdout, some.returncode) == (f"job {first} cancelled\n", 1)
    assert some.stderr.splitlines() == [
        f"error: job {second} is cancelled. It is over: to run it again, submit it again.",
        "error: there is no job 99999. See: volvelle queue.",
    ]


def test_what_was_is_had_again_under_another_policy(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server)
    client = ApiClient.find()
    until(lambda: all(map(_ended, client.get("/v1/jobs")["jobs"])), "jobs of other tests to end")
    began = time.time()
    (number,) = client.post("/v1/jobs", {"command": ["sleep", "0.2"]})["numbers"]
    job = until(lambda: _ended(client.get(f"/v1/jobs/{number}")))
    asked = {"since": began, "until": job["ended"], "policy": "fifo"}
    found = client.post("/v1/forecast/past", asked)
    assert (found["policy"], found["jobs"], found["passed_over"]) == ("srsf", 1, 0)
    took = job["ended"] - job["submitted"]
    assert found["was"]["jct_mean"] == found["was"]["makespan"] == pytest.approx(took, abs=0.1)
    assert found["other"] == found["again"], "whoever is alone starts at once under every policy"


def _ended(job: dict[str, Any]) -> dict[str, Any] | None:
    return None if job["ended"] is None else job


def test_all_that_server_and_agents_keep_is_readable_by_its_owner_only(server: Path) -> None:
    ran = volvelle(server, "submit", "--wait", "--", "sh", "-c", "echo 1 > made")
    assert ran.returncode == 0, ran.stderr
    assert volvelle(server, "backup", "copy.db").returncode == 0
    kept = server / "volvelle-serve"
    paths = [kept, server / "copy.db", *kept.rglob("*")]
    assert [path for path in paths if path.stat().st_mode & 0o077] == []
    assert {"store.db", "token", "agents.token", "output.log"} <= {path.name for path in paths}
    made = server / "made"
    assert stat.S_IMODE(made.stat().st_mode) == 0o666  # a job's own files are as its umask has them


def test_the_server_says_at_its_start_what_whoever_may_submit_is_trusted_with(server: Path) -> None:
    said = (server / "log").read_text()
    assert "whoever may submit can read what it can, and so is an operator.\n" in said


def test_a_notebook_asks_as_the_commands_do(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(server)
    live = vv.connect()
    with pytest.raises(
        Problem, match=r"no file 'sleep 0'. Give a command by words: \['sleep', '0'\]"
    ):
        live.submit("sleep 0")
    told = live.forecast(["sleep", "0"], gpus=1, estimate="1m")
    assert told.start < told.p50 <= told.p90
    row = live.submit(["sleep", "0"], name="asked", estimate="1m", array=2)[0]
    assert row.name == "asked"
    assert abs(datetime.now().astimezone() - row.submitted) < timedelta(minutes=1)
    assert row.submitted.strftime("%H:%M:%S") in repr(row)
    why = live.why(row.number)
    assert why.job.name == "asked"
    assert repr(why).startswith(f"job {row.number} (asked)")
    until(lambda: len([job for job in live.history() if job.name == "asked"]) == 2)
    (server / "job.yaml").write_text("command: sleep 0\nname: written\n")
    assert live.submit("job.yaml", name="changed")[0].name == "changed"
    (server / "broken.yaml").write_text("command: sleep: 0\n")
    with pytest.raises(Problem, match=r"broken.yaml line 1 is not YAML: .*Write keys and values"):
        live.submit("broken.yaml")
    with pytest.raises(Problem, match="did you mean 'gpus'"):
        live.submit("job.yaml", gpuss=1)
    number = live.submit(["sleep", "60"])[0].number
    after = live.submit(["sleep", "0"], after=[number])[0].number
    live.hold(number)
    until(lambda: live.job(number).state == "held")
    live.release(number)
    assert live.job(number).state != "held"
    told = f"job {after} was to run after its success, and was rejected"
    assert live.cancel(number) == (told,)


def test_live_answers_are_frames_with_the_types_of_the_api(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.chdir(server)
    live = vv.connect()
    number = live.submit(["sleep", "60"], gpus=4, name="framed", deadline={"within": "1h"})[
        0
    ].number
    until(lambda: live.job(number).state == "running", "it to run")
    frame = pyarrow.table(live.queue())
    assert frame.schema.field("submitted").type == frame.schema.field("ended").type
    assert pyarrow.types.is_timestamp(frame.schema.field("guaranteed").type)
    [job] = [row for row in frame.to_pylist() if row["number"] == number]
    assert (job["state"], job["gpus"], job["ended"]) == ("running", 4.0, None)
    assert job["grants"].endswith(", 0, 1, 2, 3")
    assert job["due"] - job["submitted"] == timedelta(hours=1)
    assert pyarrow.table(live.nodes()).column("free").to_pylist() == [0]
    server_says = live.client.get(f"/v1/jobs/{number}")
    assert job["submitted"].timestamp() == pytest.approx(server_says["submitted"], abs=1e-5)
    assert volvelle(server, "cancel", str(number)).returncode == 0


def test_a_user_without_the_folder_connects_with_url_and_token(
    server: Path, tmp_path: Path
) -> None:
    url = json.loads((server / "volvelle-serve" / "server.json").read_text())["url"]
    token = volvelle(server, "token", "create", "--user", "dana").stdout.strip()
    assert token.startswith("vv_")
    dana = {"VOLVELLE_SERVER": url, "VOLVELLE_TOKEN": token}
    assert volvelle(tmp_path, "queue", **dana).returncode == 0
    assert "only operators" in volvelle(tmp_path, "nodes", "drain", "node-0", **dana).stderr
    wrong = volvelle(tmp_path, "queue", VOLVELLE_SERVER=url, VOLVELLE_TOKEN="vv_wrong")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "error: Authorization: the token is not known. "
        "Set VOLVELLE_TOKEN to a token from your operator (volvelle token create).\n",
    )
    [row] = [
        row for row in json.loads(volvelle(server, "token", "list", "-o", "json").stdout)
        if row["user"] == "dana"
    ]  # fmt: skip
    rotated = volvelle(server, "token", "rotate", row["id"]).stdout.strip()
    assert "the token is not known" in volvelle(tmp_path, "queue", **dana).stderr
    assert volvelle(tmp_path, "queue", **dana | {"VOLVELLE_TOKEN": rotated}).returncode == 0
    unknown = volvelle(tmp_path, "queue").stderr
    assert "no server is known. Start one with volvelle serve --cluster 1x8, go to where" in unknown
    nobody = volvelle(tmp_path, "queue", VOLVELLE_SERVER="http://127.0.0.1:9", VOLVELLE_TOKEN="t")
    assert "nobody listens at http://127.0.0.1:9" in nobody.stderr
    assert nobody.stderr.endswith("its address is from VOLVELLE_SERVER.\n")
    left = tmp_path / "volvelle-serve"
    shutil.copytree(server / "volvelle-serve", left)
    (left / "server.json").write_text('{"url": "http://127.0.0.1:9"}')
    nobody = volvelle(tmp_path, "queue")
    assert nobody.stderr.endswith(f"its address is from the folder {left}.\n")


def test_an_operator_sets_another_policy_after_a_dry_run(
    server: Path,
) -> None:
    assert volvelle(server, "policy").stdout == "policy  admission\nsrsf    accept-all\n"
    assert volvelle(server, "policy", "-o", "csv").stdout == "policy,admission\nsrsf,accept-all\n"
    looked = volvelle(server, "policy", "set", "las", "--dry-run")
    assert (looked.returncode, looked.stdout) == (
        0,
        "would change nothing at once\nno job that is there would finish at another time\n",
    )
    waits = [
        volvelle(
            server, "submit", "--gpus", "4", "--estimate", f"{hours}h", "--", "sleep", "60"
        ).stdout.split()[1]
        for hours in (2, 1)
    ]  # srsf stops the longer for the shorter
    client = ApiClient.find(start=server)
    until(lambda: client.get(f"/v1/jobs/{waits[1]}")["state"] == "running", "the shorter to run")
    fifo = volvelle(
        server, "policy", "set", "fifo:preemptive=true", "--dry-run"
    ).stdout.splitlines()
    assert fifo[0] == f"would stop 1 job ({waits[1]}), start 1 job ({waits[0]}) at once"
    assert fifo[1].startswith("1 job would finish earlier, by ")
    assert fifo[2].startswith("1 job would finish later, by ")
    assert fifo[3].split() == ["job", "name", "user", "starts", "then", "finishes", "then"]
    assert volvelle(server, "cancel", *waits).returncode == 0
    wrong = volvelle(server, "policy", "set", "lass")
    assert (wrong.returncode, "did you mean 'las'" in wrong.stderr) == (1, True)
    assert volvelle(server, "policy", "set", "las").stdout == "las decides, admission accept-all\n"
    shown = volvelle(server, "policy", "-o", "json").stdout
    assert json.loads(shown) == {"policy": "las", "admission": "accept-all"}
    assert volvelle(server, "policy", "set", "srsf").returncode == 0


@pytest.mark.parametrize(
    "begun", [b"", b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n", b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
              b"Content-Length: 100\r\n\r\n{"]
)  # fmt: skip
def test_an_unfinished_request_is_closed(server: Path, begun: bytes) -> None:
    url = urlsplit(json.loads((server / "volvelle-serve" / "server.json").read_text())["url"])
    assert url.hostname
    assert url.port
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall(begun)
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    assert b" 408 " in answer or not answer


def test_a_port_in_use_is_reported_before_anything_starts(server: Path, tmp_path: Path) -> None:
    port = urlsplit(json.loads((server / "volvelle-serve" / "server.json").read_text())["url"]).port
    ran = volvelle(tmp_path, "serve", "--gpus", "1", "--port", str(port))
    assert ran.returncode == 1
    assert ran.stderr == (
        f"error: cannot listen at 127.0.0.1:{port}: address already in use. "
        "Stop what listens there, or say --port 0 for a port that is free.\n"
    )


def test_a_second_server_of_a_folder_is_refused(server: Path) -> None:
    ran = volvelle(server, "serve", "--gpus", "4", "--port", "0")
    assert ran.returncode == 1
    assert re.search(r"another volvelle serve is writing to \S+ \(process \d+\)\.", ran.stderr)
    assert (server / "volvelle-serve" / "server.json").exists()


def test_one_client_cannot_take_all_connections(server: Path) -> None:
    address = urlsplit(json.loads((server / "volvelle-serve" / "server.json").read_text())["url"])
    where = (str(address.hostname), address.port or 0)
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    greedy = []
    try:
        for _ in range(60):
            connection = socket.create_connection(where, 5.0, source_address=("127.0.0.3", 0))
            greedy.append(connection)
            with suppress(OSError):
                connection.sendall(ask)
                connection.recv(65_536)
        still_open = 0
        for connection in greedy:
            with suppress(OSError):
                connection.sendall(ask)
            still_open += _first_bytes(connection) == b"HTTP/1.1 200"
        assert 0 < still_open <= 20
        with socket.create_connection(where, 5.0, source_address=("127.0.0.4", 0)) as other:
            other.sendall(ask)
            assert _first_bytes(other) == b"HTTP/1.1 200"
    finally:
        for each in greedy:
            each.close()


def _first_bytes(connection: socket.socket) -> bytes:
    try:
        return connection.recv(12)
    except OSError:
        return b""


def test_a_user_follows_a_few_streams_at_once(server: Path) -> None:
    token = (server / "volvelle-serve" / "token").read_text().strip()
    address = urlsplit(json.loads((server / "volvelle-serve" / "server.json").read_text())["url"])
    where = (str(address.hostname), address.port or 0)
    request = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"

    def ask() -> tuple[socket.socket, bytes]:
        connection = socket.create_connection(where, 5.0)
        connection.sendall(request.encode())
        return connection, connection.recv(12)

    answers = [ask() for _ in range(3)]
    assert [status for _, status in answers] == [
        b"HTTP/1.1 200",
        b"HTTP/1.1 200",
        b"HTTP/1.1 429",
    ]
    for connection, _ in answers:
        connection.close()
    until(lambda: _closing(*ask()) == b"HTTP/1.1 200")


def _closing(connection: socket.socket, status: bytes) -> bytes:
    connection.close()
    return status
