"""Whether told times hold in each class of jobs that can be told apart when they are submitted."""

from typing import NamedTuple

import numpy as np

from volvelle.estimate.corrections import STATE_CLASSES
from volvelle.estimate.likeness import ARRIVALS_SECONDS
from volvelle.metrics import per_job
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import BoolColumn, FloatColumn, distinct

LEAST = 200
"""Jobs from which a class is judged."""

_TITLES = {
    "load": "jobs in the system",
    "arrivals": "arrivals in half an hour",
    "service": "seconds predicted",
    "width": "GPUs",
}


class ToldClass(NamedTuple):
    """Jobs of a class: the percentages that kept their P50 and their P90."""

    name: str
    jobs: int
    p50: float
    p90: float

    @property
    def within(self) -> bool:
        """Whether P90 holds for 85 to 95 %."""
        return 85.0 <= self.p90 <= 95.0


class Told(NamedTuple):
    """Jobs by submission, and the times that they were told then; seconds on one clock, NaN where unknown.

    counted: the jobs to be judged, which finished; the others count as jobs in the system until ``finish``.
    """

    submit: FloatColumn
    finish: FloatColumn
    predicted: FloatColumn
    p50: FloatColumn
    p90: FloatColumn
    gpus: FloatColumn
    counted: BoolColumn

    @classmethod
    def of(cls, outcomes: Outcomes) -> "Told | None":
        """The tracked jobs of a run that finished; None where no P90 was told."""
        predicted, p50, p90 = (
            outcomes.predicted_finish,
            outcomes.predicted_p50,
            outcomes.predicted_p90,
        )
        if predicted is None or p50 is None or p90 is None:
            return None
        counted = outcomes.tracked & ~np.isnan(per_job.jct(outcomes))
        gpus = np.asarray(outcomes.gpus, dtype=np.float64)
        return cls(outcomes.submit_time, outcomes.finish, predicted, p50, p90, gpus, counted)

    @property
    def judged(self) -> BoolColumn:
        """The counted jobs that were told a P90."""
        return self.counted & ~np.isnan(self.p90)

    @property
    def classes(self) -> list[ToldClass]:
        """All judged jobs, and classes of them by observable state; empty where there are none.

        The classes are those of `volvelle.estimate.told.STATE_CLASSES`, by predicted time in place of
        believed service.
        """
        told = self.judged
        if not told.any():
            return []
        held50 = per_job.covered(self.finish, self.p50, tie=50.0)
        held90 = per_job.covered(self.finish, self.p90)
        come = np.arange(1.0, len(self.submit) + 1.0)
        columns = {
            "load": come - np.searchsorted(np.sort(self.finish), self.submit, side="right"),
            "arrivals": come - np.searchsorted(self.submit, self.submit - ARRIVALS_SECONDS),
            "service": self.predicted - self.submit,
            "width": self.gpus,
        }
        members = {"all jobs": told}
        for attribute, bounds in STATE_CLASSES.items():
            places = np.searchsorted(bounds, columns[attribute])
            for place in distinct(places[told]).tolist():
                span = f"to {bounds[place]:g}" if place < len(bounds) else f"above {bounds[-1]:g}"
                members[f"{_TITLES[attribute]}: {span}"] = told & (places == place)
        return [
            ToldClass(name, int(mine.sum()), float(held50[mine].mean()), float(held90[mine].mean()))
            for name, mine in members.items()
        ]

    @property
    def sharpness(self) -> float:
        """Median of the time until P90 over the time predicted; NaN where none was told."""
        wide = per_job.ratio(self.p90 - self.submit, self.predicted - self.submit)[self.counted]
        return float(np.nanmedian(wide)) if not np.isnan(wide).all() else np.nan


class ToldTimes(NamedTuple):
    """How well the told times of a run hold.

    all: all jobs. judged: the classes of at least `LEAST` jobs. sharpness: as that of `Told`.
    """

    all: ToldClass
    judged: tuple[ToldClass, ...]
    sharpness: float

    @property
    def within(self) -> int:
        """The judged classes whose P90 holds for 85 to 95 %."""
        return sum(each.within for each in self.judged)

    @property
    def worst(self) -> ToldClass | None:
        """The class furthest off, if its P90 does not hold so."""
        worst = max(self.judged, key=lambda each: abs(each.p90 - 90.0), default=None)
        return None if worst is None or worst.within else worst


def told_times(told: Told | None) -> ToldTimes | None:
    """The summary of these jobs; None where no P90 was told."""
    if told is None or not (classes := told.classes):
        return None
    judged = tuple(each for each in classes[1:] if each.jobs >= LEAST)
    return ToldTimes(classes[0], judged, told.sharpness)


def told_sentence(told: Told | None) -> str:
    """How well told times hold, and how sharp they are; empty where none were told."""
    if (times := told_times(told)) is None:
        return ""
    whole, worst = times.all, times.worst
    judged = f"{whole.jobs:,} job{'' if whole.jobs == 1 else 's'}"
    said = (
        f"Of {judged} {whole.p90:.0f} % finished by their P90 (90 % should), {whole.p50:.0f} % by their P50 "
        f"(50 % should){_concluded(whole)}. "
        f"P90 is {times.sharpness:.2f} times as far away as the time predicted (median)."
    )
    if times.judged:
        said += (
            f" Of {len(times.judged)} groups, of jobs alike at submission in GPUs, predicted time or jobs "
            f"before them, {times.within} have 85 to 95 % that finished by their P90"
        )
        if worst is not None:
            span = worst.name.replace(": to ", " up to ").replace(": ", " ")
            said += f"; furthest off: {span}, {worst.p90:.0f} %"
        said += "."
    return said


def _concluded(whole: ToldClass) -> str:
    """The direction in which P50 is off, where it is by more than three standard deviations of chance."""
    off = whole.p50 - 50.0
    if abs(off) <= 150.0 / np.sqrt(whole.jobs):
        return ""
    which = "all" if abs(off) == 50.0 else "most"
    return f": told times were too {'late' if off > 0.0 else 'early'} for {which}"
