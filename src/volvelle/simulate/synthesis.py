"""The order of a run to a synthesizer: among which compositions it chooses, by what, and how often.

The one that chooses is a switcher (`volvelle.simulate.world.Switcher`), which a published system brings.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.forecast import Forecast
from volvelle.metrics.measures import of_jobs, read_measure
from volvelle.model.arrays import FloatColumn
from volvelle.model.problems import Problem, nearest

SYNTHESIZER = "synthesizer"
"""The switcher that chooses policy and admission while a run goes on; the run's record names it for both."""

FORESEEN = ("jct", "responsiveness")
"""The measures of a job that a forecast has, and that can be objectives."""


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """The compositions to choose among, the objectives, and the seconds between choices."""

    policies: tuple[str, ...]
    admissions: tuple[str, ...]
    objectives: tuple[str, ...] = ("jct:mean",)
    every: float = 3000.0

    @property
    def combinations(self) -> list[tuple[str, str]]:
        """Policy and admission, as they are written, in order."""
        return list(product(self.policies, self.admissions))

    def __str__(self) -> str:
        """In words, for tables."""
        among = f"{', '.join(self.policies)} x {', '.join(self.admissions)}"
        return f"synthesizer of {among} for {' and '.join(self.objectives)}"


class ForeseenObjective(NamedTuple):
    """A measure of what a forecast tells: ``jct:p99`` is ("jct", "p99")."""

    what: str
    measure: str

    def of(self, ahead: Forecast, submitted: Mapping[int, float]) -> float:
        """Its value in a forecast, over jobs ``submitted`` by number; infinite where one never ends."""
        times = ahead.finish if self.what == "jct" else ahead.start
        values: FloatColumn = np.array([times.get(n, math.inf) - at for n, at in submitted.items()])
        return of_jobs(values, self.measure)[0] if len(values) else 0.0


def read_foreseen(text: str) -> ForeseenObjective:
    """The objective written ``name:measure``. Raises `Problem` for what no forecast tells."""
    what, _, measure = text.partition(":")
    if what not in FORESEEN:
        raise Problem(
            f"a forecast does not tell {what!r}{nearest(what, FORESEEN)}",
            mend=f"synthesize for {' or '.join(FORESEEN)}, as in jct:mean",
            usage=True,
        )
    return ForeseenObjective(what, read_measure(measure or "mean"))
