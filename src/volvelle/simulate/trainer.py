"""The truth about one job that trains as was measured: how fast, and until when."""

import numpy as np

from volvelle.core.decision import IntArray
from volvelle.core.state import Resources
from volvelle.model.training import Passes, Training


class Trainer:
    """Runs a `Training` on the GPUs it is given, at the batch size its user chose.

    Nodes are taken in the ring from the one with most of the job's GPUs to that with the fewest.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        self._counts: tuple[int, ...] = ()
        self._how = Passes(1, 1, 1)

    def place(self, gpus: int, slots: IntArray, resources: Resources) -> None:
        """From now on the job has these GPUs; packed onto nodes where they are only counted."""
        if len(slots):
            counts = np.bincount(resources.slot_node[slots])
            self._counts = tuple(sorted(counts[counts > 0].tolist(), reverse=True))
        else:
            widest = max(node.gpus for node in resources.nodes)
            full, rest = divmod(gpus, widest)
            self._counts = (widest,) * full + (rest,) * (rest > 0)
        self._how = self.training.application.passes(self.training.batch_size, gpus)

    def rate(self, done: float) -> float:
        """Progress a second after ``done``."""
        application = self.training.application
        return application.goodput(self._counts, self._how, self.training.epoch(done))

    def next_boundary(self, done: float) -> float:
        """Progress at the end of the epoch that is going on."""
        return float(self.training.boundaries[self.training.epoch(done) + 1])
