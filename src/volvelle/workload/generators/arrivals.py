"""When jobs come: Poisson, bursty (two-state modulated), batches, and a daily rhythm.

Every model keeps the mean gap it is given and changes only the rhythm. Modulated processes are
drawn exactly, by inversion (Çinlar 1975, "Introduction to Stochastic Processes"): the arrivals of a
process of constant rate in operational time are mapped through the inverse of the cumulated
intensity. Time 0 is midnight before a Monday.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from volvelle.model.arrays import FloatColumn
from volvelle.model.problems import nearest
from volvelle.model.units import DAY, HOUR
from volvelle.model.validation import Seconds
from volvelle.workload.generators.base import Parameters

WEEK = 7 * DAY
_GRID_SECONDS = 600.0  # the daily intensity is constant inside ten minutes


class ArrivalProcess(Parameters, ABC):
    """A stationary (or weekly repeating) stream of submissions."""

    @abstractmethod
    def times(self, rng: np.random.Generator, count: int, mean_gap_seconds: float) -> FloatColumn:
        """``count`` ascending times in seconds, on average ``mean_gap_seconds`` apart."""

    def times_until(
        self, rng: np.random.Generator, length_seconds: float, mean_gap_seconds: float
    ) -> FloatColumn:
        """All submissions before ``length_seconds``."""
        count = int(2 * length_seconds / mean_gap_seconds) + 100
        while (times := self.times(rng, count, mean_gap_seconds))[-1] < length_seconds:
            count *= 2
        return times[: np.searchsorted(times, length_seconds)]


class Poisson(ArrivalProcess):
    """Independent exponential gaps."""

    kind: Literal["poisson"] = "poisson"

    def times(  # noqa: D102 - documented by the base class
        self, rng: np.random.Generator, count: int, mean_gap_seconds: float
    ) -> FloatColumn:
        return np.cumsum(rng.exponential(mean_gap_seconds, count))


class Bursty(ArrivalProcess):
    """A Markov-modulated Poisson process: quiet spells and bursts of exponential length."""

    kind: Literal["bursty"] = "bursty"
    intensity: Annotated[float, Field(ge=1, description="rate in a burst, in quiet rates")] = 10.0
    share: Annotated[float, Field(gt=0, lt=1, description="share of time spent in bursts")] = 0.1
    burst: Annotated[Seconds, Field(gt=0, description="mean length of a burst")] = 1800.0

    def times(  # noqa: D102
        self, rng: np.random.Generator, count: int, mean_gap_seconds: float
    ) -> FloatColumn:
        operational = Poisson().times(rng, count, mean_gap_seconds)
        clock, cumulated = self._intensity(rng, float(operational[-1]) if count else 0.0)
        return np.interp(operational, cumulated, clock)

    def _intensity(
        self, rng: np.random.Generator, horizon: float
    ) -> tuple[FloatColumn, FloatColumn]:
        """Clock times of the changes of state and the intensity cumulated until each."""
        quiet_rate = 1.0 / (self.share * self.intensity + 1.0 - self.share)
        cycle = self.burst / self.share
        starts_in_burst = rng.random() < self.share
        means = np.array([cycle - self.burst, self.burst])
        rates = np.array([quiet_rate, quiet_rate * self.intensity])
        if starts_in_burst:
            means, rates = means[::-1], rates[::-1]
        clock, cumulated = [np.zeros(1)], [np.zeros(1)]
        while cumulated[-1][-1] <= horizon:
            cycles = int((horizon - cumulated[-1][-1]) / cycle * 1.2) + 8
            spells = rng.exponential(1.0, (cycles, 2)) * means
            cumulated.append(cumulated[-1][-1] + np.cumsum((spells * rates).ravel()))
            clock.append(clock[-1][-1] + np.cumsum(spells.ravel()))
        return np.concatenate(clock), np.concatenate(cumulated)


class Batches(ArrivalProcess):
    """Jobs come in batches of geometric size (sweeps of a hyper-parameter), batches as Poisson."""

    kind: Literal["batches"] = "batches"
    mean_batch: Annotated[float, Field(ge=1, description="jobs of a batch, on average")] = 4.0
    spacing: Annotated[Seconds, Field(ge=0, description="mean gap between the jobs of a batch")] = (
        5.0
    )

    def times(  # noqa: D102
        self, rng: np.random.Generator, count: int, mean_gap_seconds: float
    ) -> FloatColumn:
        sizes = rng.geometric(1.0 / self.mean_batch, count)
        batches = int(np.searchsorted(np.cumsum(sizes), count)) + 1 if count else 0
        sizes = sizes[:batches]
        begins = Poisson().times(rng, batches, mean_gap_seconds * self.mean_batch)
        gaps = rng.exponential(self.spacing, int(sizes.sum()))
        firsts = np.cumsum(sizes) - sizes
        gaps[firsts] = 0.0
        waited = np.cumsum(gaps)
        times = np.repeat(begins, sizes) + waited - np.repeat(waited[firsts], sizes)
        return np.sort(times[:count])


WithinDay = Annotated[Poisson | Bursty | Batches, Field(discriminator="kind")]


class Diurnal(ArrivalProcess):
    """A cosine day and quieter weekends; ``within`` says how jobs come inside the rhythm."""

    kind: Literal["diurnal"] = "diurnal"
    peak_to_trough: Annotated[
        float, Field(ge=1, description="rate of the busiest moment over the quietest of a day")
    ] = 4.0
    peak_hour: Annotated[float, Field(ge=0, lt=24, description="hour of the busiest moment")] = 15.0
    weekend: Annotated[
        float, Field(gt=0, description="rate of Saturday and Sunday over that of a weekday")
    ] = 0.5
    within: WithinDay = Poisson()

    def times(  # noqa: D102
        self, rng: np.random.Generator, count: int, mean_gap_seconds: float
    ) -> FloatColumn:
        operational = self.within.times(rng, count, mean_gap_seconds)
        edges, cumulated = self._week()
        weeks, rest = np.divmod(operational, WEEK)
        return weeks * WEEK + np.interp(rest, cumulated, edges)

    def intensity(self, seconds: FloatColumn) -> FloatColumn:
        """The rate at these times, in rates of the weekday average."""
        swing = (self.peak_to_trough - 1.0) / (self.peak_to_trough + 1.0)
        rhythm = 1.0 + swing * np.cos((seconds - self.peak_hour * HOUR) * (2 * np.pi / DAY))
        return np.where(seconds % WEEK >= 5 * DAY, self.weekend, 1.0) * rhythm

    def _week(self) -> tuple[FloatColumn, FloatColumn]:
        """Clock times within a week and the intensity cumulated until each, a week in total."""
        edges = np.arange(0.0, WEEK + _GRID_SECONDS, _GRID_SECONDS)
        rates = self.intensity((edges[1:] + edges[:-1]) / 2)
        cumulated = np.concatenate([[0.0], np.cumsum(rates)])
        return edges, cumulated * (WEEK / cumulated[-1])


PROCESSES: dict[str, type[ArrivalProcess]] = {
    "poisson": Poisson,
    "bursty": Bursty,
    "batches": Batches,
    "diurnal": Diurnal,
}


def _spelled_out(value: object) -> object:
    """``"bursty"`` and ``"bursty:intensity=8,share=0.2"`` as the mapping that they stand for."""
    if not isinstance(value, str):
        return value
    kind, _, rest = value.partition(":")
    if kind not in PROCESSES:
        known = ", ".join(PROCESSES)
        raise ValueError(f"there is no such arrival process{nearest(kind, PROCESSES)}; use {known}")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    return {"kind": kind, **{key.strip(): text.strip() for key, _, text in pairs}}


Arrivals = Annotated[
    Annotated[Poisson | Bursty | Batches | Diurnal, Field(discriminator="kind")],
    BeforeValidator(_spelled_out),
]
"""A field of this type takes a process, a mapping with ``kind``, or a short text."""
