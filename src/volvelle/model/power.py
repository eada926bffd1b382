"""Electric power of GPUs, and how much carbon a kilowatt-hour stands for."""

import csv
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from volvelle.model.problems import Problem, nearest

IDLE, ANY = "idle", "busy"
"""Keys beside GPU types: of a GPU that no job holds, and of one of any other type that a job holds."""

_WATTS = re.compile(r"(\d+(?:\.\d+)?)\s*(k?)W?", re.IGNORECASE)


class Power(msgspec.Struct, frozen=True):
    """Watts of each GPU: ``busy`` by its type while a job holds it, else ``idle``, as long as its node is up.

    carbon: grams of CO2 equivalents a kilowatt-hour, from each time on, seconds; empty where it is not said.
    """

    busy: Mapping[str, float]
    idle: float = 0.0
    carbon: tuple[tuple[float, float], ...] = ()

    def of(self, gpu_type: str) -> float:
        """Watts of a GPU of this type that a job holds. Raises `Problem` where these are not said."""
        watts = self.busy.get(gpu_type, self.busy.get(ANY))
        if watts is None:
            raise Problem(
                f"--power does not say what GPUs of type {gpu_type or '(none)'} draw",
                mend=f"add {gpu_type or ANY}=400W, or {ANY}=400W for all others",
                usage=True,
            )
        return watts


def read_power(text: str, carbon: str | None, types: Iterable[str]) -> Power:
    """The power written as ``a100=400W,idle=60W``, and `read_carbon`, for GPUs of these ``types``.

    Raises `Problem`.
    """
    known = {*types, IDLE, ANY} - {""}
    watts: dict[str, float] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        match = _WATTS.fullmatch(value)
        if name not in known or match is None:
            what = (
                f"GPUs {name!r}{nearest(name, known)}"
                if name not in known
                else f"{value!r} as watts"
            )
            raise Problem(
                f"--power {text!r}: cannot read {what}",
                mend=f"write TYPE=400W,{IDLE}=60W, where TYPE is of the cluster, or {ANY} for all",
                usage=True,
            )
        watts[name] = float(match[1]) * (1000.0 if match[2] else 1.0)
    idle = watts.pop(IDLE, 0.0)
    power = Power(watts, idle, read_carbon(carbon) if carbon else ())
    for gpu_type in types:
        power.of(gpu_type)
    return power


def read_carbon(text: str) -> tuple[tuple[float, float], ...]:
    """A number of grams a kilowatt-hour, or a CSV file with columns ``time`` and ``g_per_kwh``.

    Times are seconds since the run's start, ascending; the first row holds before too. Raises `Problem`.
    """
    path = Path(text)
    try:
        if not path.is_file():
            found = [(0.0, float(text))]
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = csv.DictReader(file)
                found = [(float(row["time"]), float(row["g_per_kwh"])) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(
            f"--carbon {text!r}: no number, and no file of numbers ({error})",
            mend="write grams a kWh, as in 380, or name a CSV file with columns time and g_per_kwh",
            usage=True,
        ) from None
    times = [time for time, _ in found]
    sound = all(math.isfinite(time) and 0 <= grams < math.inf for time, grams in found)
    if not found or not sound or times != sorted(times):
        raise Problem(
            f"--carbon {text!r}: times ascend, and grams are not negative",
            mend="sort the rows by time, and correct the numbers",
        )
    return tuple(found)
