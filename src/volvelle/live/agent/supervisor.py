"""The keeper: starts one command, waits for its end, leaves nothing of it and writes down how it ended.

A program of its own that imports nothing of ours, so that it starts in the time of a bare interpreter::

    python -I -S keeper.py FOLDER

It outlives the agent that started it. FOLDER/command.json says what to run; the lock on FOLDER/lock is held
as long as anything of the command runs; FOLDER/keeper.json says who runs, FOLDER/exit.json how it ended.
Where either is there already, nothing is started: a command runs once.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_SUBREAPER = 36
_DIE_WITH_PARENT = 1
_LEASE_CHECK_SECONDS = 1.0
_RETRY_SECONDS = 1.0

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def main(folder: str) -> None:
    """Run the command of ``folder``, once."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir(folder)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if os.path.exists("exit.json") or os.path.exists("keeper.json"):
        return
    keep(_read("command.json"))


def keep(command: Json) -> None:
    """Start it, wait, sweep, and write how it ended."""
    who = {"boot": _boot(), "keeper": os.getpid()}
    _write("keeper.json", who)
    _reserve("exit.json")
    _prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    leader, error = _start(command)
    if not error:
        try:
            _write("keeper.json", who | {"leader": leader, "ticks": _start_ticks(leader)})
        except OSError as full:  # nobody could stop it
            error = str(full)
    if error:
        _sweep(leader)
        _write_at_last("exit.json", {"error": error})
        return
    status, expired = _wait(leader, command["lease"], command["anchor"])
    _sweep(leader)
    code = os.waitstatus_to_exitcode(status)
    _write_at_last("exit.json", {"code": code, "lease_expired": expired})


def _start(command: Json) -> tuple[int, str]:
    """The command's process, and why it could not become the command, if so."""
    output = os.open("output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    told, tell = os.pipe()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(command, keeper, nothing, output)
        except BaseException as error:
            os.write(tell, str(error).encode()[:4000])
        os._exit(127)
    for descriptor in (output, nothing, tell):
        os.close(descriptor)
    with open(told, "rb") as pipe:
        return child, pipe.read().decode(errors="replace")


def _become(command: Json, keeper: int, nothing: int, output: int) -> None:
    os.setsid()
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        raise RuntimeError("its keeper was killed")
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for wanted, descriptor in ((0, nothing), (1, output), (2, output)):
        os.dup2(descriptor, wanted)
    os.umask(command["umask"])
    directory, program = command["directory"], command["command"]
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(f"cannot start in {directory!r}: {error.strerror}") from None
    try:
        os.execvpe(program[0], program, command["environment"])
    except OSError as error:
        raise OSError(f"cannot run {program[0]!r}: {error.strerror}") from None


def _wait(leader: int, lease: str | None, anchor: list[int] | None) -> tuple[int, bool]:
    """How the command's first process ended; by force when the lease is over or the anchor gone."""
    expired = False
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == leader:
                return ended[1], expired
        if lease is None and anchor is None:
            signal.sigwait([signal.SIGCHLD])
        elif signal.sigtimedwait([signal.SIGCHLD], _LEASE_CHECK_SECONDS) is None and (
            _over(lease) or _gone(anchor)
        ):
            expired = True
            os.kill(leader, signal.SIGKILL)


def _gone(anchor: list[int] | None) -> bool:
    """Whether the process is gone with which all is to end."""
    return anchor is not None and (_start_ticks(anchor[0]) != anchor[1] or _dead(anchor[0]))


def _over(lease: str | None) -> bool:
    """Whether the lease on this node, a moment of the clock that also counts sleep, has passed."""
    if lease is None:
        return False
    try:
        with open(lease) as file:
            return time.clock_gettime(time.CLOCK_BOOTTIME) > float(file.read())
    except (OSError, ValueError):
        return False


def _sweep(leader: int) -> None:
    """Kill and reap whatever the command left; orphans have become our children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> list[int]:
    mine = str(os.getpid())
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _stat(pid)[1:2] == [mine]]


def _stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none where the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _dead(pid: int) -> bool:
    return (_stat(pid) or ["X"])[0] in "ZX"


def _start_ticks(pid: int) -> int:
    return int((_stat(pid) or ["0"] * 20)[19])


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _read(name: str) -> Json:
    with open(name) as file:
        content: Json = json.load(file)
        return content


def _reserve(name: str) -> None:
    """Room on the disk for what has to be written when it is full."""
    with open(name + ".partial", "w") as file:
        file.write(" " * 4096)
        file.flush()
        os.fsync(file.fileno())


def _write(name: str, content: Json) -> None:
    """There all at once or not at all; over what was reserved, where something was."""
    descriptor = os.open(name + ".partial", os.O_WRONLY | os.O_CREAT, 0o600)
    with open(descriptor, "w") as file:
        file.write(json.dumps(content).ljust(4096))
        file.flush()
        os.fsync(file.fileno())
    os.replace(name + ".partial", name)


def _write_at_last(name: str, content: Json) -> None:
    """Written, however long the disk is full: the lock is held until then."""
    while True:
        try:
            return _write(name, content)
        except OSError:
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1])
