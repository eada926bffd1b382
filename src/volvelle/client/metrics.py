"""What a script reports, appended to a file that its agent reads. Training never waits for the disk.

A line is ``{"iteration": 12, "time": 1763500000.0, "metrics": {"loss": 0.5}}``; a value that is not finite is
``null``. Lines are written by a thread of their own a few times a second, and before every checkpoint, so
that what is lost when the process is killed is of iterations that do not count. A full disk loses more.
"""

import atexit
import json
import math
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FLUSH_SECONDS = 0.25
_MOST_WAITING = 100_000


class Metrics:
    """The file of reports at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = os.getpid()
        self._waiting: deque[tuple[int, float, dict[str, Any]]] = deque(maxlen=_MOST_WAITING)
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None
        self._writing = threading.Lock()
        self._torn = False
        self._warned = False

    def add(self, iteration: int, values: Mapping[str, Any]) -> None:
        """Report ``values`` of ``iteration``: numbers, or tensors of one."""
        if os.getpid() != self._process:
            return  # a forked child: its parent's file is not its own
        kept = {name: _kept(value) for name, value in values.items()}
        self._waiting.append((iteration, time.time(), kept))
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="volvelle", daemon=True)
            self._writer.start()
            atexit.register(self._close)

    def flush(self) -> None:
        """Write what is waiting; where the disk refuses, say so once."""
        with self._writing:
            try:
                self._append()
            except OSError as error:
                self._torn = True
                if not self._warned:
                    self._warned = True
                    warnings.warn(
                        f"{self._path}: cannot write what is reported: {error}; training goes on",
                        RuntimeWarning,
                        stacklevel=2,
                    )

    def _close(self) -> None:
        self._closing.set()
        if self._writer is not None and os.getpid() == self._process:
            self._writer.join()

    def _write(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(_FLUSH_SECONDS)
            self.flush()

    def _append(self) -> None:
        lines = []
        while self._waiting:
            iteration, moment, kept = self._waiting.popleft()
            metrics = {name: _number(value) for name, value in kept.items()}
            lines.append(
                json.dumps({"iteration": iteration, "time": moment, "metrics": metrics}) + "\n"
            )
        if lines:
            with self._path.open("ab", buffering=0) as file:
                content = ("\n" if self._torn else "").encode() + "".join(lines).encode()
                if file.write(content) != len(content):
                    raise OSError("no space left for a whole line")
            self._torn = False


def _kept(value: Any) -> Any:
    """``value`` for later, without waiting for a GPU and without what gradients hang on."""
    if hasattr(value, "detach"):
        value = value.detach()
        return value.clone() if value.is_cuda else float(value)
    return float(value)


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
