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

import numpy as np

from volvelle.core.policy import policies
from volvelle.metrics import labels, series
from volvelle.metrics.baseline import against
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import RECORDED, FloatColumn, Outcomes, Steps
from volvelle.metrics.summary import figure
from volvelle.report.grid import Grid, GridRun
from volvelle.report.sentences import (
    CONTESTS,
    Alike,
    Best,
    Costs,
    FreeStops,
    Loses,
    Needs,
    PartOfTheLoad,
    Sentence,
    Unheld,
    Unjudged,
    Win,
    Without,
    same,
)
from volvelle.report.table import finished_jobs

_LOSES = 0.05  # a group of jobs loses if its mean completion time grows by more
_FEW = 10  # smaller groups are not named
_RARELY = 0.05  # preemptions a job, below which a run is said not to preempt
_DEFAULT_BASELINE = "fifo"
_LONG = 300.0  # seconds; records with shorter mean waits are left as they are
_MOSTLY = 0.5  # of the time in which jobs waited

_GROUPINGS: tuple[tuple[str, Callable[[Outcomes], Labels]], ...] = (
    ("jobs of {} GPUs", labels.widths),
    ("user {}", labels.users),
    ("pool {}", labels.pools),
)


@dataclass(frozen=True)
class _Composition:
    """The runs that differ in their seed alone. ``alike``: its own label, and others with the same runs."""

    label: str
    runs: tuple[GridRun, ...]
    alike: tuple[str, ...]
    written: frozenset[str]
    """The policies of all of them, as they are written."""

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

    @property
    def stops_for_free(self) -> bool:
        run = self.runs[0]
        return not any(map(run.overheads.resize_seconds, run.outcomes.specs))


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
    said: list[Sentence] = []
    for one in judged:
        if one.is_recorded and (part := _part_of_the_load(one.runs[0].outcomes)):
            said.append(part)
            judged.remove(one)
            break
    said += [Alike(one.alike) for one in all_of_them if len(one.alike) > 1]
    if len(judged) > 1:
        said += _judged(judged, _baseline(judged, reference), price)
    if left := tuple(one.label for one in all_of_them if one.finished < most):
        said.append(Unjudged(left))
    said += [Unheld(round(one.finished - most)) for one in all_of_them if one.finished > most]
    return tuple(said)


def baseline_of(grid: Grid, reference: str | None = None) -> str:
    """The name of the row that the others are held against, whether or not it can be judged."""
    judged = [
        one
        for one in _compositions(grid)
        if not (one.is_recorded and _part_of_the_load(one.runs[0].outcomes))
    ]
    return ", ".join(_baseline(judged, reference).alike)


def _compositions(grid: Grid) -> list[_Composition]:
    written = {run.label: run.parts.get("policy", "") for run in grid.runs}
    return [
        _Composition(
            group[0],
            tuple(run for run in grid.runs if run.label == group[0]),
            group,
            frozenset(written[label] for label in group),
        )
        for group in grid.alike
    ]


def _part_of_the_load(recorded: Outcomes) -> PartOfTheLoad | None:
    """What says that a record leaves out load: jobs waited for long, mostly beside idle GPUs."""
    span = series.start_time(recorded), recorded.end_time
    queue = series.queue_length(recorded)
    waited = series.integral(Steps(queue.times, np.minimum(queue.values, 1.0)), *span)
    beside_idle = series.integral(series.waits_beside_idle(recorded), *span)
    _, starts, ends = series.waits(recorded)
    if (ends - starts).sum() <= _LONG * len(recorded) or beside_idle <= _MOSTLY * waited:
        return None
    capacity, held = recorded.capacity.values.max(), series.busy_gpus(recorded).values.max()
    return PartOfTheLoad(waited, beside_idle, float(capacity), float(held))


def _baseline(judged: Sequence[_Composition], reference: str | None) -> _Composition:
    recorded = next((one for one in judged if one.is_recorded), None)
    if reference is None and recorded is not None:
        return recorded
    wanted = policies.make(reference or _DEFAULT_BASELINE).label
    for one in judged:
        known = [each for each in one.written if each.partition(":")[0] in policies.all()]
        if any(policies.make(each).label == wanted for each in known):
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
        best = tuple(label for label, figure in figures.items() if same(figure, least))
        if len(best) < len(judged):
            wins.setdefault(best, []).append(Win(measure, least, figures[baseline.label]))
    free = [one for one in judged if one.preempts and one.stops_for_free]
    if first := next((one for one in free if any(one.label in runs for runs in wins)), None):
        yield FreeStops(first.label)
    for runs, those in wins.items():
        yield Best(runs, baseline.label, tuple(those))
    quickest = min(judged, key=lambda one: one.figure("jct:mean"))
    if same(quickest.figure("jct:mean"), baseline.figure("jct:mean")):
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
    if price is not None or not same(*hours):
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
    if figure < before and not same(figure, before):
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
