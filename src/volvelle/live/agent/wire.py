"""What the agents of nodes and the controller's side of them say to each other, and in which form.

Agents dial in, nobody dials them. A frame is four bytes of length and a message in JSON. Both sides prove
that they know the site's token without sending it: each answers the other's nonce with an HMAC. After that
the agent says what is on its node (`Here`), and says it anew on every later connection; so neither side
keeps what it sent, only how things stand.
"""

import asyncio
import hashlib
import hmac
import secrets
from typing import TypeVar

import msgspec

from volvelle.live.messages import AttemptProgress, Forget, Outcome, Start, Stop
from volvelle.model.node import Node

VERSION = 1
MOST_BYTES = 64 << 20
MOST_BYTES_OF_STRANGERS = 64 << 10
PING_SECONDS = 5.0
QUIET_SECONDS = 20.0
"""A connection on which nothing was heard for so long is taken for dead."""

Key = tuple[int, int]
"""A job's number and its attempt's."""


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """Controller's side, first: prove who you are."""

    nonce: str


class Hello(msgspec.Struct, frozen=True, tag="hello", kw_only=True):
    """Agent, second. ``identity``: of the agent's folder, so that two agents are told from one come back.

    ``address``: where other nodes reach programs of this one; empty: where it dialled in from.
    """

    version: int
    node: Node
    identity: str
    address: str
    nonce: str
    proof: str


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Controller's side, third. ``lease_seconds``: an agent on its own stops its jobs after; 0: never."""

    proof: str
    lease_seconds: float


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Controller's side: no. ``for_now``: ask again."""

    reason: str
    for_now: bool = False


class Part(msgspec.Struct, frozen=True):
    """What one node does of an attempt."""

    number: int
    attempt: int
    rank: int
    nodes: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Of which attempt."""
        return self.number, self.attempt


class Began(msgspec.Struct, frozen=True, tag="began"):
    """Agent: the processes of this part run. ``port``: free on the leading node, for the ranks to meet."""

    part: Part
    port: int


class Ended(msgspec.Struct, frozen=True, tag="ended", kw_only=True):
    """Agent: no process of this part is left. Repeated until a `Forget` comes."""

    part: Part
    outcome: Outcome
    exit_code: int | None = None
    reason: str = ""
    iterations: int = 0
    saved_iterations: int = 0


class Here(msgspec.Struct, frozen=True, tag="here"):
    """Agent, once it is welcome: all that is on this node."""

    parts: tuple[Began | Ended, ...]


class Run(msgspec.Struct, frozen=True, tag="run", kw_only=True):
    """Controller's side: begin the part of ``rank``. The leading one begins first and says a ``port``."""

    start: Start
    rank: int
    address: str
    port: int = 0

    @property
    def part(self) -> Part:
        """What is to be begun."""
        nodes = tuple(grant.node for grant in self.start.grants)
        return Part(self.start.number, self.start.attempt, self.rank, nodes)


class Signal(msgspec.Struct, frozen=True, tag="signal"):
    """The job does not read its pages and is told by its signal: leading agent to all others, as `ExitAt`.

    The leading one decides for all: on the others a script that reads its page may not have come so far yet.
    """

    number: int
    attempt: int


class ExitAt(msgspec.Struct, frozen=True, tag="exit-at"):
    """All ranks end after this iteration: leading agent to controller's side, from there to the others."""

    number: int
    attempt: int
    iteration: int


class ExitTold(msgspec.Struct, frozen=True, tag="exit-told"):
    """It stands on the page: each of the others to the controller's side; when all did, on to the first."""

    number: int
    attempt: int
    iteration: int


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Agent: still there, ``at`` this moment of its own clock."""

    at: float


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Controller's side: heard what was said at ``at``, and so the agent's lease is as young."""

    at: float


class Renew(msgspec.Struct, frozen=True, tag="renew"):
    """Agent, with central renewal only: does the lease of this attempt hold?"""

    number: int
    attempt: int
    ticket: int


class Renewed(msgspec.Struct, frozen=True, tag="renewed"):
    """Controller's side: the answer to the question with this ticket."""

    ticket: int
    holds: bool


class ListLogs(msgspec.Struct, frozen=True, tag="list-logs"):
    """Controller's side: which attempts of this job are there logs of?"""

    ticket: int
    number: int


class LogSizes(msgspec.Struct, frozen=True, tag="log-sizes"):
    """Agent: the answer to the question with this ticket, bytes by attempt."""

    ticket: int
    sizes: dict[int, int]


class ReadLog(msgspec.Struct, frozen=True, tag="read-log"):
    """Controller's side: what stands in this log from byte ``offset`` on, at most so much?"""

    ticket: int
    number: int
    attempt: int
    offset: int
    most_bytes: int


class LogPiece(msgspec.Struct, frozen=True, tag="log-piece"):
    """Agent: the answer to the question with this ticket; nothing at the end, and of what is not there."""

    ticket: int
    content: bytes


FromAgent = (
    Hello
    | Here
    | Began
    | Ended
    | AttemptProgress
    | Signal
    | ExitAt
    | ExitTold
    | Ping
    | Renew
    | LogSizes
    | LogPiece
)
ToAgent = (
    Challenge
    | Welcome
    | Refused
    | Run
    | Stop
    | Forget
    | Signal
    | ExitAt
    | ExitTold
    | Pong
    | Renewed
    | ListLogs
    | ReadLog
)

from_agent = msgspec.json.Decoder(FromAgent)
to_agent = msgspec.json.Decoder(ToAgent)

_M = TypeVar("_M")


class FrameError(Exception):
    """The other side does not speak as it should."""


def frame(message: FromAgent | ToAgent) -> bytes:
    """``message`` as bytes to send."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(4) + body


async def receive(
    reader: asyncio.StreamReader, decoder: msgspec.json.Decoder[_M], most_bytes: int = MOST_BYTES
) -> _M:
    """The next message. Raises `FrameError`, asyncio.IncompleteReadError at the end, OSError."""
    length = int.from_bytes(await reader.readexactly(4))
    if length > most_bytes:
        raise FrameError(f"a frame of {length} bytes, at most {most_bytes} are read")
    try:
        return decoder.decode(await reader.readexactly(length))
    except msgspec.MsgspecError as error:
        raise FrameError(str(error)) from None


def nonce() -> str:
    """A number used once."""
    return secrets.token_hex(16)


def proof(token: str, side: str, *said: str) -> str:
    """That ``side`` knows the token, for what was said in this connection and for no other."""
    return hmac.new(token.encode(), "\n".join((side, *said)).encode(), hashlib.sha256).hexdigest()


def proves(given: str, token: str, side: str, *said: str) -> bool:
    """Whether ``given`` is that proof; takes as long for a wrong one."""
    return hmac.compare_digest(given.encode(), proof(token, side, *said).encode())
