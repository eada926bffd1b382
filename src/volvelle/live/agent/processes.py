"""Processes of this machine, from /proc: wait for any process, signal one, find and kill the rest."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent.folders import ExitRecord, SupervisorRecord

ATTEMPT_VARIABLE = "VOLVELLE_RUN"
"""Environment variable that marks every process of an attempt; its value is the attempt's folder."""

_KILL_INTERVAL_SECONDS = 0.01


def boot_id() -> str:
    """Id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def since_boot() -> float:
    """Seconds since boot: a clock that is never set, counts suspension, and is shared by all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def seconds_ago(record: ExitRecord) -> float | None:
    """Seconds since the end of a command; None if it is not known."""
    if record.ended is None:
        return None
    if record.boot == boot_id():
        return max(since_boot() - record.since_boot, 0.0)
    return max(time.time() - record.ended, 0.0)


async def wait_for_exit(pid: int) -> None:
    """Wait until process ``pid`` has ended; return at once if there is none."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def send_signal(record: SupervisorRecord, number: int) -> None:
    """Signal the command's first process if it still runs; never another process with the same pid."""
    if not record.leader or record.boot != boot_id():
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(record.leader)
        try:
            if start_ticks(record.leader) == record.ticks:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


async def kill_remaining(folder: Path, record: SupervisorRecord | None) -> None:
    """Kill every process that carries the attempt's mark or is in its first process's session."""
    session = record.leader if record is not None and record.boot == boot_id() else 0
    mark = f"{ATTEMPT_VARIABLE}={folder}".encode()
    await _kill_all(lambda: _remaining(lambda variable: variable == mark, session))


async def kill_all_below(folder: Path) -> None:
    """Kill every process of all attempts whose folders are, or were, in ``folder``."""
    mark = f"{ATTEMPT_VARIABLE}={folder}/".encode()
    await _kill_all(lambda: _remaining(lambda variable: variable.startswith(mark), 0))


async def _kill_all(remaining: Callable[[], list[int]]) -> None:
    while pids := remaining():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_KILL_INTERVAL_SECONDS)


def _remaining(is_mark: Callable[[bytes], bool], session: int) -> list[int]:
    """Live processes that are ours to kill, without zombies, that carry a mark or are in the session."""
    uid = os.getuid()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if stat[0] in "ZX" or uid not in (0, entry.stat().st_uid):
                continue
            in_session = session > 0 and int(stat[3]) == session
            variables = (entry / "environ").read_bytes().split(b"\0")
            if in_session or any(map(is_mark, variables)):
                found.append(int(entry.name))
        except (OSError, IndexError):  # ended meanwhile, or of another user
            continue
    return found


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot, to recognise reused pids; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0
