"""Quantiles where some values are lower bounds: the product-limit estimator (Kaplan and Meier, 1958)."""

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import Floats


class Curve:
    """The survival curve of weighted values; those that are not ``ended`` are lower bounds."""

    def __init__(self, values: Floats, ended: NDArray[np.bool_], weights: Floats) -> None:
        order = np.lexsort((~ended, values))
        self._values, ends, weight = values[order], ended[order], weights[order]
        at_risk = np.cumsum(weight[::-1])[::-1]
        self._survival = np.cumprod(1.0 - np.where(ends, weight / at_risk, 0.0))

    def quantile(self, share: float, above: float = -np.inf) -> float:
        """The least value that ``share`` do not exceed, among those that exceed ``above``.

        Infinite where too few ended for that share.
        """
        past = int(np.searchsorted(self._values, above, side="right"))
        there = self._survival[past - 1] if past else 1.0
        reached = np.flatnonzero(self._survival[past:] <= there * (1.0 - share) + 1e-12)
        return float(self._values[past + reached[0]]) if there > 1e-9 and len(reached) else np.inf
