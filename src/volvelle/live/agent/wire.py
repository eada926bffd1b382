"""The protocol between agents and the agents server.

Agents dial in; the server never dials. A frame is four bytes of length and a JSON message. The agent proves
that it knows the key of its node, the server that it can check that, and neither sends a key (`node_key`);
the proofs are of both sides' nonces and, with TLS, of the server's certificate. Then the agent sends all that
is on its node (`NodeInventory`), and again on every new connection. So neither side keeps sent messages, only
state.

A *task* is the part of an attempt that runs on one node.
"""

import asyncio
import secrets
from typing import TypeVar

import msgspec

from volvelle.live.messages import (
    AttemptKey,
    AttemptProgress,
    Counted,
    Field,
    Forget,
    JournalPosition,
    OfAttempt,
    Outcome,
    SetBatchSize,
    Start,
    Stop,
)
from volvelle.model.node import Node

VERSION = 4
MAX_FRAME_BYTES = 64 << 20
MAX_AGENT_FRAME_BYTES = 8 << 20
"""Of an agent: the server reads those of all others meanwhile."""

MAX_HANDSHAKE_BYTES = 64 << 10
PING_SECONDS = 5.0
SILENCE_SECONDS = 20.0
"""A connection without a message for this long is closed."""


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """Server, first: prove that you know the key of your node."""

    nonce: str


class Hello(msgspec.Struct, frozen=True, tag="hello", kw_only=True):
    """Agent, second. ``identity``: of the agent's folder, to tell a second agent from one that reconnects.

    ``start``: of the agent's process, to tell an agent in a copy of the folder from one that reconnects.
    ``address``: where other nodes reach programs of this node; empty: the address it dialled in from.
    ``proof``: that it knows its key. ``join``: its verifier, for a node without a key; empty: without token.
    ``channel``: digest of the certificate that it was shown, which the proof is bound to; empty: without TLS.
    """

    version: int
    node: Node
    identity: str
    address: str
    nonce: str
    proof: str
    join: str = ""
    start: str = ""
    channel: str = ""


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Server, third. ``lease_seconds``: an agent without contact stops its jobs after this; 0: never."""

    proof: str
    lease_seconds: float


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Server: the agent is not accepted. ``retry``: it may be accepted later."""

    reason: str
    retry: bool = False


class NodeTask(msgspec.Struct, frozen=True):
    """The part of an attempt that runs on one node: rank ``rank`` of ``nodes``."""

    number: Counted
    attempt: Counted
    rank: Counted
    nodes: tuple[str, ...]
    identity: str = ""

    @property
    def key(self) -> AttemptKey:
        """The attempt."""
        return AttemptKey(self.number, self.attempt, self.identity)

    def is_of(self, node: str) -> bool:
        """Whether it is the own part of ``node`` of its attempt."""
        return 0 <= self.rank < len(self.nodes) and self.nodes[self.rank] == node


class TaskStarted(msgspec.Struct, frozen=True, tag="task-started"):
    """Agent: the processes of the task run. ``port``: free on the leading node, where the ranks meet."""

    task: NodeTask
    port: int


class TaskEnded(msgspec.Struct, frozen=True, tag="task-ended", kw_only=True):
    """Agent: no process of the task is left. Repeated until a `Forget` comes.

    permanent, ago, node_failed: see `AttemptEnded`. sent: when, by the clock of `Ping`: ``ago`` was then.
    """

    task: NodeTask
    outcome: Outcome
    exit_code: Field | None = None
    reason: str = ""
    permanent: bool = False
    iterations: Field = 0
    saved_iterations: Field = 0
    ago: float | None = None
    sent: float | None = None
    node_failed: bool = False


class NodeInventory(msgspec.Struct, frozen=True, tag="node-inventory"):
    """Agent, after the welcome: all tasks on the node, what it was told of journals, and its condition.

    keeps_ends: whether it answers `ListEnds`.
    """

    tasks: tuple[TaskStarted | TaskEnded, ...]
    known: tuple[JournalPosition, ...] = ()
    problem: str = ""
    keeps_ends: bool = False


class Condition(msgspec.Struct, frozen=True, tag="condition"):
    """Agent: why the node can start nothing; an empty ``problem``: it can again."""

    problem: str


class StartTask(msgspec.Struct, frozen=True, tag="start-task", kw_only=True):
    """Server: start the task of ``rank``. The leading rank starts first and reports a ``port``."""

    start: Start
    rank: int
    address: str
    port: int = 0

    @property
    def task(self) -> NodeTask:
        """The task to start."""
        nodes = tuple(grant.node for grant in self.start.grants)
        start = self.start
        return NodeTask(start.number, start.attempt, self.rank, nodes, start.identity)


