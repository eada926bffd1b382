"""Batch sizes by the gradient noise scale (McCandlish et al., 2018): double as gradients get noisier.

    rule = GradientNoise(first=32, limit=256)
    for batch in vc.iterate(loader, epochs=90, scaling=rule, on_batch_size=..., save=state.save):
        ...
        rule.observe(small, small_samples, large, large_samples)

The simple noise scale tr(S) / |G|^2 is estimated from squared norms of gradients over two numbers of samples
(appendix A.1): those of one rank and those of all, or of half a batch and the whole. At the end of an epoch
the size doubles if the noise is ``growth`` times what it was when the size was chosen, as Shockwave models it
(NSDI'23, section 5). It never shrinks.
"""

from typing import Any


class GradientNoise:
    """Doubles the batch size. Keep it in the state that is saved (`state_dict`).

    first, limit: batch sizes. growth: of the noise scale since the present size was chosen. decay: of the
    moving means over iterations from which it is estimated. Raises ValueError where these make no sense.
    """

    def __init__(self, first: int, limit: int, *, growth: float = 2.0, decay: float = 0.95) -> None:
        if not 1 <= first <= limit:
            raise ValueError(
                f"first must be at least 1 and no more than limit, not {first} and {limit}"
            )
        if growth <= 1.0 or not 0.0 <= decay < 1.0:
            raise ValueError(f"growth {growth:g} must be above 1, decay {decay:g} in [0, 1)")
        self.first, self.limit, self.growth, self.decay = first, limit, growth, decay
        self._size = first
        self._squared = self._variance = 0.0
        self._reference: float | None = None

    @property
    def batch_size(self) -> int:
        """The size of the epoch that begins."""
        return self._size

    @property
    def squared_norm(self) -> float:
        """Squared norm of the gradient, as estimated so far; 0 before anything was observed."""
        return self._squared

    @property
    def variance(self) -> float:
        """Variance of the gradient of one sample, as estimated so far."""
        return self._variance

    @property
    def noise_scale(self) -> float | None:
        """The noise scale in samples; None before it can be said."""
        if self._squared <= 0.0 or self._variance <= 0.0:
            return None
        return self._variance / self._squared

    def observe(self, small: float, small_samples: int, large: float, large_samples: int) -> None:
        """Squared norms of one iteration's gradient over fewer and over more samples, the same on all ranks.

        Both gradients are means over their samples. Raises ValueError unless there are fewer and more.
        """
        if not 0 < small_samples < large_samples:
            raise ValueError(
                f"needs fewer samples and more, not {small_samples} and {large_samples}"
            )
        between = large_samples - small_samples
        squared = (large_samples * large - small_samples * small) / between
        variance = (small - large) / (1.0 / small_samples - 1.0 / large_samples)
        self._squared += (1.0 - self.decay) * (float(squared) - self._squared)
        self._variance += (1.0 - self.decay) * (float(variance) - self._variance)

    def epoch_done(self) -> None:
        """Choose the size of the next epoch."""
        noise = self.noise_scale
        if noise is None:
            return
        if self._reference is None:
            self._reference = noise
        elif noise >= self.growth * self._reference and self._size < self.limit:
            self._size = min(2 * self._size, self.limit)
            self._reference = noise

    def state_dict(self) -> dict[str, Any]:
        """The memory, as JSON can have it."""
        return {name: value for name, value in vars(self).items() if name.startswith("_")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on as `state_dict` says."""
        vars(self).update(state)
