"""The supervisor: runs one command, waits for its end, kills what is left of it and writes its exit record.

A program of its own that imports nothing of ours, so that it starts in the time of a bare interpreter::

    python -I -S supervisor.py FOLDER

It outlives the agent that started it. FOLDER/command.json is the command, and the set-up commands that are
run before it; one that fails is the end. The lock on FOLDER/lock is held as long as any process of the
command runs. FOLDER/supervisor.json holds the process ids, FOLDER/exit.json the exit and its times. If either
exists already, nothing is started: a command runs once.

A machine that is shut down sends SIGTERM to every process, also to this one, which goes on: it notes that
what ends then was interrupted.

The supervisor is the child of a guard. Processes of the command that outlive a killed supervisor become
children of the guard, which kills them, also with another environment and session.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shlex
import signal
import sys
import time

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_LEASE_CHECK_SECONDS = 1.0
_FAST_CHECK_SECONDS = 0.05
_FAST_BYTES = 1 << 20
"""An output that grows by more between two checks is looked at more often."""

_ROOM_BYTES = 512 << 20
"""Of the disk: with less a large output is too large, as other files have to be written there."""

_RETRY_SECONDS = 1.0
_SHUTDOWN_SECONDS = 120.0
"""So long after a SIGTERM what ends was interrupted: systems kill what they shut down after 90 s."""

_OTHERS_SECONDS = 0.5
_SUCCESS_SECONDS = 0.1
"""So long after an exit with 0 a SIGTERM to us says that the command may have caught one: processes of a
cgroup get theirs one by one, in any order."""

_AWAITED = (signal.SIGCHLD, signal.SIGTERM)
_FOREVER = 1e6

_prctl = ctypes.CDLL(None, use_errno=True).prctl


_EXIT_CODES = {
    errno.ENOENT: "127",
    errno.ENOTDIR: "127",
    errno.EACCES: "126",
    errno.ENOEXEC: "126",
}


class _CannotRunError(Exception):
    """Why a command cannot be run; ``errno``: of the operating system."""

    def __init__(self, number: int | None, text: str) -> None:
        super().__init__(text)
        self.errno = number


def main(folder: str) -> None:
    """Run the command of ``folder``, once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir(folder)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if os.path.exists("exit.json") or os.path.exists("supervisor.json"):
        return
    command = _read("command.json")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = os.fork()
    if supervisor == 0:
        supervise(command)
    else:
        os.waitpid(supervisor, 0)
        _kill_children()


def supervise(command: Json) -> None:
    """Run the set-up commands and the command, one after another, and write the exit record."""
    record = {"boot": _boot_id(), "supervisor": os.getpid()}
    _write("supervisor.json", record)
    _reserve("exit.json")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.time()
    for program in command["setup"]:
        _write_heading("set-up: " + shlex.join(program))
        how = _run(command, program, record, started)
        if how["code"] != 0 or how.get("lease_expired") or os.path.exists("stop.json"):
            _write_with_retries("exit.json", how | {"setup": shlex.join(program)})
            return
    if command["setup"]:
        _write_heading("command")
    _write_with_retries("exit.json", _run(command, command["command"], record, started))


def _run(command: Json, program: list[str], record: Json, started: float) -> Json:
    """Run one program to its end, and kill the processes that it left. Returns the exit record."""
    leader, code, error = _start(command, program)
    if not error:
        try:
            _write("supervisor.json", record | {"leader": leader, "ticks": _start_ticks(leader)})
        except OSError as full:  # without the record nobody could stop it
            error = str(full)
    if error:
        _kill_remaining(leader)
        return {"error": error, "code": code} | _times(started)
    how = _wait(leader, command, started)
    _kill_remaining(leader)
    if how["output_full"]:
        os.truncate("output.log", min(os.path.getsize("output.log"), command["output_bytes"]))
    return how


def _write_heading(text: str) -> None:
    """Write the following lines to the output."""
    with open("output.log", "a", opener=_open_private) as output:
        output.write(f"==> {text} <==\n")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _times(started: float) -> Json:
    """When the command began and ended: by the wall clock, and by the one that is never set."""
    times = {"started": started, "ended": time.time()}
    return times | {"boot": _boot_id(), "since_boot": _since_boot()}


