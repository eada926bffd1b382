"""Which agents the agents server accepts, and which servers agents trust."""

import asyncio
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dialling import dial as connect
from waiting import until

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import ControllerConnection, RefusedError
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.messages import (
    AttemptEnded,
    Grant,
    Launch,
    NodeJoined,
    NodeLost,
    Outcome,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes import agents_server
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.nodes.executors.dial_in import DialIn
from volvelle.live.nodes.node_keys import GivenKeys
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node

NODE = Node("gpu03", 8, "a100")
RIGHT = GivenKeys("the right token").key(NODE.name)


@pytest.fixture
def reports() -> list[Report]:
    return []


@pytest.fixture
def server(reports: list[Report]) -> Iterator[AgentsServer]:
    server = AgentsServer([NODE], GivenKeys("the right token"), reports.append)
    yield server
    server.close()


def dial(
    port: int, token: str, node: Node = NODE, identity: str = "a", authority: str = ""
) -> None:
    """Connect as an agent with the key made of ``token``. Raises `RefusedError`, TimeoutError."""

    settings = AgentSettings(
        node=node,
        connect=f"localhost:{port}",
        key=GivenKeys(token).key(node.name),
        authority=authority,
    )
    connect(settings, identity)


def test_an_agent_with_its_nodes_key_is_accepted(
    server: AgentsServer, reports: list[Report]
) -> None:
    dial(server.port, "the right token")
    assert until(lambda: reports) == [NodeJoined(node=NODE)]


@pytest.mark.parametrize(("lease_seconds", "lost"), [(600.0, False), (0.0, True)])
def test_an_agent_with_another_folder_joins_an_idle_node(
    tmp_path: Path, reports: list[Report], lease_seconds: float, lost: bool
) -> None:
    """With a lease it is known that nothing runs there; without one, once it is stored that all is lost."""
    server = AgentsServer(
        [NODE],
        GivenKeys("the right token"),
        reports.append,
        lease_seconds=lease_seconds,
        current_agents=CurrentAgents(tmp_path),
        is_down=lambda name: NodeLost in map(type, reports),
    )
    try:
        dial(server.port, "the right token", identity="a")
        dial(server.port, "the right token", identity="b")
        kinds = [NodeJoined, NodeLost, NodeJoined] if lost else [NodeJoined, NodeJoined]
        until(lambda: [type(report) for report in reports] == kinds)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("token", "node", "reason"),
    [
        (
            "a wrong token",
            NODE,
            "its key is not, or no longer, that of node 'gpu03': another agent joined",
        ),
        ("the right token", Node("gpu04", 8, "a100"), "the cluster has no node 'gpu04'"),
        (
            "the right token",
            Node("gpu03", 4, "a100"),
            "is to have 8 GPUs of type 'a100', the agent",
        ),
        (
            "the right token",
            Node("gpu03", 8, "a100", labels=("nvlink",)),
            "is to have labels none, the agent has nvlink",
        ),
    ],
)
def test_other_agents_are_refused_with_the_reason(
    server: AgentsServer, reports: list[Report], token: str, node: Node, reason: str
) -> None:
    with pytest.raises(RefusedError, match=reason):
        dial(server.port, token, node)
    assert reports == []


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


def test_an_unauthenticated_connection_that_sends_much_is_closed(server: AgentsServer) -> None:
    async def flood() -> bytes:
        reader, writer = await _connect(server.port)
        writer.write((50 << 20).to_bytes(4) + b"x" * 1000)
        return await reader.read()

    assert asyncio.run(flood()).count(b"challenge") == 1


