"""Sentences on what a comparison cannot tell: free stops, a record of a part of the load, unfinished runs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from volvelle.report.table import format_cell
from volvelle.workload.proposing import MOST_OF_A_NODE


class FreeStops(NamedTuple):
    """All ``runs`` that preempt where what was simulated charges nothing for a stop and a resume."""

    runs: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Stops and resumes cost nothing here, which favours {listed(self.runs)}: "
            "--overheads restore=60,checkpoint=10 charges seconds for them."
        )


class PartOfTheLoad(NamedTuple):
    """Jobs waited in the recorded run beside idle GPUs: other load or other rules are not in the trace.

    waited: seconds during which some job waited. beside_idle: those of them during which half of the idle
    GPUs would have done for any job that waited. gpus: of the cluster. peak: the most that were held at once.
    """

    waited: float
    beside_idle: float
    gpus: float
    peak: float

    def __str__(self) -> str:
        share = format_cell(100.0 * self.beside_idle / self.waited, "%")
        return (
            "In the trace's own record jobs waited although enough GPUs were idle: in "
            f"{share} of the {format_cell(self.waited, 's')} with jobs waiting, half of the idle GPUs would "
            "have been enough for any of these jobs. So the trace probably lacks some of the cluster's jobs, "
            f"and its record is no baseline.{self._smaller}"
        )

    @property
    def _smaller(self) -> str:
        """A cluster to try, where a node of it and more was never used."""
        nodes = math.ceil(self.peak / MOST_OF_A_NODE)
        if nodes * MOST_OF_A_NODE >= self.gpus:
            return ""
        return (
            f" The jobs in it held at most {self.peak:,.0f} of {self.gpus:,.0f} GPUs at once: simulate a "
            f"cluster of that size, --cluster {nodes}x{MOST_OF_A_NODE}."
        )


class Unjudged(NamedTuple):
    """Runs that left jobs unfinished which others finished."""

    runs: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{listed(self.runs)} left jobs unfinished that others finished, and cannot be judged."
        )


class Unheld(NamedTuple):
    """The trace recorded the ends of ``more`` jobs that no policy could run."""

    more: int

    def __str__(self) -> str:
        jobs = "job" if self.more == 1 else "jobs"
        return (
            f"The trace recorded the end of {self.more:,} {jobs} that no policy finished: "
            "nothing is held against it."
        )


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
