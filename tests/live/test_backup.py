"""Backups of a store: made while its server runs, put back, and what the server does then."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from server_process import ServerProcess, server_process, volvelle
from waiting import until

from volvelle.live.http.client import ApiClient
from volvelle.live.store import Store
from volvelle.live.store.backup import back_up, restore
from volvelle.model.problems import Problem

CONFIG = """
cluster = "2x2"
executor = { name = "local", pretend = true, linger_seconds = 30 }

[listen]
port = 0
"""


def client_of(server: ServerProcess) -> ApiClient:
    token = (server.folder / "volvelle-serve" / "token").read_text().strip()
    return ApiClient(server.url, token)


def logs(client: ApiClient, number: int) -> bytes:
    return b"".join(client.stream(f"/v1/jobs/{number}/logs"))


def test_a_restored_backup_gives_nobody_the_jobs_of_another(tmp_path: Path) -> None:
    """Job 1 is accepted after the backup; the next job is not taken for it, and job 1 runs on."""
    with server_process(tmp_path, CONFIG) as server:
        jobs, url = tmp_path / "volvelle-serve" / "jobs", f"{tmp_path / 'volvelle-serve/store.db'}"
        client = client_of(server)
        client.post("/v1/jobs", {"command": "echo zero"})
        until(lambda: client.get("/v1/jobs", over="true")["jobs"])
        server.volvelle("backup", "backup.db")
        client.post("/v1/jobs", {"command": ["sh", "-c", "echo secret; sleep 600"], "gpus": 2})
        (log,) = until(lambda: list(jobs.glob("*/nodes/*/attempts/1-1-*/output.log")))
        until(lambda: log.read_text() == "secret\n")
        with pytest.raises(Problem, match="a volvelle serve is writing"):
            restore(tmp_path / "backup.db", url)
        server.stop()
        restore(tmp_path / "backup.db", url)
        server.start(CONFIG)
        client = client_of(server)
        assert client.post("/v1/jobs", {"command": "echo two", "gpus": 2}) == {
            "numbers": [2],
            "notices": [],
        }
        until(lambda: len(client.get("/v1/jobs", over="true")["jobs"]) == 2)
        assert logs(client, 2) == b"two\n"
        with pytest.raises(Problem, match="there is no job 1"):
            logs(client, 1)
        shown = volvelle(tmp_path, "nodes").stderr
        assert "the store was set back" in shown
        assert "runs what is not in the store, which was set back: job 1 attempt 1" in shown
        assert shown.splitlines()[0] in server.output
        nodes = client.get("/v1/nodes")["nodes"]
        (node,) = (each["name"] for each in nodes if each["state"] == "draining")
        client.post(f"/v1/nodes/{node}/resume")
        until(lambda: all(each["state"] == "up" for each in client.get("/v1/nodes")["nodes"]))
        (kept,) = jobs.glob("*/nodes/*/*/1-1-*/output.log")
        assert kept.read_text() == "secret\n"


def test_a_backup_is_of_one_moment_and_private(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "copy.db"
    store = Store.open(url)
    store.claim()
    back_up(url, copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("copy.db*")] == ["copy.db"]
    with pytest.raises(Problem, match="exists"):
        back_up(url, copy)
    with pytest.raises(Problem, match="a volvelle serve is writing"):
        restore(copy, url)
    store.close()
    (tmp_path / "store.db").write_bytes(b"overwritten by somebody")
    aside = restore(copy, url)
    assert aside is not None
    assert aside.read_bytes() == b"overwritten by somebody"
    for restored in (True, False):  # only the first server hears of it
        store = Store.open(url)
        store.claim()
        assert store.restored is restored
        store.close()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "there is no file"),
        (b"not a database at all" * 100, "is no backup of a store"),
        (b"", "is no backup of a store"),
        ("99", "is of version 99, this Volvelle knows up to"),
    ],
)
def test_what_is_no_backup_is_not_put_in_place_of_a_store(
    tmp_path: Path, content: bytes | str | None, error: str
) -> None:
    backup, store = tmp_path / "backup.db", tmp_path / "store.db"
    Store.open(str(store)).close()
    before = store.read_bytes()
    if isinstance(content, bytes):
        backup.write_bytes(content)
    elif content is not None:
        back_up(str(store), backup)
        with closing(sqlite3.connect(backup)) as connection, connection:
            connection.execute("update alembic_version set version_num = ?", (content,))
    with pytest.raises(Problem, match=error):
        restore(backup, str(store))
    assert store.read_bytes() == before


def test_what_finished_after_the_backup_is_not_run_again(tmp_path: Path) -> None:
    """One job ran and one waited when the backup was made; both have finished when it is put back."""
    one_node = CONFIG.replace("2x2", "1x2")
    with server_process(tmp_path, one_node) as server:
        client = client_of(server)
        gate = 'until [ -e "$0/gate" ]; do sleep 0.05; done; '
        for name in ("running", "waiting"):
            command = ["sh", "-c", f'{gate if name == "running" else ""}echo {name} >> "$0/ran"']
            client.post("/v1/jobs", {"command": [*command, str(tmp_path)], "gpus": 2})
        until(lambda: server.job(0).get("state") == "running")
        server.volvelle("backup", "backup.db")
        (tmp_path / "gate").touch()
        until(lambda: len(client.get("/v1/jobs", over="true")["jobs"]) == 2)
        server.stop()
        restore(tmp_path / "backup.db", str(tmp_path / "volvelle-serve" / "store.db"))
        server.start(one_node)
        until(lambda: len(client_of(server).get("/v1/jobs", over="true")["jobs"]) == 2)
        assert (tmp_path / "ran").read_text() == "running\nwaiting\n"
