"""The truth about one job that trains as was measured: how fast, and until when."""

import math

import numpy as np

from volvelle.core.decision import IntArray
from volvelle.core.forward.moments import boundary
from volvelle.core.resources import Resources
from volvelle.model.goodput import Goodput
from volvelle.model.training import Passes, Training
from volvelle.simulate.agent import Agent

TUNING_SECONDS = 60.0
"""A job that tunes its batch size does so, and tells its goodput, on whole minutes and after epochs."""


class Trainer:
    """Runs a `Training` on the GPUs it is given, at the batch size its user chose.

    Where it is ``tuned`` and can be, an agent inside the job chooses the batch size instead, whenever it
    has measured something new. Nodes are taken in the ring from the one with most of the job's GPUs to
    that with the fewest.
    """

    def __init__(self, training: Training, *, tuned: bool) -> None:
        self.training = training
        self._agent = Agent(training.application) if tuned and training.tunable else None
        self._counts: tuple[int, ...] = ()
        self._how = Passes(1, 1, 1)
        self._settled = self._agent is None

    @property
    def goodput(self) -> Goodput | None:
        """The job's own report."""
        return None if self._agent is None else self._agent.goodput

    def place(self, gpus: int, slots: IntArray, resources: Resources) -> None:
        """From now on the job has these GPUs; packed onto nodes where they are only counted."""
        if len(slots):
            counts = np.bincount(resources.slot_node[slots])
            self._counts = tuple(sorted(counts[counts > 0].tolist(), reverse=True))
        else:
            widest = max(node.gpus for node in resources.nodes)
            full, rest = divmod(gpus, widest)
            self._counts = (widest,) * full + (rest,) * (rest > 0)
        if self._agent is None:
            self._how = self.training.application.passes(self.training.batch_size, gpus)
        else:
            self._how = self._agent.choice(len(self._counts), gpus)
            self._settled = False

    def rate(self, done: float) -> float:
        """Progress a second after ``done``."""
        application = self.training.application
        return application.goodput(self._counts, self._how, self.training.epoch(done))

    def next_boundary(self, done: float) -> float:
        """Progress at the end of the epoch that is going on."""
        return float(self.training.boundaries[self.training.epoch(done) + 1])

    def next_tuning(self, since: float) -> float:
        """When the job measures and tunes next, unless an epoch ends before; infinity where never."""
        if self._settled:
            return math.inf
        return boundary(since, TUNING_SECONDS, True)

    def tune(self, done: float, *, epoch_over: bool) -> None:
        """Measure how it went since ``done``, and choose the batch size for what follows."""
        if self._agent is None:
            return
        before = self._agent.goodput, self._how
        self._agent.observe(self._counts, self._how, self.training.epoch(done))
        self._how = self._agent.choice(len(self._counts), sum(self._counts))
        self._settled = not epoch_over and before == (self._agent.goodput, self._how)
