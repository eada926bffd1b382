"""The queue of the controller's inputs."""

import queue

from volvelle.live.control.inputs import Input

_MAX_BATCH = 5_000


class Inbox:
    """Inputs from any thread, taken in batches by the controller's thread."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Input | None] = queue.Queue()

    def put(self, item: Input) -> None:
        """Add an input."""
        self._queue.put(item)

    def close(self) -> None:
        """Let `take` return at once, and say that the inbox is closed."""
        self._queue.put(None)

    @property
    def empty(self) -> bool:
        """Whether nothing is pending."""
        return self._queue.empty()

    def take(self, timeout: float) -> tuple[list[Input], bool]:
        """Pending inputs, after at most ``timeout`` seconds, and whether the inbox was closed."""
        taken: list[Input] = []
        closed = False
        try:
            item = self._queue.get(block=timeout > 0.0, timeout=timeout)
            while True:
                if item is None:
                    closed = True
                else:
                    taken.append(item)
                if len(taken) >= _MAX_BATCH:
                    break
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        return taken, closed
