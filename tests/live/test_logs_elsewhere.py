"""``volvelle logs`` of jobs on other machines, whose agents may be disconnected."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import DialInHarness
from server_process import DIAL_IN, ServerProcess, server_process, volvelle
from waiting import until

from volvelle.live.agent.launch import free_port
from volvelle.live.messages import AttemptStarted
from volvelle.live.nodes.node_logs import CHUNK_BYTES, NodeUnreachableError

WAITS = "echo before; until test -e {released}; do sleep 0.05; done; echo after"


def of_both(text: str) -> str:
    """The logs of an attempt that printed ``text`` on either node."""
    return "".join(f"==> attempt 1 on node-{node} <==\n{text}" for node in (0, 1))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(tmp_path: Path, port: int) -> Iterator[ServerProcess]:
    with server_process(tmp_path, DIAL_IN.format(cluster="2x1", port=port, more="")) as server:
        server.start_agent("node-0", port)
        server.start_agent("node-1", port)
        yield server


def test_logs_of_a_job_are_those_of_all_nodes_followed_to_its_end_and_after_a_restart(
    server: ServerProcess, port: int, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    server.volvelle("submit", "--gpus", "2", "--", "sh", "-c", WAITS.format(released=released))
    following = subprocess.Popen(
        [sys.executable, "-m", "volvelle.cli.main", "logs", "-f", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert following.stdout is not None
    said = [following.stdout.readline() for _ in range(2)]
    said += [following.stdout.readline() for _ in range(1 if said[0] == "before\n" else 2)]
    assert said.count("before\n") == 2
    assert server.volvelle("logs", "0") == of_both("before\n")
    released.touch()
    output, _ = following.communicate(timeout=30)
    assert [line for line in output.splitlines() if not line.startswith("==>")] == ["after"] * 2
    server.stop()
    server.start(DIAL_IN.format(cluster="2x1", port=port, more=""))
    until(lambda: volvelle(tmp_path, "logs", "0").stdout == of_both("before\nafter\n"))


def test_the_logs_of_a_disconnected_node_are_reported_missing(
    server: ServerProcess, port: int, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    server.volvelle("submit", "--gpus", "2", "--", "sh", "-c", WAITS.format(released=released))
    until(lambda: server.volvelle("logs", "0") == of_both("before\n"))
    server.kill_agent("node-1")
    first, second = until(
        lambda: lines if len(lines := server.volvelle("logs", "0").splitlines()) == 2
        and lines[1] != "before" else None
    )  # fmt: skip
    assert first == "before"
    assert second.startswith("volvelle: node node-1 is disconnected since 2")
    assert second.endswith(" UTC; its logs are there")
    server.kill_agent("node-0")
    until(lambda: volvelle(tmp_path, "logs", "0").returncode == 1)
    failed = volvelle(tmp_path, "logs", "0").stderr
    assert failed.startswith("error: node node-0 is disconnected since ")
    assert failed.endswith("its logs are there. Try again when it is back.\n")
    server.start_agent("node-0", port)
    server.start_agent("node-1", port)
    until(lambda: volvelle(tmp_path, "logs", "0").stdout == of_both("before\n"))
    released.touch()


def test_a_user_reads_only_logs_of_their_own_jobs(server: ServerProcess) -> None:
    tokens = [
        server.volvelle("token", "create", "--user", user).strip() for user in ("dana", "lee")
    ]
    dana, lee = ({"VOLVELLE_SERVER": server.url, "VOLVELLE_TOKEN": token} for token in tokens)
    server.volvelle("submit", "--wait", "echo", "for dana's eyes", **dana)
    assert server.volvelle("logs", "0", **dana) == "for dana's eyes\n"
    failed = volvelle(server.folder, "logs", "0", **lee)
    assert failed.stderr.startswith("error: job 0 is not yours")
    assert failed.stdout == ""


def test_many_log_readers_delay_neither_orders_nor_leases(tmp_path: Path) -> None:
    """Twenty readers read a long log as fast as they can, while jobs start and end."""
    harness = DialInHarness(tmp_path)
    try:
        harness.open()
        harness.start(command=("sh", "-c", "head -c 20000000 /dev/zero; sleep 600"), gpus=(1,))
        harness.wait(AttemptStarted)
        logs, node = harness.logs, harness.nodes[0]
        until(lambda: logs.log_sizes(node, 1, "").result(10) == {"1-1": 20_000_000})
        ends, read = threading.Event(), [0] * 20

        def flood(reader: int) -> None:
            while not ends.is_set():
                offset = read[reader] % 20_000_000
                read[reader] += len(logs.read_log(node, "1-1", offset).result(30))

        readers = [threading.Thread(target=flood, args=(each,)) for each in range(20)]
        for reader in readers:
            reader.start()
        took = []
        for number in range(2, 22):
            began = time.monotonic()
            harness.start(command=("true",), number=number, gpus=(0,))
            harness.end(number)
            took.append(time.monotonic() - began)
        ends.set()
        for reader in readers:
            reader.join()
        assert min(read) > CHUNK_BYTES
        assert max(read) < 2 * min(read) + 2 * CHUNK_BYTES  # they share the connection fairly
        assert sorted(took)[10] < 2.0
    finally:
        harness.kill_all()


def test_reading_logs_of_a_lost_node_fails_at_once(tmp_path: Path) -> None:
    harness = DialInHarness(tmp_path)
    try:
        harness.open()
        harness.end_agents()
        node, logs = harness.nodes[0], harness.logs
        with pytest.raises(
            NodeUnreachableError,
            match=f"node {node} is disconnected since .* UTC; its logs are there",
        ):
            until(lambda: logs.log_sizes(node, 1, "").result(5))
        with pytest.raises(
            NodeUnreachableError, match="node gpu-9 is not a node of the cluster any more"
        ):
            logs.read_log("gpu-9", "1-1", 0).result(5)
        harness.close()
    finally:
        harness.kill_all()
