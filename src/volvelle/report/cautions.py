"""Sentences on what a comparison cannot tell: free stops, part of the load, too little, unfinished runs."""

from collections.abc import Sequence
from typing import NamedTuple

from volvelle.report.table import format_cell


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
    fewer: the option for a cluster of that size, where it is smaller.
    """

    waited: float
    beside_idle: float
    gpus: float
    peak: float
    fewer: str

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
        if not self.fewer:
            return ""
        return (
            f" The jobs in it held at most {self.peak:,.0f} of {self.gpus:,.0f} GPUs at once: simulate a "
            f"cluster of that size, {self.fewer}."
        )


class TooFewWanted(NamedTuple):
    """Jobs hardly wait under the baseline, and under no other run do they finish earlier.

    load: GPUs that their work keeps busy while they are submitted, of ``gpus``. fewer: the option for a
    cluster on which they would wait, or "".
    """

    load: float
    gpus: float
    fewer: str

    def __str__(self) -> str:
        smaller = f" Try a smaller cluster: {self.fewer}." if self.fewer else ""
        return (
            f"Too few GPUs are wanted to tell policies apart: the jobs keep {format_cell(self.load)} of "
            f"{self.gpus:,.0f} busy.{smaller}"
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
