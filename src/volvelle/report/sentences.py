"""The sentences of a verdict: records of the figures that they speak of, so that a test can hold them
against the runs.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from volvelle.metrics.catalogue import metrics
from volvelle.metrics.outcomes import RECORDED
from volvelle.report.cautions import (
    FreeStops,
    PartOfTheLoad,
    TooFewWanted,
    Unheld,
    Unjudged,
    listed,
)
from volvelle.report.table import format_cell, same

CONTESTS = {
    "jct:mean": "mean completion time",
    "jct:p99": "99th percentile of completion times",
    "responsiveness:p50": "median wait",
    "unfair:mean": "share of jobs served later than fair",
    "deadline_miss:mean": "missed deadlines",
    "makespan": "makespan",
}
"""The metrics judged, and their names in sentences. Lower is better in each."""


class Win(NamedTuple):
    """The least figure of a contest, in its metric's unit, and what the baseline has."""

    measure: str
    figure: float
    of_baseline: float

    def against(self, baseline: str) -> str:
        """As in ``mean completion time (2h 51m, 79 % less than under fifo)``."""
        unit = metrics.get(self.measure.partition(":")[0]).unit
        less = change(self.figure, self.of_baseline)
        said = f"{less} than {under(baseline)}" if baseline else less
        return f"{CONTESTS[self.measure]} ({format_cell(self.figure, unit)}, {said})"


class Best(NamedTuple):
    """``runs`` are the best in each of ``wins``."""

    runs: tuple[str, ...]
    baseline: str
    wins: tuple[Win, ...]

    def __str__(self) -> str:
        if self.baseline in self.runs:
            names = listed([CONTESTS[win.measure] for win in self.wins])
            name = "what the trace recorded" if self.baseline == RECORDED else self.baseline
            return f"Nothing beats {name} for the {names}."
        verb = "is" if len(self.runs) == 1 else "are"
        first, *others = self.wins
        named = listed([first.against(self.baseline), *(win.against("") for win in others)])
        return f"{listed(self.runs)} {verb} best for the {named}."


class Idle(NamedTuple):
    """GPU-days under ``run``: how many there were, stood idle, and did so while jobs waited."""

    run: str
    of: float
    idle: float
    beside_waits: float

    def __str__(self) -> str:
        share = format_cell(100.0 * self.idle / self.of, "%") if self.of else "none"
        said = f"Idle: {_days(self.idle)} of {_days(self.of)} GPU-days {under(self.run)} ({share})"
        return f"{said}, {_days(self.beside_waits)} of them while jobs waited."


class WaitedMost(NamedTuple):
    """Groups that waited longest under ``run``: by name, seconds a job, and share of all jobs, 0 to 1.

    There are none where no group waited clearly longer than all others.
    """

    run: str
    groups: tuple[tuple[str, float, float], ...]

    def __str__(self) -> str:
        if not self.groups:
            return "All waited about alike: no pool, user or size of job clearly longer than the others."
        each = [
            f"{name} ({format_cell(mean, 's')} a job, {format_cell(round(100.0 * share), '%')} of the jobs)"
            for name, mean, share in self.groups
        ]
        return f"Waited most: {listed(each)}."


class WaitingCost(NamedTuple):
    """Days that jobs waited under ``run``, in all, and the mean of a job in seconds.

    beside_waits: GPU-days that stood idle meanwhile. price: of a GPU-hour.
    """

    run: str
    days: float
    mean: float
    beside_waits: float
    price: float | None

    def __str__(self) -> str:
        if self.mean < 1.0:
            return f"Waiting cost nothing {under(self.run)}: jobs started as they came."
        said = f"Waiting cost {_days(self.days)} days of jobs, {format_cell(self.mean, 's')} each on average"
        if self.price is None:
            return f"{said} (in money: --price PER_GPU_HOUR)."
        money = 24.0 * self.beside_waits * self.price
        return (
            f"{said}; the GPUs that stood idle meanwhile, {money:,.0f} at {self.price:g} an hour."
        )


class BestChange(NamedTuple):
    """Mean waits and mean completion times of ``run``, in seconds, and those of the baseline."""

    run: str
    wait: float
    jct: float
    baseline: str
    wait_before: float
    jct_before: float

    @property
    def improves(self) -> bool:
        """Whether jobs finish earlier than under the baseline."""
        return self.jct < self.jct_before and not same(self.jct, self.jct_before)

    def __str__(self) -> str:
        if not self.improves:
            return f"The best change: none of these finishes jobs earlier than {self.baseline}."
        waits, before = format_cell(self.wait, "s"), format_cell(self.wait_before, "s")
        after, was = format_cell(self.jct, "s"), format_cell(self.jct_before, "s")
        less = change(self.jct, self.jct_before)
        ends = f"finish after {after} instead of {was} ({less})"
        if after == was:
            ends = f"take {less} time to finish"
        return (
            f"The best change: {self.run}. Jobs would wait {waits} on average instead of {before}, "
            f"and {ends}."
        )


Durations = Literal["none", "estimated", "exact"]
"""The knowledge of how long jobs take that a run goes by."""

_KNOWS: Mapping[Durations, str] = {
    "none": "needs no known durations",
    "estimated": "goes by estimates of how long jobs take",
    "exact": "has to know how long jobs take",
}


