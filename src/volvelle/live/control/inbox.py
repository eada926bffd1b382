"""The queue of the controller's inputs."""

import queue
import threading
from dataclasses import dataclass
from itertools import count

import msgspec

from volvelle.live.control.inputs import Input
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    NodeCondition,
    NodeJoined,
    UnknownEnded,
    merge_metrics,
)

_MAX_BATCH = 5_000

_Which = tuple[type, AttemptKey, str]
"""The key of repeated reports: their kind, attempt, and node where each node reports for itself."""


@dataclass(frozen=True)
class _Joined:
    """The place of a node's join, which is void if the node has joined again since."""

    node: str
    count: int


@dataclass(frozen=True)
class _Repeated:
    """The place of an input that may have been repeated since it was put."""

    which: _Which


def _which(item: Input) -> _Which | None:
    """The place that an input shares with its repeats; None where it has none."""
    match item:
        case AttemptProgress() | AttemptEnded():
            return type(item), item.key, ""
        case UnknownEnded():
            return type(item), item.key, item.node
        case NodeCondition():
            return type(item), AttemptKey(0, 0), item.name
        case _:
            return None


class Inbox:
    """Inputs from any thread, taken in batches by the controller's thread.

    It is bounded while no cycle runs, as when the store is down: repeated node reports are coalesced, and of
    inventories only the latest is kept.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Input | _Repeated | _Joined | None] = queue.Queue()
        self._joined: dict[str, tuple[_Joined, NodeJoined]] = {}
        self._joins = count()
        self._repeated: dict[_Which, Input] = {}
        """The latest of what is repeated, for its place in the queue."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many inputs are pending."""
        return self._queue.qsize()

    def put(self, item: Input) -> None:
        """Add an input."""
        if isinstance(item, NodeJoined):
            with self._lock:
                place = _Joined(item.node.name, next(self._joins))
                self._joined[place.node] = place, item
            self._queue.put(place)
            return
        which = _which(item)
        if which is None:
            self._queue.put(item)
            return
        with self._lock:
            before = self._repeated.get(which)
            if isinstance(item, AttemptProgress) and isinstance(before, AttemptProgress):
                metrics = merge_metrics(before.metrics, item.metrics)
                item = msgspec.structs.replace(item, metrics=metrics)
            self._repeated[which] = item
            if before is None:
                self._queue.put(_Repeated(which))

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
                elif isinstance(item, _Joined):
                    with self._lock:
                        latest, joined = self._joined.get(item.node, (None, None))
                        if joined is not None and latest == item:
                            del self._joined[item.node]
                            taken.append(joined)
                elif isinstance(item, _Repeated):
                    with self._lock:
                        taken.append(self._repeated.pop(item.which))
                else:
                    taken.append(item)
                if len(taken) >= _MAX_BATCH:
                    break
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        return taken, closed