class SignalTask(OfAttempt, frozen=True, tag="signal-task"):
    """The job does not read its control blocks: send it its stop signal. Leading agent to all others.

    The leading agent decides for all: on other nodes a script that reads its control block may not have
    attached yet. Travels over the server, as `ExitAt` does.
    """


class ExitAt(OfAttempt, frozen=True, tag="exit-at", kw_only=True):
    """All ranks exit after this iteration: leading agent to the server, from there to the other agents."""

    iteration: Field


class ExitConfirmed(OfAttempt, frozen=True, tag="exit-confirmed", kw_only=True):
    """The control block holds it: other agents to the server; after all have, on to the leading agent."""

    iteration: Field


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Agent: heartbeat, ``at`` a time of its own clock."""

    at: float


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Server: received the ping sent ``at`` this time, from which the agent's lease is renewed.

    position: how far its journal is written; to be remembered.
    """

    at: float
    position: JournalPosition | None = None


class Dismissed(msgspec.Struct, frozen=True, tag="dismissed"):
    """Server, last: it ends, and had started the agent, which ends too unless tasks run there."""


class ListEnds(msgspec.Struct, frozen=True, tag="list-ends"):
    """Server: how did attempts of these jobs end on the node? Its store may have lost that."""

    numbers: tuple[Counted, ...]


class PastEnds(msgspec.Struct, frozen=True, tag="past-ends"):
    """Agent: the answer to `ListEnds`: of each job the last end, and all ends with which it finished."""

    ends: tuple[TaskEnded, ...]


class ListLogs(msgspec.Struct, frozen=True, tag="list-logs"):
    """Server: which attempts of this job have logs on the node? ``job``: its identity."""

    request_id: int
    number: int
    job: str = ""


class LogSizes(msgspec.Struct, frozen=True, tag="log-sizes"):
    """Agent: the answer to `ListLogs`, bytes by attempt (`AttemptKey` as text)."""

    request_id: int
    sizes: dict[str, int]


class ReadLog(msgspec.Struct, frozen=True, tag="read-log"):
    """Server: read the log of this attempt from byte ``offset`` on."""

    request_id: int
    attempt: str
    offset: int
    max_bytes: int


class LogChunk(msgspec.Struct, frozen=True, tag="log-chunk"):
    """Agent: the answer to `ReadLog`; empty at the end of the log, or if there is none."""

    request_id: int
    content: bytes


class FetchUpload(msgspec.Struct, frozen=True, tag="fetch-upload"):
    """Agent: the working directory with this digest, from byte ``offset`` on."""

    digest: str
    offset: Counted


class UploadChunk(msgspec.Struct, frozen=True, tag="upload-chunk"):
    """Server: the answer to `FetchUpload`; empty at the end, None if there is none."""

    digest: str
    offset: int
    content: bytes | None


FromAgent = (
    Hello
    | NodeInventory
    | Condition
    | TaskStarted
    | TaskEnded
    | AttemptProgress
    | SignalTask
    | ExitAt
    | ExitConfirmed
    | Ping
    | LogSizes
    | LogChunk
    | PastEnds
    | FetchUpload
)
ToAgent = (
    Challenge
    | Welcome
    | Refused
    | StartTask
    | Stop
    | Forget
    | SetBatchSize
    | SignalTask
    | ExitAt
    | ExitConfirmed
    | Pong
    | Dismissed
    | ListEnds
    | ListLogs
    | ReadLog
    | UploadChunk
)

from_agent = msgspec.json.Decoder(FromAgent)
to_agent = msgspec.json.Decoder(ToAgent)

_M = TypeVar("_M")


class FrameError(Exception):
    """The other side violates the protocol."""


def frame(message: FromAgent | ToAgent) -> bytes:
    """``message`` as bytes to send."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(4) + body


async def receive(
    reader: asyncio.StreamReader,
    decoder: msgspec.json.Decoder[_M],
    max_bytes: int = MAX_FRAME_BYTES,
) -> _M:
    """The next message. Raises `FrameError`, asyncio.IncompleteReadError at the end, OSError."""
    length = int.from_bytes(await reader.readexactly(4))
    if length > max_bytes:
        raise FrameError(f"a frame of {length} bytes, at most {max_bytes} are read")
    try:
        return decoder.decode(await reader.readexactly(length))
    except msgspec.MsgspecError as error:
        raise FrameError(str(error)) from None


def new_nonce() -> str:
    """A random number that is used once."""
    return secrets.token_hex(16)