class Needs(NamedTuple):
    """The needs of ``run``: known durations, how often it takes a job's GPUs away, elastic jobs.

    resized: share of the jobs that held another number of GPUs than they ask for, 0 to 1. known: the run with
    the least mean completion time where durations are known exactly, and that time, if it is less.
    """

    run: str
    durations: Durations
    preemptions: float
    resized: float
    known: tuple[str, float] | None = None

    def __str__(self) -> str:
        often = f"preempts {format_cell(self.preemptions)} times a job on average"
        often = often if self.preemptions else "never preempts a job"
        said = f"{self.run} {_KNOWS[self.durations]} and {often}"
        if self.resized:
            share = format_cell(100.0 * self.resized, "%")
            said += (
                f"; {share} of the jobs, which are elastic, hold more or fewer GPUs than asked for"
            )
        if self.known is None:
            return f"{said}."
        quicker, jct = self.known
        jct_said = format_cell(jct, "s")
        return f"{said}. If it were known how long jobs take, {quicker} would finish them after {jct_said}."


class Without(NamedTuple):
    """``run`` has the best mean completion time of those that do not preempt."""

    run: str
    figure: float
    baseline: str
    of_baseline: float
    durations: Durations

    def __str__(self) -> str:
        less = change(self.figure, self.of_baseline)
        known = "" if self.durations == "none" else f"; it {_KNOWS[self.durations]}"
        return (
            f"Without preempting, {self.run} is best for the mean completion time: "
            f"{format_cell(self.figure, 's')}, {less} than {under(self.baseline)}{known}."
        )


class Loses(NamedTuple):
    """Groups of jobs that end later under ``run`` than under the baseline.

    share: of all jobs that finished in both, 0 to 1. worst: groups by name, and by which share their mean
    completion time grows.
    """

    run: str
    baseline: str
    share: float
    worst: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        if self.share == 0.0:
            return f"No job ends later under {self.run} than {under(self.baseline)}."
        share = format_cell(100.0 * self.share, "%")
        said = f"{share} of the jobs end later under {self.run} than {under(self.baseline)}"
        if not self.worst:
            return f"{said}, but no user, pool or size of job as a whole."
        named = [f"{name} (+{format_cell(100.0 * more, '%')})" for name, more in self.worst]
        return f"{said}; as a whole: {listed(named)}."


class Costs(NamedTuple):
    """GPU-hours that jobs hold under ``run`` and under the baseline, and the ``price`` of one."""

    run: str
    gpu_hours: float
    baseline: str
    of_baseline: float
    price: float | None

    def __str__(self) -> str:
        held = format_cell(round(self.gpu_hours))
        if same(self.gpu_hours, self.of_baseline):
            said = f"Jobs hold as many GPU-hours under {self.run} as {under(self.baseline)}: {held}"
        else:
            more = change(self.gpu_hours, self.of_baseline)
            said = (
                f"Jobs hold {held} GPU-hours under {self.run}, {more} than {under(self.baseline)}"
            )
        if self.price is None:
            return f"{said}."
        money = self.price * self.gpu_hours
        if same(self.gpu_hours, self.of_baseline):
            return f"{said}; at {self.price:g} each that is {money:,.0f}."
        saved = self.price * (self.of_baseline - self.gpu_hours)
        which = "less" if saved >= 0.0 else "more"
        return f"{said}; at {self.price:g} each that is {money:,.0f}, {abs(saved):,.0f} {which}."


class Draws(NamedTuple):
    """Energy under ``run`` and under the baseline, kWh, and the carbon of both, kg, if it is known."""

    run: str
    kwh: float
    baseline: str
    of_baseline: float
    carbon: tuple[float, float] | None

    def __str__(self) -> str:
        if same(self.kwh, self.of_baseline):
            more = "as much as"
        else:
            more = f"{change(self.kwh, self.of_baseline)} than"
        used = f"{format_cell(self.kwh)} kWh under {self.run}, {more} {under(self.baseline)}"
        if self.carbon is None:
            return f"GPUs draw {used}."
        now, then = map(format_cell, self.carbon)
        return f"GPUs draw {used}: {now} kg of CO2 instead of {then} kg."


class Alike(NamedTuple):
    """The same happened to every job under each of ``runs``: one row speaks for them."""

    runs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{listed(self.runs)} decide alike on these jobs, and share a row."


class Reproduces(NamedTuple):
    """Waits under ``run``, the site's own scheduler as it is simulated, beside those in the trace.

    wait, recorded: means in seconds. median, p90: by how many seconds starts are off.
    """

    run: str
    wait: float
    recorded: float
    median: float
    p90: float

    def __str__(self) -> str:
        waits, before = format_cell(self.wait, "s"), format_cell(self.recorded, "s")
        median, p90 = format_cell(self.median, "s"), format_cell(self.p90, "s")
        return (
            f"{self.run} beside the record: jobs wait {waits} on average, {before} recorded; half of them "
            f"start within {median} of the recorded time, nine of ten within {p90}. Smaller differences "
            "between policies say little."
        )


Sentence = (
    PartOfTheLoad
    | Reproduces
    | Alike
    | FreeStops
    | Best
    | Needs
    | Without
    | Loses
    | Costs
    | Draws
    | Unjudged
    | Unheld
    | Idle
    | WaitedMost
    | WaitingCost
    | TooFewWanted
    | BestChange
)


def change(figure: float, before: float) -> str:
    """How ``figure`` differs from what it was ``before``, in words."""
    if same(figure, before):
        return "no more"
    percent = 100.0 * abs(1.0 - figure / before)
    share = format_cell(round(percent) if percent >= 10.0 else percent, "%")
    return f"{share} {'less' if figure < before else 'more'}"


def _days(days: float) -> str:
    return f"{days:,.0f}" if days >= 100.0 else f"{days:.3g}"


def under(baseline: str) -> str:
    """As in ``under fifo``, or ``in the trace``."""
    return "in the trace" if baseline == RECORDED else f"under {baseline}"