def _start(command: Json, program: list[str]) -> tuple[int, int | None, str]:
    """Process id of the program's first process, and why it could not exec the program ("": it could).

    Between them the exit code that a shell would give then: 127 for what is not there, 126 for what cannot be
    executed; None where another attempt may fare better.
    """
    output = os.open("output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    read_end, write_end = os.pipe()
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _exec(command, program, supervisor, null, output)
        except BaseException as error:
            given = _EXIT_CODES.get(getattr(error, "errno", None) or 0, "")
            os.write(write_end, f"{given} {error}".encode()[:4000])
        os._exit(127)
    for descriptor in (output, null, write_end):
        os.close(descriptor)
    with open(read_end, "rb") as pipe:
        code, _, text = pipe.read().decode(errors="replace").partition(" ")
        return child, int(code) if code else None, text


def _exec(command: Json, program: list[str], supervisor: int, null: int, output: int) -> None:
    os.setsid()
    if user := command.get("user"):
        import warnings  # noqa: F401, PLC0415 - os.execvpe will, and the user may not read it

        os.initgroups(user["name"], user["gid"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # setuid clears it
    if os.getppid() != supervisor:
        raise RuntimeError("its supervisor was killed")
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for target, descriptor in ((0, null), (1, output), (2, output)):
        os.dup2(descriptor, target)
    os.umask(command["umask"])
    directory = command["directory"]
    try:
        os.chdir(directory)
    except OSError as error:
        raise _CannotRunError(
            error.errno, f"cannot start in {directory!r}: {error.strerror}"
        ) from None
    try:
        os.execvpe(program[0], program, command["environment"])
    except OSError as error:
        raise _CannotRunError(error.errno, f"cannot run {program[0]!r}: {error.strerror}") from None


def _wait(leader: int, command: Json, started: float) -> Json:
    """Exit code of the first process, when it ended, and why it may not be done.

    lease_expired: it was killed because its lease or lifetime ended. output_full: it was killed because of
    its output. interrupted: the machine was being shut down.
    """
    lease, lifetime = command["lease"], command["lifetime"]
    output_bytes = command.get("output_bytes")
    expired = full = False
    written, seconds = _output_size(), _LEASE_CHECK_SECONDS
    shutdown = -_SHUTDOWN_SECONDS
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == leader:
                times, code = _times(started), os.waitstatus_to_exitcode(ended[1])
                interrupted = times["since_boot"] - shutdown < _SHUTDOWN_SECONDS
                return times | {
                    "code": code,
                    "lease_expired": expired,
                    "output_full": full,
                    "interrupted": interrupted or _shutdown_follows(code, command["environment"]),
                }
        checks = lease is not None or lifetime is not None or output_bytes is not None
        found = signal.sigtimedwait(_AWAITED, seconds if checks else _FOREVER)
        before, written = written, _output_size()
        fast = written - before > _FAST_BYTES
        seconds = _FAST_CHECK_SECONDS if fast else _LEASE_CHECK_SECONDS
        if output_bytes is not None and _output_is_too_large(written, output_bytes) and not full:
            full = True
            os.kill(leader, signal.SIGKILL)
        if found is not None and found.si_signo == signal.SIGTERM:
            shutdown = _since_boot()
        elif found is None and (_lease_expired(lease) or _lifetime_ended(lifetime)):
            expired = True
            os.kill(leader, signal.SIGKILL)


def _output_size() -> int:
    try:
        return os.stat("output.log").st_size
    except OSError:
        return 0


def _output_is_too_large(size: int, most: int) -> bool:
    """Whether an output is too large, or is not small while the disk is nearly full."""
    if size <= most // 16:
        return False
    disk = os.statvfs(".")
    return size > most or disk.f_bavail * disk.f_frsize < _ROOM_BYTES


def _shutdown_follows(code: int, environment: dict[str, str]) -> bool:
    """Whether the SIGTERM that ended the command, or may have, is sent to us too."""
    patience = 0.0
    asked_to_end = os.path.exists("stop.json")
    if code in (-signal.SIGTERM, 128 + signal.SIGTERM) and not asked_to_end:
        patience = _OTHERS_SECONDS
    elif code == 0 and not asked_to_end:
        done = os.path.exists(environment.get("VOLVELLE_DONE", ""))
        patience = 0.0 if done else _SUCCESS_SECONDS
    return signal.sigtimedwait([signal.SIGTERM], patience) is not None


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _lifetime_ended(lifetime: list[int] | None) -> bool:
    """Whether the process has ended to whose lifetime the command is bound."""
    if lifetime is None:
        return False
    return _start_ticks(lifetime[0]) != lifetime[1] or _is_dead(lifetime[0])


def _lease_expired(lease: str | None) -> bool:
    """Whether the node's lease has expired, by the clock that counts suspension.

    One that cannot be read has: another agent may have the node by now, and its GPUs other jobs.
    """
    if lease is None:
        return False
    try:
        with open(lease) as file:
            return _since_boot() > float(file.read())
    except (OSError, ValueError):
        return True


def _kill_remaining(leader: int) -> None:
    """Kill and reap all processes that the command left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    _kill_children()


def _kill_children() -> None:
    """Kill and reap all children; orphans of theirs become ours."""
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
    """The fields of /proc/PID/stat from the state on; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _is_dead(pid: int) -> bool:
    return (_stat(pid) or ["X"])[0] in "ZX"


def _start_ticks(pid: int) -> int:
    return int((_stat(pid) or ["0"] * 20)[19])


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _read(name: str) -> Json:
    with open(name) as file:
        content: Json = json.load(file)
        return content


def _reserve(name: str) -> None:
    """Reserve disk space for a file that must be written when the disk is full."""
    with open(name + ".partial", "w") as file:
        file.write(" " * 4096)
        file.flush()
        os.fsync(file.fileno())


def _write(name: str, content: Json) -> None:
    """Write a file atomically, over reserved space if there is some."""
    descriptor = os.open(name + ".partial", os.O_WRONLY | os.O_CREAT, 0o600)
    with open(descriptor, "w") as file:
        file.write(json.dumps(content).ljust(4096))
        file.flush()
        os.fsync(file.fileno())
    os.replace(name + ".partial", name)


def _write_with_retries(name: str, content: Json) -> None:
    """Write a file, however long the disk is full; the lock is held until then."""
    while True:
        try:
            return _write(name, content)
        except FileNotFoundError:
            return None  # the folder was deleted: nobody will look
        except OSError:
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1])
