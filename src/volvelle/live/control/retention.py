"""How long the store keeps jobs that are over, and what the journal says of them."""

import threading
import time
from collections.abc import Set
from concurrent.futures import Future, ThreadPoolExecutor

from volvelle.live.control.state import ControllerState
from volvelle.live.store import Store, StoreFailed
from volvelle.model.problems import Problem

_EVERY_SECONDS = 3600.0
_PAUSE = 4.0
"""After each piece the store is left alone for so many times what it took."""


class Retention:
    """Lets ``store`` forget jobs that were over ``keep_seconds`` ago; None: nothing is forgotten.

    wait_seconds: nothing is forgotten before, as when the clock may be wrong.
    problem: why that failed the last time; empty: it did not.
    """

    def __init__(self, store: Store, keep_seconds: float | None, wait_seconds: float = 0.0) -> None:
        self.problem = ""
        self._store = store
        self._keep_seconds = keep_seconds
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="retention")
        self._forgetting: Future[None] | None = None
        self._next_time = time.monotonic() + wait_seconds

    def forget_if_due(self, state: ControllerState, now: float) -> None:
        """Forget once an hour, in a thread: jobs whose attempts are all over, by ``state``.

        now: in seconds since the journal's epoch.
        """
        busy = self._forgetting is not None and not self._forgetting.done()
        if self._keep_seconds is None or busy or time.monotonic() < self._next_time:
            return
        self._next_time = time.monotonic() + _EVERY_SECONDS
        until, kept = now - self._keep_seconds, frozenset(state.ledger.attempts)
        self._forgetting = self._thread.submit(self._forget, until, kept)

    def close(self) -> None:
        """Finish the piece in progress."""
        self._closing.set()
        self._thread.shutdown()

    def _forget(self, until: float, kept: Set[int]) -> None:
        self.problem = ""
        more = True
        while more and not self._closing.is_set():
            began = time.monotonic()
            try:
                more = self._store.prune(until, kept)
            except (StoreFailed, Problem) as failure:
                self.problem = f"the store cannot forget old jobs: {failure.args[0]}"
                return
            self._closing.wait(_PAUSE * (time.monotonic() - began))
