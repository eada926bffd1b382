"""The state in which a time is told, and the tellings that were most alike in it."""

import math
from collections.abc import Hashable
from typing import NamedTuple, Self

import numpy as np

from volvelle.core.scheduler_state import SchedulerState
from volvelle.model.arrays import FloatColumn, IntColumn

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


def believed_service(scheduler: SchedulerState, number: int, otherwise: float) -> float:
    """Seconds that a whole job is believed to run on the GPUs that it asks for; ``otherwise`` if unknown."""
    row, jobs = scheduler.row_of(number), scheduler.state.jobs
    if row is None:
        return otherwise
    seconds = float(jobs.total[row] * jobs.scale[row]) / float(jobs.request_rate[row])
    return seconds if math.isfinite(seconds) else otherwise


ATTRIBUTES = 6
"""Attributes that are compared: those of `Observed`, predicted time over believed service, and the order of
telling, by which the past fades."""
OVER_SERVICE = 4
"""The place of predicted time over believed service."""

_OTHER_KIND = 4.0
"""Distance of another kind, in squared standard deviations of an attribute."""
_LEAST_DEVIATION = 1e-3


def described(observed: Observed, raw_seconds: float, told: int) -> FloatColumn:
    """The attributes that are compared, amounts as logarithms. told: how many tellings came before."""
    service = max(observed.service, 1.0)
    amounts = (
        1.0 + observed.load,
        1.0 + observed.arrivals,
        service,
        max(observed.width, 1e-2),
        max(raw_seconds / service, 1e-2),
    )
    return np.array([*map(math.log, amounts), told])


class Past(NamedTuple):
    """Attributes and kinds of tellings, a column each; scale: by which attributes are compared.

    apart: distances by kinds alone, by the kinds that were asked for.
    """

    attributes: FloatColumn
    kinds: IntColumn
    scale: FloatColumn
    apart: dict[bytes, FloatColumn]

    @classmethod
    def of(cls, attributes: FloatColumn, kinds: IntColumn) -> Self:
        """Attributes are compared in standard deviations."""
        return cls(attributes, kinds, attributes.std(axis=1) + _LEAST_DEVIATION, {})

    def nearest(self, most: int, attributes: FloatColumn, kinds: IntColumn) -> IntColumn:
        """Places of the ``most`` tellings, fewer than all, that were most alike."""
        if (apart := self.apart.get(kinds.tobytes())) is None:
            apart = _OTHER_KIND * (self.kinds != kinds[:, None]).sum(axis=0)
            self.apart[kinds.tobytes()] = apart
        away = self.attributes - attributes[:, None]
        away /= self.scale[:, None]
        away *= away
        distance = away.sum(axis=0) + apart
        found: IntColumn = np.argpartition(distance, most - 1)[:most]
        return found
