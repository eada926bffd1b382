"""Energy and carbon of a run, from its first submission to its end.

A GPU that a job holds draws its type's power, all others that are up draw what idle ones do; what nodes draw
beside their GPUs is not counted.
"""

import numpy as np

from volvelle.metrics.outcomes import Outcomes, Segments, Steps
from volvelle.model.arrays import FloatColumn
from volvelle.model.power import Power

_JOULES = 3.6e6
"""In a kilowatt-hour."""


def drawn(power: Power, watts: FloatColumn, segments: Segments, capacity: Steps) -> Steps:
    """The power of all GPUs, watts. watts: of a GPU that is held, by segment."""
    more = segments.gpus * (watts - power.idle)
    up = np.diff(capacity.values, prepend=0.0) * power.idle
    times = np.concatenate([capacity.times, segments.start, segments.end])
    order = np.argsort(times, kind="stable")
    return Steps(times[order], np.cumsum(np.concatenate([up, more, -more])[order]))


def energy_and_carbon(
    power: Power, drawn: Steps, start: float, end: float
) -> tuple[float, float | None]:
    """Kilowatt-hours, and kilograms of CO2 equivalents where `Power.carbon` is known."""
    times = np.append(drawn.times, max(end, drawn.times[-1]))
    joules = np.concatenate([[0.0], np.cumsum(np.diff(times) * drawn.values)])
    end = max(start, end)
    total = float(np.diff(np.interp([start, end], times, joules))[0])
    if not power.carbon:
        return total / _JOULES, None
    since, grams = np.array(power.carbon).T
    bounds = np.clip(np.append(since, np.inf), start, end)
    bounds[0] = start
    pieces = np.diff(np.interp(bounds, times, joules))
    return total / _JOULES, float(pieces @ grams) / _JOULES / 1000.0


def energy(outcomes: Outcomes) -> float:
    """Energy of all GPUs that are up, from the first submission to the end (``--power``)."""
    return float("nan") if outcomes.energy_kwh is None else outcomes.energy_kwh


def carbon(outcomes: Outcomes) -> float:
    """Greenhouse gas of that energy, CO2 equivalents (``--carbon``)."""
    return float("nan") if outcomes.carbon_kg is None else outcomes.carbon_kg
