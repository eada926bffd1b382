"""Accordion's rule (Agarwal et al., MLSys'21, algorithm 1): small batches while gradients change fast.

    rule = Accordion(small=32, large=256)
    for batch in vc.iterate(loader, epochs=90, scaling=rule, on_batch_size=..., save=state.save):
        ...
        rule.observe(gradient_norm, learning_rate)

A period is critical where the mean norm of its gradients differs by a share of at least ``threshold`` from
that of the period before, or where the learning rate drops: the next one has the small size, otherwise the
large one.
"""

from typing import Any


class Accordion:
    """Alternates between two batch sizes. Keep it in the state that is saved (`state_dict`).

    small, large: batch sizes. threshold: eta of the paper. every: epochs of a period; sizes change between
    periods. Raises ValueError where these make no sense.
    """

    def __init__(self, small: int, large: int, *, threshold: float = 0.5, every: int = 1) -> None:
        if not 1 <= small < large:
            raise ValueError(f"small must be at least 1 and below large, not {small} and {large}")
        if threshold <= 0.0 or every < 1:
            raise ValueError(f"threshold {threshold:g} and every {every} must be above 0")
        self.small, self.large, self.threshold, self.every = small, large, threshold, every
        self._size = small
        self._epochs = self._count = 0
        self._sum = 0.0
        self._before: float | None = None
        self._rate: float | None = None
        self._dropped = False

    @property
    def batch_size(self) -> int:
        """The size of the epoch that begins."""
        return self._size

    def observe(self, gradient_norm: float, learning_rate: float | None = None) -> None:
        """The norm of an iteration's gradient, the same on all ranks, and the learning rate."""
        self._sum += float(gradient_norm)
        self._count += 1
        if learning_rate is not None:
            self._dropped |= self._rate is not None and learning_rate < self._rate
            self._rate = float(learning_rate)

    def epoch_done(self) -> None:
        """Choose the size of the next epoch; without an observation it stays."""
        self._epochs += 1
        if self._epochs % self.every or not self._count:
            return
        norm, before = self._sum / self._count, self._before
        changed = before is None or abs(before - norm) >= self.threshold * before
        self._size = self.small if changed or self._dropped else self.large
        self._before, self._sum, self._count, self._dropped = norm, 0.0, 0, False

    def state_dict(self) -> dict[str, Any]:
        """The memory, as JSON can have it."""
        return {name: value for name, value in vars(self).items() if name.startswith("_")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on as `state_dict` says."""
        vars(self).update(state)
