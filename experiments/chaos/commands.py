"""`volvelle` commands as processes that can be killed at any moment and are started again whenever they end.

Each is forked from a process that has loaded Volvelle already (`preload`): on a busy machine loading takes
longer than all that follows.
"""

import math
import multiprocessing
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_IMPORTED = ["shifted_clock", "__main__", "volvelle.cli.main", "preload"]
_POLL_SECONDS = 0.01
_PAUSE_SECONDS = 0.1
"""Before a command that ended is started again."""


def run_command(arguments: tuple[str, ...], log: str, clock: Path) -> None:
    """Run the command ``volvelle ARGUMENTS`` in this process; its output is appended to ``log``.

    clock: a file with the seconds by which its wall clock is ahead.
    """
    import shifted_clock  # noqa: PLC0415 - in the fork

    from volvelle.cli.main import main  # noqa: PLC0415 - as above

    shifted_clock.follow(clock)

    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    sys.argv = ["volvelle", *arguments]
    main()


class Command:
    """One command. ``starts``: how often it was started. ``exits``: how often it ended by itself."""

    def __init__(self, arguments: tuple[str, ...], log: Path) -> None:
        self.arguments, self.log = arguments, log
        self._clock = log.with_suffix(".clock")
        self.starts = self.exits = 0
        self._process: ForkServerProcess | None = None
        self._restart_at = 0.0
        self._killed = False
        self._lock = threading.Lock()

    @property
    def last_line(self) -> str:
        """What it said last, as when it ended by itself."""
        said = [
            line for line in self.log.read_text(errors="replace").splitlines() if "error" in line
        ]
        return said[-1] if said else ""

    def kill(self, absence_seconds: float = 0.0) -> bool:
        """Kill -9, if it runs; it is started again after ``absence_seconds``. Returns whether it ran."""
        with self._lock:
            if self._process is None or not self._process.is_alive():
                return False
            self._killed = True
            self._restart_at = time.monotonic() + absence_seconds
            self._process.kill()
            self._process.join()
            return True

    def set_clock(self, ahead_seconds: float) -> None:
        """Set its wall clock, also of later starts."""
        self._clock.write_text(str(ahead_seconds), encoding="utf-8")

    def hold(self, *, kill: bool = True) -> None:
        """Kill -9, or wait for its end, and do not start it again until `restart_now`."""
        with self._lock:
            self._restart_at = math.inf
            if self._process is not None and kill:
                self._killed = True
                self._process.kill()
                self._process.join()

    @property
    def pid(self) -> int | None:
        """Its process, if it runs."""
        return None if self._process is None else self._process.pid

    def stop(self, seconds: float) -> bool:
        """Stop its process for so long (SIGSTOP); whether it ran."""
        process = self._process
        if process is None or process.pid is None or not process.is_alive():
            return False
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGCONT)
        return True

    def restart_now(self) -> None:
        """End an absence."""
        self._restart_at = 0.0

    def ensure_running(self, context: multiprocessing.context.ForkServerContext) -> None:
        """Start it if it does not run."""
        with self._lock:
            if self._process is not None:
                if self._process.is_alive():
                    return
                if not self._killed:
                    self.exits += 1
                self._process, self._killed = None, False
                self._restart_at = max(self._restart_at, time.monotonic() + _PAUSE_SECONDS)
            if time.monotonic() < self._restart_at:
                return
            self._process = context.Process(
                target=run_command, args=(self.arguments, str(self.log), self._clock)
            )
            self._process.start()
            self.starts += 1


class CommandSupervisor:
    """Keeps commands running until `close`, in a thread. ``preloaded``: modules imported for all of them."""

    def __init__(self, preloaded: tuple[str, ...]) -> None:
        # The process that forks does not take over sys.path before Python 3.13.
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*_IMPORTED, *preloaded])
        self._commands: list[Command] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)
        self._thread.start()

    def start(self, arguments: tuple[str, ...], log: Path) -> Command:
        """Start a command, and restart it whenever it ends."""
        command = Command(arguments, log)
        self._commands = [*self._commands, command]
        return command

    def close(self) -> None:
        """Kill all commands."""
        self._closing.set()
        self._thread.join()
        for command in self._commands:
            command.kill()

    def _run(self) -> None:
        while not self._closing.wait(_POLL_SECONDS):
            for command in self._commands:
                command.ensure_running(self._context)


def processes_with(text: str) -> dict[int, str]:
    """Processes with ``text`` in their command line or environment, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if text in line or text.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = line
            except OSError:  # it ended meanwhile
                continue
    return found


def holder_of(file: str) -> int | None:
    """The process that has a file open whose path is as the pattern ``file``."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it ended meanwhile
            if re.fullmatch(file, str(entry.readlink())):
                return int(entry.parts[2])
    return None


def kill(pid: int) -> bool:
    """Kill -9 a process; whether it existed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class CoreWait:
    """How long threads were ready and had no core, since this was made: those of a process and this one."""

    def __init__(self, pid: int | None) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._own, self._others = self._mine(), self._waits()

    @property
    def seconds(self) -> float:
        """Of this thread, and of that of the process which waited longest: no answer can be quicker."""
        others = (wait - self._others.get(name, 0) for name, wait in self._waits().items())
        return (self._mine() - self._own + max(others, default=0)) / 1e9

    @staticmethod
    def _mine() -> int:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])

    def _waits(self) -> dict[str, int]:
        found = {}
        for file in self._tasks.glob("*/schedstat"):
            with suppress(OSError):  # the thread ended meanwhile
                found[file.parent.name] = int(file.read_text().split()[1])
        return found


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until the condition holds, for so long at most; whether it does."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def one_of(found: dict[int, str], what: str, rng: random.Random) -> int | None:
    """One of the processes ``found`` whose command line has ``what`` in it."""
    return rng.choice([pid for pid, line in found.items() if what in line] or [0]) or None
