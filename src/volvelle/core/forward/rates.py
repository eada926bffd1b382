"""How fast jobs are, where that is linear or stands in the table of rates by GPUs."""

from typing import Any

from volvelle.core.compiled import kernel
from volvelle.core.state import *


@kernel
def rate_on(table: Any, curve: int, gpu_type: int, gpus: float) -> float:
    """Units per second on ``gpus`` GPUs, linear between whole ones, constant beyond the last.

    table: by [curve][GPU type][GPUs].
    """
    rates = table[curve][gpu_type]
    whole = int(gpus)
    if whole + 1 >= len(rates):
        return float(rates[len(rates) - 1])
    below = float(rates[whole])
    if gpus == whole:
        return below
    return below + float(rates[whole + 1] - below) * (gpus - whole)


@kernel
def _rate(s: State, row: int, unit: float, table: float) -> float:
    gpus = s.jobs.held[row]
    if unit == unit:  # noqa: PLR0124 - not NaN
        return float(unit * gpus)
    if table < 0.0:
        return 0.0
    least, gpu_type = s.jobs.least[row], int(s.jobs.type[row])
    if gpus < least:
        return float(rate_on(s.rates, int(table), gpu_type, least) * gpus / least)
    return rate_on(s.rates, int(table), gpu_type, gpus)


@kernel
def believed_rate(s: State, row: int) -> float:
    """Units per second believed of the job in ``row`` with what it holds; 0 where Python has to say."""
    return _rate(s, row, s.jobs.unit_rate[row], s.jobs.table[row])


@kernel
def true_rate(s: State, row: int) -> float:
    """Units per second of the job in ``row`` with what it holds; 0 where Python has to say."""
    if s.jobs.truly_asked[row] == 1.0:
        return 0.0
    return _rate(s, row, s.jobs.true_unit_rate[row], s.jobs.true_table[row])


@kernel
def rate_asked(s: State, rules: Rules, row: int) -> bool:
    """Whether Python has to say how fast the job in ``row`` is."""
    unit = s.jobs.unit_rate[row]
    believed = unit != unit and s.jobs.table[row] < 0.0  # noqa: PLR0124 - NaN
    return bool(believed or (rules.simulated and s.jobs.truly_asked[row] == 1.0))
