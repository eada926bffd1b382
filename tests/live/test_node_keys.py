"""Each agent has a key of its own: which node it opens, and for how long."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_fixtures import ApiFixture
from dialling import dial
from waiting import PATIENCE_SECONDS, until

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import ControllerConnection, RefusedError
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.agent.node_key import (
    ask_to_join,
    joining_verifier,
    key_is_proven,
    new_key,
    prove_key,
    prove_verifier,
    read_or_make_key,
    verifier_is_proven,
    verifier_of,
)
from volvelle.live.http.authentication import new_token
from volvelle.live.messages import (
    AttemptEnded,
    AttemptStarted,
    Grant,
    Launch,
    NodeJoined,
    Outcome,
    Report,
    Start,
)
from volvelle.live.nodes import agents_server
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.role import Role
from volvelle.live.store import Store, StoreFailed, Token
from volvelle.live.store.node_keys import StoredKeys
from volvelle.model.node import Node

pytest_plugins = ["api_fixtures"]

DANAS, OTHER = Node("gpu03", 1), Node("gpu04", 1)
MINE, FOREIGN = new_key(), new_key()


class Server:
    """An agents server for two nodes, whose store outlives it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "store.db"
        self.store = Store.open(str(self.file))
        self.reports: list[Report] = []
        self.open()

    def open(self) -> None:
        keys = StoredKeys(self.store.tokens, "the join token")
        self.agents = AgentsServer([DANAS, OTHER], keys, self.reports.append)

    def dial(
        self,
        node: Node,
        key: str,
        *reports: wire.TaskStarted | wire.TaskEnded,
        token: str = "the join token",
    ) -> None:
        """Report by the inventory, and again after it."""
        connect = f"127.0.0.1:{self.agents.port}"
        settings = AgentSettings(node=node, connect=connect, key=key, token=token)
        dial(settings, "a", reports, reports)

    def issue(self, node: Node, seconds: float | None = None) -> tuple[str, Token]:
        """A key as an operator makes it."""
        key, row = new_token(node.name, Role.AGENT, valid_seconds=seconds)
        self.store.tokens.add(row)
        return key, row


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.agents.close()
    server.store.close()


def test_the_join_token_opens_a_node_once_and_its_agents_key_from_then_on(server: Server) -> None:
    with pytest.raises(RefusedError, match="its token is not that of this cluster"):
        server.dial(DANAS, MINE, token="")
    server.dial(DANAS, MINE)
    for token in ("the join token", ""):
        with pytest.raises(
            RefusedError, match=r"that of node 'gpu03': .*a token.* was not looked at"
        ):
            server.dial(DANAS, FOREIGN, token=token)
    server.agents.close()
    server.open()
    server.dial(DANAS, MINE, token="")
    assert server.reports == [NodeJoined(node=DANAS)] * 2


def test_an_agent_with_another_nodes_key_ends_no_job_of_another_user(server: Server) -> None:
    danas, _ = server.issue(DANAS)
    hostile, _ = server.issue(OTHER)
    launch = Launch(command=("true",))
    grants = (Grant(DANAS.name, (0,)),)
    server.agents.send(Start(number=1, attempt=1, user="dana", grants=grants, launch=launch))
    task = wire.NodeTask(1, 1, 0, (DANAS.name,))
    server.dial(DANAS, danas, wire.TaskStarted(task, 20_000))
    until(lambda: any(isinstance(report, AttemptStarted) for report in server.reports))
    forged = wire.TaskEnded(task=task, outcome=Outcome.FAILED)
    with pytest.raises(RefusedError, match="that of node 'gpu03'"):
        server.dial(DANAS, hostile, forged)
    server.dial(OTHER, hostile, forged)
    server.dial(DANAS, danas, wire.TaskEnded(task=task, outcome=Outcome.FINISHED))
    ended = until(lambda: [each for each in server.reports if isinstance(each, AttemptEnded)])
    assert {each.outcome for each in ended} == {Outcome.FINISHED}


def test_a_revoked_key_opens_nothing_and_joins_nothing(server: Server) -> None:
    key, row = server.issue(DANAS)
    server.dial(DANAS, key)
    server.store.tokens.revoke(row.digest)
    for refused in (key, FOREIGN):
        with pytest.raises(RefusedError, match="an operator makes one: volvelle token create"):
            server.dial(DANAS, refused)
    server.dial(DANAS, server.issue(DANAS)[0])


def test_who_is_connected_with_a_key_that_is_revoked_is_disconnected_and_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(agents_server, "_KEYS_SECONDS", 0.05)
    server = Server(tmp_path)
    key, row = server.issue(DANAS)

    def joined(_: wire.Welcome) -> None:
        connection.send(wire.NodeInventory(()))
        server.store.tokens.revoke(row.digest)

    connect = f"127.0.0.1:{server.agents.port}"
    settings = AgentSettings(node=DANAS, connect=connect, key=key)
    connection = ControllerConnection(settings, "a", joined, lambda message: None)
    try:
        with pytest.raises(RefusedError, match="its key is not, or no longer, that of node"):
            asyncio.run(asyncio.wait_for(connection.run(), PATIENCE_SECONDS))
        assert server.reports == [NodeJoined(node=DANAS)]
    finally:
        server.agents.close()
        server.store.close()


