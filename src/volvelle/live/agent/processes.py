"""Who runs on this machine, as /proc says: waiting for any process, signalling one, finding what is left."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from volvelle.live.agent.folders import KeptBy

MARK = "VOLVELLE_RUN"
"""The variable by which every process of an attempt is known: its attempt's folder."""

_SWEEP_SECONDS = 0.01


def boot() -> str:
    """Which run of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def since_boot() -> float:
    """Seconds on the clock that no one sets, that counts sleep, and that all processes share."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def gone(pid: int) -> None:
    """Wait until process ``pid`` has ended; at once where there is none."""
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


def send_signal(kept: KeptBy, number: int) -> None:
    """To the leader that ``kept`` names, if it still runs; never to another that has its pid by now."""
    if not kept.leader or kept.boot != boot():
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(kept.leader)
        try:
            if start_ticks(kept.leader) == kept.ticks:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


async def sweep(run: Path, kept: KeptBy | None) -> None:
    """Kill all that carries the mark of the attempt in ``run`` or is in its leader's session, to the last."""
    session = kept.leader if kept is not None and kept.boot == boot() else 0
    while left := _left(f"{MARK}={run}".encode(), session):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_SWEEP_SECONDS)


def _left(mark: bytes, session: int) -> list[int]:
    """Processes of ours, zombies apart, that carry the mark or are in the session."""
    ours = os.getuid()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if stat[0] in "ZX" or entry.stat().st_uid != ours:
                continue
            in_session = session > 0 and int(stat[3]) == session
            if in_session or mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (OSError, IndexError):  # it ended meanwhile, or is none of ours
            continue
    return found


def start_ticks(pid: int) -> int:
    """When a process began, in clock ticks since boot, which tells it from a later one; 0: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0
