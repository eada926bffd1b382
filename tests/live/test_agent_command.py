"""``volvelle agent``."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from volvelle.live.messages import NodeJoined, Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.store import Store
from volvelle.live.store.node_keys import StoredKeys
from volvelle.model.node import Node


@pytest.fixture
def reports() -> list[Report]:
    return []


@pytest.fixture
def server(reports: list[Report], tmp_path: Path) -> Iterator[AgentsServer]:
    keys = StoredKeys(Store.open(str(tmp_path / "store.db")).tokens, "the right token")
    server = AgentsServer([Node("gpu03", 2)], keys, reports.append, tell=print)
    yield server
    server.close()


def agent(server: AgentsServer, folder: Path, token: str, *more: str) -> subprocess.Popen[str]:
    file = folder / "agents.token"
    file.write_text(token + "\n")
    command = [sys.executable, "-m", "volvelle.cli.main", "agent", "--token-file", str(file)]
    where = ["--connect", f"127.0.0.1:{server.port}", "--folder", str(folder / "agent")]
    return subprocess.Popen(
        [*command, *where, "--node", "gpu03", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/nowhere", "PYTHONPATH": ":".join(sys.path)},
    )


def test_it_connects_for_its_node_until_it_is_interrupted(
    server: AgentsServer,
    reports: list[Report],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    process = agent(server, tmp_path, "the right token", "--gpus", "2", "--pretend")
    assert until(lambda: reports) == [NodeJoined(node=Node("gpu03", 2), keeps_ends=True)]
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said == f"connected to 127.0.0.1:{server.port} as gpu03, 2 GPUs offered\n"
    assert server.logs.absence("gpu03") == ""
    process.send_signal(signal.SIGINT)
    assert process.wait(10) in (130, -signal.SIGINT)
    absence = until(lambda: server.logs.absence("gpu03"))
    assert absence.startswith("disconnected since ")
    told = capsys.readouterr().out.splitlines()
    assert told == ["node gpu03 is connected", f"node gpu03 is {absence}"]


def test_it_says_when_its_server_is_gone_and_that_it_tries_again(
    server: AgentsServer, reports: list[Report], tmp_path: Path
) -> None:
    process = agent(server, tmp_path, "the right token", "--gpus", "2", "--pretend")
    until(lambda: reports)
    server.close()
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.startswith(f"no connection to the controller at 127.0.0.1:{server.port}: ")
    assert said.endswith("; the agent goes on and tries again.\n")
    process.send_signal(signal.SIGINT)
    process.wait(10)


@pytest.mark.parametrize(
    ("token", "more", "message"),
    [
        (
            "a wrong token",
            ("--gpus", "2", "--pretend"),
            "refuses: its token is not that of this cluster",
        ),
        (
            "the right token",
            ("--gpus", "4", "--pretend"),
            "is to have 2 GPUs of type '', the agent has 4",
        ),
        ("the right token", ("--pretend",), "Say --gpus N"),
        ("the right token", (), "nvidia-smi finds 0 GPUs here"),
        (
            "the right token",
            ("--gpus", "2", "--pretend", "--keep", "long"),
            "--keep: cannot read 'long' as a duration",
        ),
        (
            "the right token",
            ("--gpus", "2", "--pretend", "--connect", "head.example:7475"),
            "whoever is on the way to head.example could run code here, as there is no TLS",
        ),
        (
            "the right token",
            ("--gpus", "2", "--pretend", "--connect", "http://127.0.0.1:8421"),
            "http://127.0.0.1:8421 is no HOST:PORT; http:// stands before the dashboard's address",
        ),
    ],
)
def test_errors_are_one_sentence(
    server: AgentsServer, tmp_path: Path, token: str, more: tuple[str, ...], message: str
) -> None:
    _, error = agent(server, tmp_path, token, *more).communicate(timeout=20)
    assert error.startswith("error: ")
    assert message in error