def test_an_agent_that_was_not_answered_in_time_joins_again_with_its_key(server: Server) -> None:
    """Both of its tries came before either had stored the key."""
    keys = StoredKeys(server.store.tokens, "the join token")
    verifier = verifier_of(new_key())
    assert [keys.join("node-9", verifier) for _ in range(2)] == [True, True]
    assert not keys.join("node-9", verifier_of(new_key()))
    assert keys.of("node-9") == (verifier,)


def test_a_key_expires_also_while_the_store_is_down(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = server.issue(DANAS, seconds=1000.0)
    keys, verifier = StoredKeys(server.store.tokens, ""), verifier_of(key)
    assert keys.of(DANAS.name) == (verifier,)

    def fail(role: str, user: str | None = None) -> list[Token]:
        raise StoreFailed("it is down")

    monkeypatch.setattr(server.store.tokens, "of_role", fail)
    assert keys.of(DANAS.name) == (verifier,)
    assert keys.invalid({DANAS.name: verifier}) == []
    later = time.time() + 1001.0
    monkeypatch.setattr(time, "time", lambda: later)
    assert keys.of(DANAS.name) == ()
    assert keys.invalid({DANAS.name: verifier}) == [DANAS.name]
    with pytest.raises(OSError, match="it is down"):
        keys.of(OTHER.name)


def test_keys_are_stored_hashed_and_are_no_tokens_of_users(api: ApiFixture) -> None:
    root = api.client("root")
    made = root.post("/v1/tokens", json={"user": "gpu03", "role": "agent"})
    assert made.status_code == 201
    api.tokens["key"] = made.json()["token"]
    (row,) = api.store.tokens.of_role("agent", "gpu03")
    api.tokens["verifier"] = row.digest
    assert row.digest == verifier_of(api.tokens["key"])
    for presented in ("key", "verifier"):
        assert api.client(presented).get("/v1/jobs").status_code == 401
    listed = {(each["role"], each["user"]) for each in root.get("/v1/tokens").json()}
    assert ("agent", "gpu03") in listed


def test_what_is_sent_and_what_is_stored_prove_no_key() -> None:
    verifier, transcript = verifier_of(MINE), ("one", "two", "gpu03")
    proof = prove_key(MINE, *transcript)
    assert key_is_proven(proof, verifier, *transcript)
    answer = prove_verifier(verifier, *transcript)
    for wrong in (proof[:-1], "no hex", prove_key(FOREIGN, *transcript), verifier, answer):
        assert not key_is_proven(wrong, verifier, *transcript)
    for elsewhere in (
        ("another", "two", "gpu03"),
        ("one", "two", "gpu04"),
        ("two", "one", "gpu03"),
    ):
        assert not key_is_proven(proof, verifier, *elsewhere)
        assert not verifier_is_proven(answer, MINE, *elsewhere)
    assert verifier_is_proven(answer, MINE, *transcript)
    for wrong in (proof, "", "é", prove_verifier(verifier_of(FOREIGN), *transcript)):
        assert not verifier_is_proven(wrong, MINE, *transcript)
    asked = ask_to_join("the join token", MINE, *transcript)
    assert joining_verifier(asked, "the join token", *transcript) == verifier
    assert joining_verifier(asked, "another", *transcript) is None
    assert joining_verifier(asked, "the join token", "another", "two", "gpu03") is None
    assert verifier not in asked
    for wrong in ("", "no hex", "00", asked[:-2], f"{asked}00"):
        assert joining_verifier(wrong, "the join token", *transcript) is None


def test_a_verifier_of_another_form_accepts_no_key() -> None:
    """Such as one that was stored by an earlier version, half as long."""
    transcript = ("one", "two", "gpu03")
    for kept in ("0" * 64, verifier_of(MINE)[:64], "no hex", ""):
        assert not key_is_proven(prove_key(MINE, *transcript), kept, *transcript)


def test_an_agent_whose_key_was_stored_by_an_earlier_version_is_refused_with_what_to_do(
    server: Server,
) -> None:
    earlier = Token("ab" * 32, DANAS.name, Role.AGENT.value, "joined", created=time.time())
    server.store.tokens.add(earlier)
    with pytest.raises(RefusedError, match="volvelle token create --role agent --user gpu03"):
        server.dial(DANAS, MINE)
    key, _ = server.issue(DANAS)
    server.dial(DANAS, key)


def test_an_agents_key_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert read_or_make_key(file) == read_or_make_key(file)
    assert file.stat().st_mode & 0o077 == 0
