"""A comparison in words: the best policy by each metric, its needs, its costs, and the jobs that lose by it.

Every sentence is a small record of the figures that it speaks of, so that a test can hold it against the
runs. Figures of several seeds are their means. The trace's own record stands
beside the policies as a run called `RECORDED`. Runs that finished fewer jobs than others are not judged:
their completion times are those of quick jobs.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volvelle.core.policy import policies
from volvelle.metrics import labels
from volvelle.metrics.baseline import against
from volvelle.metrics.catalogue import METRICS, read_objective
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import RECORDED, FloatColumn, Outcomes
from volvelle.metrics.summary import figure
from volvelle.report.grid import Grid, GridRun
from volvelle.report.table import finished_jobs, format_cell

CONTESTS = {
    "jct:mean": "mean completion time",
    "jct:p99": "99th percentile of completion times",
    "responsiveness:p50": "median wait",
    "unfair:mean": "share of jobs served later than fair",
    "deadline_miss:mean": "missed deadlines",
    "makespan": "makespan",
}
"""The metrics judged, and their names in sentences. Lower is better in each."""

_SAME = 0.005  # figures that differ by less than this share are as good as each other
_LOSES = 0.05  # a group of jobs loses if its mean completion time grows by more
_FEW = 10  # smaller groups are not named
_RARELY = 0.05  # preemptions a job, below which a run is said not to preempt
_DEFAULT_BASELINE = "fifo"

_GROUPINGS: tuple[tuple[str, Callable[[Outcomes], Labels]], ...] = (
    ("jobs of {} GPUs", labels.widths),
    ("user {}", labels.users),
    ("pool {}", labels.pools),
)


class Win(NamedTuple):
    """The least figure of a contest, in its metric's unit, and what the baseline has."""

    measure: str
    figure: float
    of_baseline: float

    def against(self, baseline: str) -> str:
        """As in ``mean completion time (2h 51m, 79 % less than under fifo)``."""
        unit = METRICS[self.measure.partition(":")[0]].unit
        less = change(self.figure, self.of_baseline)
        said = f"{less} than {_under(baseline)}" if baseline else less
        return f"{CONTESTS[self.measure]} ({format_cell(self.figure, unit)}, {said})"


class Best(NamedTuple):
    """``runs`` are the best in each of ``wins``."""

    runs: tuple[str, ...]
    baseline: str
    wins: tuple[Win, ...]

    def __str__(self) -> str:
        if self.baseline in self.runs:
            names = _listed([CONTESTS[win.measure] for win in self.wins])
            name = "what the trace recorded" if self.baseline == RECORDED else self.baseline
            return f"Nothing beats {name} for the {names}."
        verb = "is" if len(self.runs) == 1 else "are"
        first, *others = self.wins
        named = _listed([first.against(self.baseline), *(win.against("") for win in others)])
        return f"{_listed(self.runs)} {verb} best for the {named}."


class Needs(NamedTuple):
    """The needs of ``run``: known durations, how often it takes a job's GPUs away, elastic jobs.

    resized: share of the jobs that held another number of GPUs than they ask for, 0 to 1.
    """

    run: str
    durations: bool
    preemptions: float
    resized: float

    def __str__(self) -> str:
        knows = "has to know how long jobs take" if self.durations else "needs no known durations"
        often = f"preempts {format_cell(self.preemptions)} times a job on average"
        said = f"{self.run} {knows} and {often if self.preemptions else 'never preempts a job'}"
        if not self.resized:
            return f"{said}."
        share = format_cell(100.0 * self.resized, "%")
        return (
            f"{said}; {share} of the jobs are elastic: they hold more or fewer GPUs than asked for."
        )


