"""Fits the model of a job's steps to what was measured, in a thread of its own.

A fit takes milliseconds, and the first one of a server seconds, as its machine code is made or read. Its
result reaches the journal with the goodput that the policy is told, so a replay needs no fit.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from volvelle.model.goodput import StepParameters
from volvelle.simulate.agent import fitted

Steps = tuple[tuple[tuple[float, float, float], float], ...]
"""Seconds of steps by (nodes, GPUs, local batch)."""


class StepFit(NamedTuple):
    """A model that fits the measured steps ``seen`` of a job; None: it could not be made."""

    number: int
    seen: Steps
    steps: StepParameters | None = None


class StepFitter:
    """Fits in order, and sends each result. Before `start` it fits at once, as tests want it.

    problem: why the last fit failed; empty: it did not.
    """

    def __init__(self, send: Callable[[StepFit], None]) -> None:
        self.problem = ""
        self._send = send
        self._thread: ThreadPoolExecutor | None = None
        self._closing = threading.Event()

    def start(self) -> None:
        """Fit in a thread from now on."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="steps")

    def submit(self, wanted: StepFit) -> None:
        """Fit a model to ``wanted.seen``."""
        if self._thread is None:
            self._fit(wanted)
        else:
            self._thread.submit(self._fit, wanted)

    def close(self) -> None:
        """End, after the fit in progress."""
        self._closing.set()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _fit(self, wanted: StepFit) -> None:
        steps = None
        try:
            # What a step takes longer on more GPUs is not told apart: compute and step are one measure.
            rows = [[*where, seconds, seconds] for where, seconds in wanted.seen]
            steps = fitted(np.array(rows).T)
            self.problem = ""
        except Exception as error:  # the next measure may be fit for it; meanwhile jobs run as ever
            self.problem = f"batch sizes are not tuned: {type(error).__name__}: {error}"
        if not self._closing.is_set():
            self._send(wanted._replace(steps=steps))