def test_idle_connections_keep_no_agent_out(
    server: AgentsServer, reports: list[Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents_server, "_MAX_STRANGERS", 20)
    with ExitStack() as opened:
        where = "127.0.0.1", server.port
        idle = [opened.enter_context(socket.create_connection(where, 20.0)) for _ in range(50)]
        dial(server.port, "the right token")
        until(lambda: len(server._strangers) <= 21)
        for first in idle[:20]:  # a challenge, and the end
            while first.recv(1000):
                pass
    assert [type(each) for each in reports] == [NodeJoined]


def test_an_agent_sends_neither_key_nor_inventory_to_a_server_that_does_not_know_it() -> None:
    received = bytearray()

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.frame(wire.Challenge(wire.new_nonce())))
        await wire.receive(reader, wire.from_agent)
        writer.write(wire.frame(wire.Welcome(proof="0" * 64, lease_seconds=0.0)))
        received.extend(await reader.read())

    async def main() -> None:
        async with await asyncio.start_server(impostor, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(dial, port, "the right token")

    asyncio.run(main())
    assert received == b""


def test_a_second_agent_for_a_node_is_refused_while_the_first_is_connected(
    server: AgentsServer, reports: list[Report]
) -> None:
    async def first() -> None:
        settings = AgentSettings(node=NODE, connect=f"127.0.0.1:{server.port}", key=RIGHT)
        connection = ControllerConnection(
            settings, "a", lambda _: connection.send(wire.NodeInventory(())), lambda message: None
        )
        running = asyncio.create_task(connection.run())
        while not reports:
            await asyncio.sleep(0.01)
        with pytest.raises(RefusedError, match="another agent is connected for node 'gpu03'"):
            await asyncio.to_thread(dial, server.port, "the right token", NODE, "b")
        running.cancel()

    asyncio.run(first())


def test_an_agent_that_does_not_read_is_disconnected_and_blocks_nothing(
    server: AgentsServer, reports: list[Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents_server, "_MAX_UNSENT_BYTES", 1 << 20)
    much = Launch(command=("true",), environment={"MUCH": "x" * 100_000})

    async def send_to_stuck_agent() -> None:
        settings = AgentSettings(node=NODE, connect=f"127.0.0.1:{server.port}", key=RIGHT)
        reader, writer = await _connect(server.port)
        connection = ControllerConnection(settings, "a", lambda _: None, lambda message: None)
        await connection._handshake(reader, writer)
        writer.write(wire.frame(wire.NodeInventory(())))
        while not reports:
            await asyncio.sleep(0.01)
        for number in range(500):
            order = Start(
                number=number, attempt=1, user="dana", grants=(Grant("gpu03", (0,)),), launch=much
            )
            began = time.monotonic()
            server.send(order)
            assert time.monotonic() - began < 1.0
        handled = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), server._loop)
        handled.result(timeout=30.0)  # blocks this loop, which would read
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.readexactly(500 * 100_000)

    asyncio.run(send_to_stuck_agent())


START = Start(
    number=1,
    attempt=1,
    user="dana",
    grants=(Grant("gpu03", (0,)),),
    launch=Launch(command=("true",)),
)


def test_an_attempt_ordered_before_its_node_is_reported_lost_is_lost(
    server: AgentsServer, reports: list[Report]
) -> None:
    blocked = threading.Event()
    server._loop.call_soon_threadsafe(blocked.wait)
    server.node_lost("gpu03", "it burnt")
    server.send(START)
    assert not reports
    blocked.set()
    lost, ended = until(lambda: reports if len(reports) == 2 else None)
    assert lost == NodeLost("gpu03", "it burnt")
    assert isinstance(ended, AttemptEnded)
    assert ended.outcome is Outcome.LOST


def test_a_node_is_released_only_while_no_attempt_is_on_it(
    server: AgentsServer, reports: list[Report]
) -> None:
    server.send(START)
    assert not server.release_node("gpu03", "nobody needs it")
    server.send(Stop(1, 1, kill=True))
    dial(server.port, "the right token")
    until(lambda: any(isinstance(report, AttemptEnded) for report in reports))
    assert server.release_node("gpu03", "nobody needs it")
    assert reports[-1] == NodeLost("gpu03", "nobody needs it")
    with pytest.raises(RefusedError, match="the cluster has no node"):
        dial(server.port, "the right token")


def test_with_a_certificate_agents_use_tls_and_trust_no_other(
    tmp_path: Path, reports: list[Report]
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no certificate: there is no openssl")
    for name in ("head", "other"):
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem"
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        subprocess.run([*command.split(), *subject], cwd=tmp_path, check=True, capture_output=True)
    pem, key = str(tmp_path / "head.pem"), str(tmp_path / "head.key")
    executor = DialIn(port=0, certificate=pem, key=key)
    context = ExecutorContext(Cluster((NODE,)), tmp_path, "the right token")
    opened = executor.open(context, reports.append)
    assert isinstance(opened, AgentsServer)
    try:
        with pytest.raises(TimeoutError):
            dial(opened.port, "the right token", authority=str(tmp_path / "other.pem"))
        assert reports == []
        dial(opened.port, "the right token", authority=pem)
        assert until(lambda: reports) == [NodeJoined(node=NODE)]
    finally:
        opened.close()