class Without(NamedTuple):
    """``run`` has the best mean completion time of those that do without what the best one needs."""

    run: str
    durations: bool
    figure: float
    baseline: str
    of_baseline: float

    def __str__(self) -> str:
        lacking = "knowing how long jobs take" if self.durations else "preempting"
        less = change(self.figure, self.of_baseline)
        return (
            f"Without {lacking}, {self.run} is best for the mean completion time: "
            f"{format_cell(self.figure, 's')}, {less} than {_under(self.baseline)}."
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
            return f"No job ends later under {self.run} than {_under(self.baseline)}."
        share = format_cell(100.0 * self.share, "%")
        said = f"{share} of the jobs end later under {self.run} than {_under(self.baseline)}"
        if not self.worst:
            return f"{said}, but no width, user or pool as a whole."
        named = [f"{name} (+{format_cell(100.0 * more, '%')})" for name, more in self.worst]
        return f"{said}; as a whole {_listed(named)} {'loses' if len(named) == 1 else 'lose'}."


class Costs(NamedTuple):
    """GPU-hours that jobs hold under ``run`` and under the baseline, and the ``price`` of one."""

    run: str
    gpu_hours: float
    baseline: str
    of_baseline: float
    price: float | None

    def __str__(self) -> str:
        held = format_cell(round(self.gpu_hours))
        if _same(self.gpu_hours, self.of_baseline):
            said = (
                f"Jobs hold as many GPU-hours under {self.run} as {_under(self.baseline)}: {held}"
            )
        else:
            more = change(self.gpu_hours, self.of_baseline)
            said = (
                f"Jobs hold {held} GPU-hours under {self.run}, {more} than {_under(self.baseline)}"
            )
        if self.price is None:
            return f"{said}."
        money = self.price * self.gpu_hours
        saved = self.price * (self.of_baseline - self.gpu_hours)
        which = "less" if saved >= 0.0 else "more"
        return f"{said}; at {self.price:g} each that is {money:,.0f}, {abs(saved):,.0f} {which}."


class Unjudged(NamedTuple):
    """Runs that left jobs unfinished which others finished."""

    runs: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{_listed(self.runs)} left jobs unfinished that others finished, and cannot be judged."
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


Sentence = Best | Needs | Without | Loses | Costs | Unjudged | Unheld


@dataclass(frozen=True)
class _Composition:
    """The runs that differ in their seed alone."""

    label: str
    runs: tuple[GridRun, ...]

    def figure(self, measure: str) -> float:
        objective = read_objective(measure)
        figures = [figure(run.outcomes, objective) for run in self.runs]
        return statistics.fmean(figures)

    @property
    def finished(self) -> float:
        return statistics.fmean(finished_jobs(run.outcomes) for run in self.runs)

    @property
    def is_recorded(self) -> bool:
        return self.runs[0].parts.get("policy", "") == RECORDED

    def beside(self, seed: int) -> Outcomes:
        """The run of this seed; what was recorded is the same under all."""
        found = (run.outcomes for run in self.runs if run.seed == seed or self.is_recorded)
        return next(found)

    @property
    def gpu_hours(self) -> float:
        return statistics.fmean(float(run.outcomes.gpu_seconds.sum()) / 3600.0 for run in self.runs)

    @property
    def resized(self) -> float:
        return statistics.fmean(_resized(run.outcomes) for run in self.runs)

    @property
    def needs_durations(self) -> bool:
        written = self.runs[0].parts.get("policy", "")
        kind = policies.all().get(written.partition(":")[0])
        return kind is None or kind.needs_durations

    @property
    def preempts(self) -> bool:
        return self.figure("preemptions:mean") > _RARELY


def verdict(
    grid: Grid, reference: str | None = None, price: float | None = None
) -> tuple[Sentence, ...]:
    """Sentences on the runs of ``grid``; none where these are over several rates, or only one.

    Runs are judged against the policy ``reference``; without one against the trace's own record, where it is
    a run of the grid, against fifo, or the first.
    ``price``: of a GPU-hour.
    """
    if len(grid.rates) > 1 or len(grid.labels) < 2:
        return ()
    all_of_them = _compositions(grid)
    most = max(one.finished for one in all_of_them if not one.is_recorded)
    if not most:
        return ()
    judged = [one for one in all_of_them if one.finished == most]
    baseline = _baseline(judged, reference)
    said = [*_judged(judged, baseline, price)] if len(judged) > 1 else []
    if left := tuple(one.label for one in all_of_them if one.finished < most):
        said.append(Unjudged(left))
    said += [Unheld(round(one.finished - most)) for one in all_of_them if one.finished > most]
    return tuple(said)


def baseline_of(grid: Grid, reference: str | None = None) -> str:
    """The label of what the runs are judged against, whether or not it can be judged."""
    return _baseline(_compositions(grid), reference).label


def _compositions(grid: Grid) -> list[_Composition]:
    return [
        _Composition(label, tuple(run for run in grid.runs if run.label == label))
        for label in grid.labels
    ]


def change(figure: float, before: float) -> str:
    """How ``figure`` differs from what it was ``before``, in words."""
    if _same(figure, before):
        return "no more"
    percent = 100.0 * abs(1.0 - figure / before)
    share = format_cell(round(percent) if percent >= 10.0 else percent, "%")
    return f"{share} {'less' if figure < before else 'more'}"


def _baseline(judged: Sequence[_Composition], reference: str | None) -> _Composition:
    recorded = next((one for one in judged if one.is_recorded), None)
    if reference is None and recorded is not None:
        return recorded
    wanted = policies.make(reference or _DEFAULT_BASELINE).label
    for one in judged:
        written = one.runs[0].parts.get("policy", "")
        known = written.partition(":")[0] in policies.all()
        if known and policies.make(written).label == wanted:
            return one
    return judged[0]


def _judged(
    judged: Sequence[_Composition], baseline: _Composition, price: float | None
) -> Iterator[Sentence]:
    wins: dict[tuple[str, ...], list[Win]] = {}
    for measure in CONTESTS:
        figures = {one.label: one.figure(measure) for one in judged}
        if any(map(math.isnan, figures.values())):
            continue
        least = min(figures.values())
        best = tuple(label for label, figure in figures.items() if _same(figure, least))
        if len(best) < len(judged):
            wins.setdefault(best, []).append(Win(measure, least, figures[baseline.label]))
    for runs, those in wins.items():
        yield Best(runs, baseline.label, tuple(those))
    quickest = min(judged, key=lambda one: one.figure("jct:mean"))
    if _same(quickest.figure("jct:mean"), baseline.figure("jct:mean")):
        return
    preempts = quickest.figure("preemptions:mean")
    needs = Needs(quickest.label, quickest.needs_durations, preempts, quickest.resized)
    yield needs
    if needs.durations:
        yield from _without([one for one in judged if not one.needs_durations], baseline, True)
    if quickest.preempts:
        yield from _without([one for one in judged if not one.preempts], baseline, False)
    yield _loses(quickest, baseline)
    hours = quickest.gpu_hours, baseline.gpu_hours
    if price is not None or not _same(*hours):
        yield Costs(quickest.label, hours[0], baseline.label, hours[1], price)


def _resized(outcomes: Outcomes) -> float:
    """Share of the jobs that held another number of GPUs than they ask for."""
    held, of = outcomes.segments.gpus, outcomes.segments.job
    other = of[held != outcomes.gpus[of]]
    return len(np.unique(other)) / len(outcomes) if len(outcomes) else 0.0


def _without(
    those: Sequence[_Composition], baseline: _Composition, durations: bool
) -> Iterator[Without]:
    if not those:
        return
    best = min(those, key=lambda one: one.figure("jct:mean"))
    figure, before = best.figure("jct:mean"), baseline.figure("jct:mean")
    if figure < before and not _same(figure, before):
        yield Without(best.label, durations, figure, baseline.label, before)


def _loses(run: _Composition, baseline: _Composition) -> Loses:
    pairs = [(one.outcomes, against(one.outcomes, baseline.beside(one.seed))) for one in run.runs]
    slowed = sum(compared.slowed for *_, compared in pairs)
    worst = []
    for words, labels_of in _GROUPINGS:
        after: dict[str, list[float]] = {}
        for outcomes, compared in pairs:
            _add_up(after, outcomes, labels_of(outcomes), compared.speed_up)
        worst += [(words.format(name), more) for name, more in _most_harmed(after)]
    worst.sort(key=lambda item: -item[1])
    jobs = sum(compared.compared for *_, compared in pairs)
    return Loses(run.label, baseline.label, slowed / jobs if jobs else 0.0, tuple(worst))


def _add_up(
    totals: dict[str, list[float]], outcomes: Outcomes, labelled: Labels, speed_up: FloatColumn
) -> None:
    """Add the jobs, and their completion times after and before, to those of each group."""
    known = np.isfinite(speed_up)
    after = outcomes.jct[known]
    before = after * speed_up[known]
    of, groups = labelled.of[known], len(labelled.names)
    columns = [np.bincount(of, weights, groups) for weights in (np.ones(len(of)), after, before)]
    for name, *row in zip(labelled.names, *(column.tolist() for column in columns), strict=True):
        if name:
            known_so_far = totals.setdefault(name, [0.0, 0.0, 0.0])
            totals[name] = [a + b for a, b in zip(known_so_far, row, strict=True)]


def _most_harmed(totals: Mapping[str, Sequence[float]]) -> list[tuple[str, float]]:
    """The group that loses most, if there are several and it loses at all."""
    growth = {
        name: after / before - 1.0
        for name, (jobs, after, before) in totals.items()
        if jobs >= _FEW and before > 0.0
    }
    if len(totals) < 2 or not growth:
        return []
    name = max(growth, key=lambda each: growth[each])
    return [(name, growth[name])] if growth[name] > _LOSES else []


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= _SAME * max(abs(a), abs(b))


def _under(baseline: str) -> str:
    return "in the trace" if baseline == RECORDED else f"under {baseline}"


def _listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
