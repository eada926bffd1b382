"""A comparison in words: the best policy by each metric, its costs, and the jobs that lose by it.

Every sentence is a small record of the figures that it speaks of, so that a test can hold it against the
runs. Figures of several seeds are their means. The trace's own record stands
beside the policies as a run called `RECORDED`. Runs that finished fewer jobs than others are not judged:
their completion times are those of quick jobs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from volvelle.metrics import labels
from volvelle.metrics.baseline import against
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn
from volvelle.report.cautions import FreeStops, Unheld, Unjudged
from volvelle.report.compositions import Composition, baseline, judge
from volvelle.report.grid import Grid
from volvelle.report.reproduction import reproduces
from volvelle.report.sentences import (
    CONTESTS,
    Alike,
    Best,
    Costs,
    Draws,
    Loses,
    Sentence,
    Win,
    Without,
)
from volvelle.report.table import same

_LOSES = 0.05  # a group of jobs loses if its mean completion time grows by more
_FEW = 10  # smaller groups are not named

_GROUPINGS: tuple[tuple[str, Callable[[Outcomes], Labels]], ...] = (
    ("jobs of {} GPUs", labels.widths),
    ("user {}", labels.users),
    ("pool {}", labels.pools),
)


def verdict(
    grid: Grid, reference: str | None = None, price: float | None = None
) -> tuple[Sentence, ...]:
    """Sentences on the runs of ``grid``; none where these are over several rates, or only one.

    Runs are judged against the policy ``reference``; without one against the scheduler that the site has or
    the trace's own record, where they are runs of the grid, against fifo, or the first.
    ``price``: of a GPU-hour.
    """
    if len(grid.rates) > 1 or len(grid.labels) < 2:
        return ()
    all_of_them, judged, _ = judge(grid)
    if not judged:
        return ()
    most = judged[0].finished
    said: list[Sentence] = [one for one in (reproduces(grid),) if one is not None]
    said += [Alike(one.alike) for one in all_of_them if len(one.alike) > 1]
    if len(judged) > 1:
        said += _judged(judged, baseline(judged, reference), price)
    if left := tuple(one.label for one in all_of_them if one.finished < most):
        said.append(Unjudged(left))
    said += [Unheld(round(one.finished - most)) for one in all_of_them if one.finished > most]
    return tuple(said)


def _judged(
    judged: Sequence[Composition], baseline: Composition, price: float | None
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
    free = tuple(one.label for one in judged if one.preempts and one.stops_for_free)
    if any(label in runs for runs in wins for label in free):
        yield FreeStops(free)
    told: dict[tuple[str, ...], list[Win]] = {}
    for runs, those in wins.items():
        told.setdefault((baseline.label,) if baseline.label in runs else runs, []).extend(those)
    for runs, those in told.items():
        yield Best(runs, baseline.label, tuple(those))
    quickest = min(judged, key=lambda one: one.figure("jct:mean"))
    if same(quickest.figure("jct:mean"), baseline.figure("jct:mean")):
        return
    if quickest.preempts:
        yield from _without_preempting(judged, baseline)
    yield _loses(quickest, baseline)
    hours = quickest.gpu_hours, baseline.gpu_hours
    if price is not None or not same(*hours):
        yield Costs(quickest.label, hours[0], baseline.label, hours[1], price)
    drawn = quickest.figure("energy"), baseline.figure("energy")
    if not any(map(math.isnan, drawn)):
        carbon = quickest.figure("carbon"), baseline.figure("carbon")
        known = None if any(map(math.isnan, carbon)) else carbon
        yield Draws(quickest.label, drawn[0], baseline.label, drawn[1], known)


def _without_preempting(judged: Sequence[Composition], baseline: Composition) -> Iterator[Without]:
    those = [one for one in judged if not one.preempts]
    if not those:
        return
    best = min(those, key=lambda one: one.figure("jct:mean"))
    figure, before = best.figure("jct:mean"), baseline.figure("jct:mean")
    if figure < before and not same(figure, before):
        yield Without(best.label, figure, baseline.label, before, best.durations)


def _loses(run: Composition, baseline: Composition) -> Loses:
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
