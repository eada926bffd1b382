"""Scores of earlier tellings, and those of the tellings that were most alike in observable state."""

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

import numpy as np

from volvelle.core.view import FloatColumn, IntColumn

ARRIVALS_SECONDS = 1800.0
"""Time before a telling whose arrivals are counted."""


class Observed(NamedTuple):
    """Attributes of a job and of the cluster that are known when a time is told.

    load: jobs in the system, the job included. arrivals: jobs submitted in the last `ARRIVALS_SECONDS`, the
    job included. service: seconds that the job is believed to run on the GPUs that it asks for. width: GPUs
    asked for. kinds: up to three classes by name (pool, queue, reason of waiting).
    """

    load: float
    arrivals: float
    service: float
    width: float
    kinds: tuple[Hashable, ...] = ()


_NEAREST = 500
_WINDOW = 2000
"""Tellings that are remembered, and those of them whose scores count for a job."""
_OTHER_KIND = 4.0
"""Distance of another kind, in squared standard deviations of an attribute."""
_LEAST_DEVIATION = 1e-3


class Past:
    """The latest `_WINDOW` tellings whose event came: what was observed, and the score.

    Attributes are compared as logarithms, in standard deviations of what is remembered.
    """

    features: ClassVar[int] = 5

    def __init__(self, kinds: int) -> None:
        self._features: FloatColumn = np.empty((Past.features, _WINDOW))
        self._kinds: IntColumn = np.zeros((kinds, _WINDOW), dtype=np.int64)
        self._scores: FloatColumn = np.empty(_WINDOW)
        self._added = 0

    @staticmethod
    def described(observed: Observed, raw_seconds: float) -> FloatColumn:
        """The attributes that are compared."""
        service = max(observed.service, 1.0)
        return np.log(
            [
                1.0 + observed.load,
                1.0 + observed.arrivals,
                service,
                max(observed.width, 1e-2),
                max(raw_seconds / service, 1e-2),
            ]
        )

    def add(self, features: FloatColumn, kinds: IntColumn, score: float) -> None:
        """Remember a telling whose event came, in place of the oldest."""
        at = self._added % _WINDOW
        self._features[:, at], self._kinds[:, at], self._scores[at] = features, kinds, score
        self._added += 1

    def nearest(self, observed: Observed, raw_seconds: float, kinds: IntColumn) -> FloatColumn:
        """Scores of the tellings that were most alike."""
        known = min(self._added, _WINDOW)
        if known <= _NEAREST:
            return self._scores[:known]
        features = self._features[:, :known]
        scale = features.std(axis=1) + _LEAST_DEVIATION
        off = (features - Past.described(observed, raw_seconds)[:, None]) / scale[:, None]
        distance = (off**2).sum(axis=0)
        distance += _OTHER_KIND * (self._kinds[:, :known] != kinds[:, None]).sum(axis=0)
        return self._scores[:known][np.argpartition(distance, _NEAREST - 1)[:_NEAREST]]
