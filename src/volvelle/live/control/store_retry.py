"""Retries store operations until they succeed."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from volvelle.live.status.metrics import ControllerMetrics
from volvelle.live.store import StoreFailed

T = TypeVar("T")

_RETRY_SECONDS = 0.25


class StoreRetry:
    """Retries until ``stopping`` is set. ``problem``: why the store fails now; empty: it does not.

    use_room: frees what is kept on a full disk, and says whether it did.
    """

    def __init__(
        self, stopping: threading.Event, metrics: ControllerMetrics, use_room: Callable[[], bool]
    ) -> None:
        self.problem = ""
        self._use_room = use_room
        self._stopping = stopping
        self._metrics = metrics

    def run(self, operation: Callable[[], T]) -> T:
        """The result of ``operation``.

        Raises `StoreFailed` if it fails for good, or if it fails and the controller is to stop.
        """
        while True:
            try:
                result = operation()
            except StoreFailed as failure:
                self._metrics.store_failures += 1
                if failure.full and self._use_room():
                    continue
                if failure.permanent or self._stopping.is_set():
                    self.problem = ""
                    raise
                self.problem = f"the store fails, and everything waits for it: {failure}"
                time.sleep(_RETRY_SECONDS)
                continue
            self.problem = ""
            return result
