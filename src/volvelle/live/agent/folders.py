"""The folders of an agent and of its attempts. The agent keeps no state outside of them.

::

    agent.json               `AgentSettings`
    identity, lease, lock, journals.json
    attempts/KEY/            order.json, command.json, control-block, metrics.jsonl, output.log, stop.json,
                             lock, supervisor.json, exit.json (see `supervisor`), supervisor.log, done,
                             end.json as it was reported
    ended/KEY/               after the controller has journalled the end: output, metrics, exit and end.json,
                             until the retention time is over
    uploads/                 working directories of jobs, by the hash of their content
    pruned                   attempts removed from ``ended``, one KEY a line

KEY is an `AttemptKey` as text: no two attempts ever have the same folder, whatever their numbers.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from volvelle.client.control_block import ControlBlock
from volvelle.live.agent.files import last_line, lock, write_file
from volvelle.live.agent.wire import StartTask, TaskEnded
from volvelle.live.messages import AttemptKey, JournalPosition
from volvelle.model.node import Node

_S = TypeVar("_S")

ATTEMPTS, ENDED, OUTPUT = "attempts", "ended", "output.log"

LOG_RETENTION_SECONDS = 30 * 86_400.0

_EXIT, _END = "exit.json", "end.json"
_ARCHIVED = {OUTPUT, "metrics.jsonl", _EXIT, _END}


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent at its start.

    connect: HOST:PORT of the agents server, or a file that holds it. key: of the node. token: with which a
    node that has no key joins; empty: it has one. devices: the node's GPUs as CUDA_VISIBLE_DEVICES names
    them, by their numbers on the node; None: no visible GPUs. work: where jobs start that name no directory;
    shared by the nodes on which jobs may resume. linger_seconds: how long an agent stays without jobs and
    without a controller; None: for ever. lifetime_pid: a process of the node; when it ends, all jobs are
    killed. 0: none. umask: of jobs; the agent's own files are private. run_as: as whom jobs run, by their
    users (see `job_users`). authority: PEM file of trusted certificates; enables TLS. environment: that
    jobs have beside what they inherit. retention_seconds: how long the output of an ended attempt is kept.
    """

    node: Node
    connect: str
    key: str
    token: str = ""
    address: str = ""
    devices: tuple[str, ...] | None = None
    work: str = ""
    progress_seconds: float = 1.0
    linger_seconds: float | None = None
    lifetime_pid: int = 0
    umask: int = 0o022
    run_as: dict[str, str] = {}
    authority: str = ""
    environment: dict[str, str] = {}
    retention_seconds: float = LOG_RETENTION_SECONDS


class StopRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stop that was ordered ``at`` a time of the clock since boot. ``forced``: the grace period is over."""

    at: float
    kill: bool = False
    reason: str = ""
    forced: bool = False


class SupervisorRecord(msgspec.Struct, frozen=True):
    """Process ids of an attempt: its supervisor and the command's first process.

    ticks: when the first process began, to recognise reused pids.
    """

    boot: str
    supervisor: int
    leader: int = 0
    ticks: int = 0


class ExitRecord(msgspec.Struct, frozen=True):
    """How the command ended: its exit code (negative for a signal), or why it never ran or was lost.

    setup: the set-up command that ended so, where the command never ran. output_full: it was killed because
    of the size of its output. interrupted: the machine was being shut down. started, ended: seconds since the
    Unix epoch. since_boot: when it ended, by the clock since the boot with the id ``boot``.
    """

    code: int | None = None
    error: str = ""
    setup: str = ""
    lease_expired: bool = False
    output_full: bool = False
    rebooted: bool = False
    interrupted: bool = False
    started: float | None = None
    ended: float | None = None
    boot: str = ""
    since_boot: float = 0.0


class AttemptFolder:
    """The folder of one attempt on one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.control_block = path / ControlBlock.FILE_NAME
        self.metrics = path / "metrics.jsonl"
        self.output = path / OUTPUT
        self.command = path / "command.json"
        self.done = path / "done"
        """Made by the job when all its work is done; or a link of the agent's to where the job makes it."""
        self.supervisor_log = path / "supervisor.log"

    @property
    def order(self) -> StartTask:
        """The order that started the task. Raises OSError, msgspec.MsgspecError."""
        return msgspec.json.decode((self.path / "order.json").read_bytes(), type=StartTask)

    @order.setter
    def order(self, order: StartTask) -> None:
        write_file(self.path / "order.json", msgspec.json.encode(order))

    @property
    def stop(self) -> StopRecord | None:
        """The stop that was ordered, if any."""
        return _read(self.path / "stop.json", StopRecord)

    @stop.setter
    def stop(self, stop: StopRecord) -> None:
        write_file(self.path / "stop.json", msgspec.json.encode(stop))

    @property
    def supervisor(self) -> SupervisorRecord | None:
        """The supervisor's record, once it has started."""
        return _read(self.path / "supervisor.json", SupervisorRecord)

    @property
    def exit(self) -> ExitRecord | None:
        """How the command ended, once it has."""
        return _read(self.path / _EXIT, ExitRecord)

    @exit.setter
    def exit(self, record: ExitRecord) -> None:
        write_file(self.path / _EXIT, msgspec.json.encode(record))

    @property
    def end(self) -> TaskEnded | None:
        """The end of the task as it was first reported."""
        return _read(self.path / _END, TaskEnded)

    @end.setter
    def end(self, end: TaskEnded) -> None:
        write_file(self.path / _END, msgspec.json.encode(end))

    @property
    def is_done(self) -> bool:
        """Whether the job has made ``done``. A link of the job's does not count, wherever it leads."""
        made = self.done.readlink() if self.done.is_symlink() else self.done
        return os.path.lexists(made) and not made.is_symlink()

    @property
    def supervisor_error(self) -> str:
        """The last line of the supervisor's log, which is empty in normal operation."""
        return last_line(self.supervisor_log)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Try to take the lock that a supervisor holds; yields whether it was free."""
        with lock(self.path / "lock") as free:
            yield free


class AgentFolder:
    """The folder of an agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts = path / ATTEMPTS
        self.ended = path / ENDED
        self.lease = path / "lease"
        for folder in (path, self.attempts, self.ended):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_new(self) -> bool:
        """Whether no agent has begun in it."""
        return not (self.path / "identity").exists()

    @property
    def identity(self) -> str:
        """A random id that distinguishes this folder from others for the same node."""
        file = self.path / "identity"
        if not file.exists():
            write_file(file, secrets.token_hex(16).encode())
        return file.read_text()

    def attempt(self, key: AttemptKey) -> AttemptFolder:
        """The folder of an active attempt."""
        return AttemptFolder(self.attempts / str(key))

    def active_attempts(self) -> list[AttemptKey]:
        """Attempts that run, or whose end the controller has not journalled yet."""
        return _keys(self.attempts)

    def latest_attempts(self) -> dict[tuple[int, str], int]:
        """The highest attempt that was ever on this node, by the job's number and its identity."""
        keys = sorted(self._pruned() + _keys(self.ended) + _keys(self.attempts))
        return {(key.number, key.identity): key.attempt for key in keys}

    @property
    def journals(self) -> tuple[JournalPosition, ...]:
        """How far journals were written, as servers have told; the latest last."""
        try:
            content = (self.path / "journals.json").read_bytes()
            return msgspec.json.decode(content, type=tuple[JournalPosition, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    def remember(self, position: JournalPosition) -> None:
        """Keep how far a journal is written. Raises OSError."""
        content = msgspec.json.encode(position.added_to(self.journals))
        write_file(self.path / "journals.json", content)

    def archive(self, end: TaskEnded) -> None:
        """The controller has journalled the end of an attempt: keep it, and what people read."""
        key = end.task.key
        if self.attempt(key).end is None:  # the disk was full then
            self.attempt(key).end = end
        kept = self.ended / str(key)
        self.attempt(key).path.rename(kept)
        for file in kept.iterdir():
            if file.name not in _ARCHIVED:
                file.unlink()

    def archived_ends(self, numbers: Container[int]) -> Iterator[tuple[TaskEnded, ExitRecord]]:
        """The archived ends of these jobs, the oldest attempt of each first."""
        for key in sorted(key for key in _keys(self.ended) if key.number in numbers):
            kept = self.ended / str(key)
            if end := _read(kept / _END, TaskEnded):
                yield end, _read(kept / _EXIT, ExitRecord) or ExitRecord()

    def prune(self, before: float) -> None:
        """Remove what was archived before ``before`` (seconds since the Unix epoch). Raises OSError.

        The attempts are listed first, so that no older attempt of the job can ever start.
        """
        old = [key for key in _keys(self.ended) if (self.ended / str(key)).stat().st_mtime < before]
        if not old:
            return
        with (self.path / "pruned").open("a") as file:
            latest = {(key.number, key.identity): key for key in sorted(old)}
            file.write("".join(f"\n{key}" for key in latest.values()))
            file.flush()
            os.fsync(file.fileno())
        for key in old:
            shutil.rmtree(self.ended / str(key))

    def _pruned(self) -> list[AttemptKey]:
        try:
            lines = (self.path / "pruned").read_text().split()
        except FileNotFoundError:
            return []
        return _parse(lines)  # the last one may be incomplete: it is still in ``ended``

    def discard(self, key: AttemptKey) -> None:
        """Remove a folder in which nothing ever ran."""
        shutil.rmtree(self.attempt(key).path, ignore_errors=True)


def _read(path: Path, kind: type[_S]) -> _S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def _keys(folder: Path) -> list[AttemptKey]:
    return _parse(path.name for path in folder.iterdir())


def _parse(names: Iterable[str]) -> list[AttemptKey]:
    keys = []
    for name in names:
        with contextlib.suppress(ValueError):
            keys.append(AttemptKey.parse(name))
    return keys
