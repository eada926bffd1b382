"""Batch sizes that the scheduler chooses for goodput (Pollux, Qiao et al., OSDI'21): the agent in the job.

    rule = Tunable(first=32, limit=1024, most_local=256)
    for batch in vc.iterate(loader, epochs=90, scaling=rule, on_batch_size=..., save=state.save):
        ...
        rule.observe(small, small_samples, large, large_samples)

It measures how long an iteration takes, and squared norm and variance of the gradient from norms over two
numbers of samples, as `volvelle.client.gns` does. At the end of every epoch the scheduler is told. Under a
policy that goes by goodput it sets the batch size of the job on its present GPUs: where the job is one
process from the next epoch on, else when an attempt starts. Without such a scheduler the batch size stays
``first``. The script scales its learning rate as it sees fit.
"""

import time
from typing import Any

from volvelle.client.gns import GradientNoise


class Tunable:
    """Lets the scheduler choose the batch size. Keep it in the state that is saved (`state_dict`).

    first, limit: the batch size in which progress is counted, and the largest. least_local, most_local:
    samples that a GPU takes at once. decay: of the moving means over iterations. Raises ValueError where
    these make no sense.
    """

    def __init__(
        self,
        first: int,
        limit: int,
        *,
        least_local: int = 1,
        most_local: int | None = None,
        decay: float = 0.95,
    ) -> None:
        most_local = limit if most_local is None else most_local
        if not 1 <= least_local <= most_local:
            raise ValueError(
                f"least_local must be at least 1 and no more than most_local, not {least_local} "
                f"and {most_local}"
            )
        self._noise = GradientNoise(first, limit, decay=decay)
        self._local = least_local, most_local
        self._size = first
        self._last: float | None = None
        self._seconds, self._iterations = 0.0, 0

    @property
    def batch_size(self) -> int:
        """The size of the epoch that begins, where the scheduler sets none."""
        return self._noise.first

    def epoch_begins(self, batch_size: int) -> None:
        """The epoch that begins has this size."""
        self._size = batch_size
        self._last, self._seconds, self._iterations = None, 0.0, 0

    def observe(self, small: float, small_samples: int, large: float, large_samples: int) -> None:
        """As `GradientNoise.observe`, once an iteration: its time is from call to call."""
        self._noise.observe(small, small_samples, large, large_samples)
        now = time.perf_counter()
        if self._last is not None:
            self._seconds += now - self._last
            self._iterations += 1
        self._last = now

    def epoch_done(self) -> None:
        """Called at the end of every epoch."""

    @property
    def measured(self) -> dict[str, float] | None:
        """The report of the present epoch to the scheduler; None where too little was observed."""
        squared, variance = self._noise.squared_norm, self._noise.variance
        if not self._iterations or squared <= 0.0 or variance <= 0.0:
            return None
        return {
            "batch_size": self._size,
            "step_seconds": self._seconds / self._iterations,
            "grad_sqr": squared,
            "grad_var": variance / self._noise.first,
            "first": self._noise.first,
            "limit": self._noise.limit,
            "least_local": self._local[0],
            "most_local": self._local[1],
        }

    def state_dict(self) -> dict[str, Any]:
        """The memory, as JSON can have it."""
        return self._noise.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on as `state_dict` says."""
        self._noise.load_state_dict(state)
