"""Processes that work for one command, and are gone soon after Ctrl-C.

They are forked with what they share in hand where the system can (Linux), and are given it once each where
it cannot. They ignore Ctrl-C, which a terminal sends to all: the parent says what is to be kept. On Linux
they die with their parent, however it dies.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing.context import BaseContext
from typing import Any

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
_PR_SET_PDEATHSIG = 1  # of Linux


def usable_cpus() -> int:
    """CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def context() -> BaseContext:
    """How processes are begun here, and what they share is made."""
    return multiprocessing.get_context(START_METHOD)


class Workers(ProcessPoolExecutor):
    """So many processes, each of which begins with ``enter(stage)``."""

    def __init__(self, count: int, enter: Callable[[Any], None], stage: Any) -> None:
        given = os.getpid(), enter, stage
        super().__init__(count, context(), initializer=_begin, initargs=given)
        self._others = {process.pid for process in multiprocessing.active_children()}

    def end(self, futures: "Iterable[Future[Any]]" = (), patience: float = 0.0) -> None:
        """Start nothing any more, and kill workers that are still busy after ``patience`` seconds.

        ``futures`` are awaited; futures of killed workers fail with `BrokenProcessPool`.
        """
        waited = [future for future in futures if not future.cancel()]
        if wait(waited, patience).not_done or not waited:
            for process in multiprocessing.active_children():
                if process.pid not in self._others:
                    process.kill()
        self.shutdown(cancel_futures=True)


def _begin(parent: int, enter: Callable[[Any], None], stage: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        _end_with(parent)
    enter(stage)


def _end_with(parent: int) -> None:
    """Let this process be killed when its parent dies: it would compute on, and wait for work for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
