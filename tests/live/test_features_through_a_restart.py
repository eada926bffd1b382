"""Features of jobs with real processes, while the server is killed and started again."""

from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess, server_process
from waiting import until

from volvelle.live.http.client import ApiClient
from volvelle.live.uploads import digest_of, pack
from volvelle.model.problems import Problem

CONFIG = """
policy = "fifo-skip"
executor = { name = "local", pretend = true }

[[nodes]]
name = "fast"
gpus = 2
labels = ["nvlink"]

[[nodes]]
name = "plain"
gpus = 6

[listen]
port = 0
"""


def test_jobs_wait_for_others_for_nodes_and_for_time_through_a_crash(tmp_path: Path) -> None:
    with server_process(tmp_path, CONFIG) as server:
        client = client_of(server)
        with pytest.raises(
            Problem, match="the job wants nodes with zone=a, the cluster's have nvlink"
        ):
            client.post("/v1/jobs", job(tmp_path, "true", constraints=["zone=a"]))
        gate = submit(client, job(tmp_path, f"{WAIT}; echo gate >> order"))
        after = submit(client, job(tmp_path, "echo after >> order", after=[gate]))
        elements = f"{WAIT}; echo $VOLVELLE_ARRAY_INDEX >> elements"
        first = submit(client, job(tmp_path, elements, array=3, at_once=1))
        limited = submit(client, job(tmp_path, "exec sleep 600", time_limit=2.0, retries=5))
        alone = submit(
            client, job(tmp_path, f"{WAIT}; echo $VOLVELLE_NODE", gpus=2, exclusive=True,
                        constraints=["nvlink"]),
        )  # fmt: skip
        content = pack(files(tmp_path))
        client.upload(digest_of(content), content)
        sent = submit(
            client, job(None, "cat made hello", setup=[["cp", "hello", "made"]], after=[gate],
                        constraints=["nvlink"], upload=digest_of(content)),
        )  # fmt: skip
        until(lambda: state(client, alone) == "running", "a job that has a node of its own")
        reason = until(lambda: client.get(f"/v1/jobs/{after}")["reason"], "why it waits")
        assert reason == f"waits for job {gate}"
        server.kill()
        server.start(CONFIG)
        client = client_of(server)
        assert [state(client, n) for n in (after, first + 1, sent)] == ["waiting"] * 3
        (tmp_path / "go").touch()
        numbers = gate, after, first, first + 1, first + 2, alone, sent
        until(lambda: all(state(client, n) == "finished" for n in numbers), "what waited")
        until(lambda: state(client, limited) == "failed", "the job that has a time limit")
        assert "time limit" in client.get(f"/v1/jobs/{limited}")["reason"]
        assert (tmp_path / "order").read_text() == "gate\nafter\n"
        assert (tmp_path / "elements").read_text() == "0\n1\n2\n"
        assert log(client, alone) == "fast\n"
        headings = "==> set-up: cp hello made <==\n", "==> command <==\n"
        assert log(client, sent) == f"{headings[0]}{headings[1]}hello\nhello\n"
        assert client.get(f"/v1/jobs/{sent}")["ran_on"].keys() == {"fast"}


WAIT = "until test -e go; do sleep 0.1; done"


def client_of(server: ServerProcess) -> ApiClient:
    return ApiClient(server.url, (server.folder / "volvelle-serve" / "token").read_text().strip())


def job(folder: Path | None, script: str, **more: Any) -> dict[str, Any]:
    directory = "" if folder is None else str(folder)
    return {"command": ["sh", "-c", script], "directory": directory, **more}


def submit(client: ApiClient, request: dict[str, Any]) -> int:
    return int(client.post("/v1/jobs", request)["numbers"][0])


def state(client: ApiClient, number: int) -> str:
    return str(client.get(f"/v1/jobs/{number}")["state"])


def log(client: ApiClient, number: int) -> str:
    return b"".join(client.stream(f"/v1/jobs/{number}/logs")).decode()


def files(folder: Path) -> Path:
    (folder / "project").mkdir()
    (folder / "project" / "hello").write_text("hello\n")
    return folder / "project"
