"""What stands where: the folders of an agent and of its attempts. All that an agent knows is in them.

::

    agent.json               `Settings`
    identity, lease, lock
    attempts/NUMBER-ATTEMPT/ order.json, command.json, page, metrics.jsonl, output.log, stop.json,
                             lock, keeper.json, exit.json (see `keeper`), keeper.log
    over/NUMBER-ATTEMPT/     once its end is known where it matters, what people read of it: the output,
                             the metrics, the exit; until it was kept for long enough
    pruned                   what was in ``over`` and is not any more, NUMBER-ATTEMPT, one a line
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from volvelle.client.control_block import ControlBlock
from volvelle.live.agent.wire import Key, Run
from volvelle.model.node import Node

_S = TypeVar("_S")

ATTEMPTS, OVER, OUTPUT = "attempts", "over", "output.log"

KEEP_SECONDS = 30 * 86_400.0

_KEPT = {OUTPUT, "metrics.jsonl", "exit.json"}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is told at its start.

    connect: HOST:PORT of the controller's side, or a file in which that stands. devices: what
    CUDA_VISIBLE_DEVICES calls the node's GPUs, by their numbers here; None: there are none to see.
    work: where jobs start that name no directory; shared by the nodes on which jobs are to resume.
    linger_seconds: how long an agent without jobs and without a controller stays; None: for ever.
    anchor: a process of the node without which nothing of ours is to run there; 0: there is none.
    umask: of jobs; agents make everything private. authority: PEM file of whom to trust; then TLS is spoken.
    central: leases are renewed by the controller (see `central`).
    keep_seconds: how long what an attempt wrote is kept after its end is known where it matters.
    """

    node: Node
    connect: str
    token: str
    address: str = ""
    devices: tuple[str, ...] | None = None
    work: str = ""
    progress_seconds: float = 1.0
    linger_seconds: float | None = None
    anchor: int = 0
    umask: int = 0o022
    authority: str = ""
    central: bool = False
    keep_seconds: float = KEEP_SECONDS


class StopAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A stop that was ordered, at a moment of the clock since boot."""

    at: float
    kill: bool = False
    because: str = ""
    forced: bool = False


class KeptBy(msgspec.Struct, frozen=True):
    """Who runs an attempt, as its keeper wrote. ``ticks``: when the leader began, against reused pids."""

    boot: str
    keeper: int
    leader: int = 0
    ticks: int = 0


class Exit(msgspec.Struct, frozen=True):
    """How the command ended: its exit code, negative for a signal, or why it never ran or was lost."""

    code: int | None = None
    error: str = ""
    lease_expired: bool = False
    rebooted: bool = False


class AttemptFolder:
    """The folder of one attempt on one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.block = path / ControlBlock.FILE_NAME
        self.metrics = path / "metrics.jsonl"
        self.output = path / OUTPUT
        self.command = path / "command.json"

    @property
    def order(self) -> Run:
        """What was ordered. Raises OSError, msgspec.MsgspecError."""
        return msgspec.json.decode((self.path / "order.json").read_bytes(), type=Run)

    @order.setter
    def order(self, run: Run) -> None:
        write(self.path / "order.json", msgspec.json.encode(run))

    @property
    def stop(self) -> StopAsked | None:
        """The stop that was ordered, if one was."""
        return _read(self.path / "stop.json", StopAsked)

    @stop.setter
    def stop(self, asked: StopAsked) -> None:
        write(self.path / "stop.json", msgspec.json.encode(asked))

    @property
    def kept_by(self) -> KeptBy | None:
        """Who runs it, once somebody does or did."""
        return _read(self.path / "keeper.json", KeptBy)

    @property
    def exit(self) -> Exit | None:
        """How it ended, if it did."""
        return _read(self.path / "exit.json", Exit)

    @exit.setter
    def exit(self, how: Exit) -> None:
        write(self.path / "exit.json", msgspec.json.encode(how))

    @property
    def complaint(self) -> str:
        """The last line that the keeper said, which is silent where all is well."""
        return last_line(self.path / "keeper.log")

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the lock that a keeper holds; whether it was free."""
        with lock(self.path / "lock") as free:
            yield free


class AgentFolder:
    """The folder of an agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts = path / ATTEMPTS
        self.over = path / OVER
        self.lease = path / "lease"
        for folder in (path, self.attempts, self.over):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def identity(self) -> str:
        """What tells this agent from another that speaks for the same node."""
        file = self.path / "identity"
        if not file.exists():
            write(file, secrets.token_hex(16).encode())
        return file.read_text()

    def attempt(self, key: Key) -> AttemptFolder:
        """The folder of an attempt that is not over."""
        return AttemptFolder(self.attempts / _name(key))

    def alive(self) -> list[Key]:
        """The attempts that run here or whose end is yet to be known where it matters."""
        return _keys(self.attempts)

    def newest(self) -> dict[int, int]:
        """The newest attempt there ever was here, by the job's number."""
        return dict(sorted(self._pruned() + _keys(self.over) + _keys(self.attempts)))

    def put_aside(self, key: Key) -> None:
        """The end of this attempt is known: keep only what people read."""
        folder = self.attempt(key)
        folder.path.rename(self.over / _name(key))
        for file in (self.over / _name(key)).iterdir():
            if file.name not in _KEPT:
                file.unlink()

    def prune(self, before: float) -> None:
        """Away with what was put aside before this moment (since the Unix epoch). Raises OSError.

        That it was here is written down first: no older attempt of the job may ever start.
        """
        old = [key for key in _keys(self.over) if (self.over / _name(key)).stat().st_mtime < before]
        if not old:
            return
        with (self.path / "pruned").open("a") as file:
            file.write("".join(f"\n{_name(key)}" for key in dict(sorted(old)).items()))
            file.flush()
            os.fsync(file.fileno())
        for key in old:
            shutil.rmtree(self.over / _name(key))

    def _pruned(self) -> list[Key]:
        try:
            lines = (self.path / "pruned").read_text().split()
        except FileNotFoundError:
            return []
        return [  # the last may be half a line: then it is in ``over`` still
            _key(line) for line in lines if all(map(str.isdigit, line.partition("-")[::2]))
        ]

    def discard(self, key: Key) -> None:
        """Away with a folder in which nothing ever ran."""
        shutil.rmtree(self.attempt(key).path, ignore_errors=True)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Hold the lock on ``path`` if nobody does; whether so. It ends with its holder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """``content`` at ``path``, for its owner's eyes, all at once or not at all. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def umask() -> int:
    """This process's umask, which cannot be read without being set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def last_line(path: Path, most_bytes: int = 4096, most_characters: int = 200) -> str:
    """The last line of text in a file that is not empty, as far as it can be shown."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            text = file.read(most_bytes).decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
    return shown[-most_characters:]


def _read(path: Path, kind: type[_S]) -> _S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _keys(folder: Path) -> list[Key]:
    return [_key(path.name) for path in folder.iterdir()]


def _key(name: str) -> Key:
    number, _, attempt = name.partition("-")
    return int(number), int(attempt)
