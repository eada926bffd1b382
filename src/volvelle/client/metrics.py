"""Metrics that a script reports, appended to a file that the agent reads. Training never waits for the disk.

A line is ``{"iteration": 12, "time": 1763500000.0, "metrics": {"loss": 0.5}}``; a value that is not finite
is ``null``. What `volvelle.client.pollux` measured is in lines with ``training`` in place of ``metrics``. A
thread writes the lines a few times a second and before every checkpoint. So a killed process loses only
metrics of iterations that no checkpoint holds. A full disk may lose more.
"""

import atexit
import json
import math
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FLUSH_SECONDS = 0.25
_MAX_PENDING = 100_000


class MetricsFile:
    """The metrics file at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = os.getpid()
        self._pending: deque[tuple[int, float, str, dict[str, Any]]] = deque(maxlen=_MAX_PENDING)
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None
        self._writing = threading.Lock()
        self._partial_line = False
        self._warned = False

    def add(self, iteration: int, values: Mapping[str, Any], kind: str = "metrics") -> None:
        """Report ``values`` of ``iteration``: numbers, or tensors with one element. kind: the line's key."""
        if os.getpid() != self._process:
            return  # a forked child must not write its parent's file
        detached = {name: _detached(value) for name, value in values.items()}
        self._pending.append((iteration, time.time(), kind, detached))
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="volvelle", daemon=True)
            self._writer.start()
            atexit.register(self._close)

    def flush(self) -> None:
        """Write pending lines. Warns once if the disk refuses."""
        with self._writing:
            try:
                self._append()
            except OSError as error:
                self._partial_line = True
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
        while self._pending:
            iteration, moment, kind, values = self._pending.popleft()
            numbers = {name: _number(value) for name, value in values.items()}
            lines.append(json.dumps({"iteration": iteration, "time": moment, kind: numbers}) + "\n")
        if lines:
            with self._path.open("ab", buffering=0) as file:
                content = ("\n" if self._partial_line else "").encode() + "".join(lines).encode()
                if file.write(content) != len(content):
                    raise OSError("no space left for a whole line")
            self._partial_line = False


def _detached(value: Any) -> Any:
    """``value`` detached from its graph, without a GPU synchronisation."""
    if hasattr(value, "detach"):
        value = value.detach()
        return _OnGpu(value) if value.is_cuda else float(value)
    return float(value)


class _OnGpu:
    """A copy of a value that a GPU has yet to compute, on the stream that is current now."""

    def __init__(self, value: Any) -> None:
        cuda: Any = sys.modules["torch"].cuda
        with cuda.device(value.device):
            self._copy, self._computed = value.clone(), cuda.Event()
            self._computed.record()

    def __float__(self) -> float:
        """The value, once it is computed: the thread that asks has a stream of its own."""
        self._computed.synchronize()
        return float(self._copy)


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
