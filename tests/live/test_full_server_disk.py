"""A server whose disk is full takes no jobs, and handles all else: room is kept for it."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from server_process import server_process
from waiting import until

from volvelle.live.http.client import ApiClient
from volvelle.model.problems import Problem

CONFIG = """
cluster = "1x4"
executor = { name = "local", pretend = true, linger_seconds = 5 }

[listen]
port = 0
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 MiB, which can be filled."""
    path = tmp_path / "disk"
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(path)]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def _fill(disk: Path) -> Path:
    """Fill it to the last byte, as the output of a job does."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for piece in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(piece))
    return ballast


def test_on_a_full_disk_jobs_are_cancelled_and_none_is_accepted_until_there_is_room(
    disk: Path,
) -> None:
    with server_process(disk, CONFIG) as server:
        token = (disk / "volvelle-serve" / "token").read_text().strip()
        client = ApiClient(server.url, token)
        jobs = {"command": "sleep 600", "gpus": 1, "array": 8}
        assert client.post("/v1/jobs", jobs)["numbers"] == list(range(8))
        until(
            lambda: [each["state"] for each in client.get("/v1/jobs")["jobs"]].count("running") == 4
        )
        ballast = _fill(disk)
        for number in range(8):
            client.post(f"/v1/jobs/{number}/cancel")
        until(lambda: client.get("/v1/jobs")["jobs"] == [])
        _fill(disk)
        with pytest.raises(Problem, match="is full: no jobs are accepted until there is room"):
            client.post("/v1/jobs", {"command": "true"})
        ballast.unlink()
        assert client.post("/v1/jobs", {"command": "true"})["numbers"] == [8]
        until(lambda: client.get("/v1/jobs")["jobs"] == [])
        ended = client.get("/v1/jobs", over="true")["jobs"]
        assert sorted(each["state"] for each in ended) == ["cancelled"] * 8 + ["finished"]
