"""Proofs of agents over TLS are bound to the server's certificate: who relays them is nobody."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from certificates import make_certificates
from dialling import dial

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import RefusedError
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.agent.node_key import prove_key
from volvelle.live.messages import NodeJoined, Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.node_keys import GivenKeys
from volvelle.live.nodes.served_tls import ServedTls
from volvelle.model.node import Node

NODE = Node("gpu03", 1)
KEYS = GivenKeys("a secret")
Change = Callable[[wire.Hello], wire.Hello]


class Site:
    """An agents server with TLS, and one in the middle whose certificate agents trust."""

    def __init__(self, folder: Path) -> None:
        make_certificates(folder)
        self.authority = str(folder / "ca.pem")
        self.reports: list[Report] = []
        self.tls = ServedTls.read(str(folder / "head.pem"), str(folder / "head.key"))
        self.middle = ServedTls.read(str(folder / "relay.pem"), str(folder / "relay.key")).context
        self.server = AgentsServer([NODE], KEYS, self.reports.append, tls=self.tls)

    def agent(self, port: int) -> AgentSettings:
        """One that has the key and trusts the authority."""
        return AgentSettings(
            node=NODE,
            connect=f"localhost:{port}",
            key=KEYS.key(NODE.name),
            authority=self.authority,
        )

    @contextlib.contextmanager
    def relay(self, change: Change = lambda hello: hello) -> Iterator[int]:
        """Passes frames on to the server as they are, but for the hello; the port that it listens at."""
        loop, started = asyncio.new_event_loop(), threading.Event()
        ports: list[int] = []

        async def serve() -> None:
            listening = await asyncio.start_server(
                self._pass_on(change), "127.0.0.1", 0, ssl=self.middle
            )
            ports.append(listening.sockets[0].getsockname()[1])
            started.set()

        loop.create_task(serve())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        started.wait()
        try:
            yield ports[0]
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _pass_on(self, change: Change) -> Callable[..., Awaitable[None]]:
        trusting = ssl.create_default_context(cafile=self.authority)

        async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                there, back = await asyncio.open_connection(
                    "localhost", self.server.port, ssl=trusting
                )
                writer.write(wire.frame(await wire.receive(there, wire.to_agent)))
                hello = await wire.receive(reader, wire.from_agent)
                assert isinstance(hello, wire.Hello)
                back.write(wire.frame(change(hello)))
                writer.write(wire.frame(await wire.receive(there, wire.to_agent)))
                await writer.drain()

        return passed


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.server.close()


def test_an_agent_speaks_where_its_tls_ends_and_nowhere_else(site: Site) -> None:
    with site.relay() as port, pytest.raises(TimeoutError):
        dial(site.agent(port))
    assert site.reports == []
    dial(site.agent(site.server.port))
    assert site.reports == [NodeJoined(node=NODE)]


def test_a_relay_that_says_what_the_server_wants_to_hear_has_no_proof(site: Site) -> None:
    for channel in (site.tls.channel, ""):

        def change(hello: wire.Hello, channel: str = channel) -> wire.Hello:
            return msgspec.structs.replace(hello, channel=channel)

        with site.relay(change) as port, pytest.raises(RefusedError, match="its key is not"):
            dial(site.agent(port))
    assert site.reports == []


def test_a_proof_over_tls_that_binds_nothing_opens_nothing(site: Site) -> None:
    async def answer() -> bool:
        trusting = ssl.create_default_context(cafile=site.authority)
        reader, writer = await asyncio.open_connection("localhost", site.server.port, ssl=trusting)
        challenge = await wire.receive(reader, wire.to_agent)
        assert isinstance(challenge, wire.Challenge)
        proof = prove_key(KEYS.key(NODE.name), challenge.nonce, "mine", NODE.name)
        hello = wire.Hello(
            version=wire.VERSION, node=NODE, identity="a", address="", nonce="mine", proof=proof
        )
        writer.write(wire.frame(hello))
        said = await wire.receive(reader, wire.to_agent)
        writer.close()
        return isinstance(said, wire.Refused)

    assert asyncio.run(answer())
