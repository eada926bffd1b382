"""Whether told times hold in each class of jobs that can be told apart when they are submitted."""

from typing import NamedTuple

import numpy as np

from volvelle.estimate.likeness import ARRIVALS_SECONDS
from volvelle.estimate.told import STATE_CLASSES
from volvelle.metrics import per_job
from volvelle.metrics.outcomes import Outcomes

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


def told_classes(outcomes: Outcomes) -> list[ToldClass]:
    """All tracked jobs that were told a P90 and finished, and classes of them by observable state.

    The classes are those of `volvelle.estimate.told.STATE_CLASSES`, by predicted time in place of believed
    service. Empty where no P90 was told.
    """
    predicted, submit = outcomes.predicted_finish, outcomes.submit_time
    held50, held90 = per_job.within_p50(outcomes), per_job.within_p90(outcomes)
    told = outcomes.tracked & ~np.isnan(held90)
    if predicted is None or not told.any():
        return []
    come = np.arange(1.0, len(submit) + 1.0)
    columns = {
        "load": come - np.searchsorted(np.sort(outcomes.finish), submit, side="right"),
        "arrivals": come - np.searchsorted(submit, submit - ARRIVALS_SECONDS),
        "service": predicted - submit,
        "width": outcomes.gpus,
    }
    members = {"all jobs": told}
    for attribute, bounds in STATE_CLASSES.items():
        places = np.searchsorted(bounds, columns[attribute])
        for place in np.unique(places[told]).tolist():
            span = f"to {bounds[place]:g}" if place < len(bounds) else f"above {bounds[-1]:g}"
            members[f"{_TITLES[attribute]}: {span}"] = told & (places == place)
    return [
        ToldClass(name, int(mine.sum()), float(held50[mine].mean()), float(held90[mine].mean()))
        for name, mine in members.items()
    ]


def sharpness(outcomes: Outcomes) -> float:
    """Median, over tracked jobs, of the time until P90 over the time predicted; NaN where none was told."""
    p90, predicted, submit = outcomes.predicted_p90, outcomes.predicted_finish, outcomes.submit_time
    if p90 is None or predicted is None:
        return np.nan
    wide = per_job.ratio(p90 - submit, predicted - submit)[outcomes.tracked]
    return float(np.nanmedian(wide)) if not np.isnan(wide).all() else np.nan


class ToldTimes(NamedTuple):
    """How well the told times of a run hold.

    all: all jobs. judged: the classes of at least `LEAST` jobs. sharpness: as `sharpness` says.
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


def told_times(outcomes: Outcomes) -> ToldTimes | None:
    """The summary of a run; None where no P90 was told."""
    classes = told_classes(outcomes)
    if not classes:
        return None
    judged = tuple(each for each in classes[1:] if each.jobs >= LEAST)
    return ToldTimes(classes[0], judged, sharpness(outcomes))


def told_sentence(outcomes: Outcomes) -> str:
    """How well told times hold, and how sharp they are; empty where none were told."""
    if (told := told_times(outcomes)) is None:
        return ""
    whole, worst = told.all, told.worst
    said = f"P90 held for {whole.p90:.0f} % of {whole.jobs:,} jobs, P50 for {whole.p50:.0f} %"
    if told.judged:
        within = f"{told.within} of {len(told.judged)}"
        said += f"; P90 for 85 to 95 % in {within} classes of observable state"
    if worst is not None:
        said += f" (the furthest off: {worst.name}, {worst.p90:.0f} %)"
    return f"{said}. P90 is {told.sharpness:.2f} times as far away as the time predicted (median)."
