"""How well the scheduler that a site has, simulated, reproduces what the trace recorded.

Only then are differences between it and other policies worth something. A job's wait is its completion time
less the time that it takes on its GPUs: runs that were stopped, and their loss, are part of it.
"""

from typing import NamedTuple

import numpy as np

from volvelle.metrics import labels
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn
from volvelle.report.compositions import Composition, compositions
from volvelle.report.grid import Grid
from volvelle.report.sentences import Reproduces
from volvelle.report.table import Cell, Column, Table

_MOST_GROUPS = 12
"""Groups of a table, those of most jobs."""

_COLUMNS = (
    Column("jobs", "jobs"),
    Column("wait_recorded", "wait recorded", "s", description="The mean."),
    Column("wait", "wait simulated", "s"),
    Column(
        "start_error:p50",
        "start off, median",
        "s",
        description="By how much jobs start earlier or later.",
    ),
    Column("start_error:p90", "start off, p90", "s"),
)


class _Waits(NamedTuple):
    """Waits of the jobs that finished in both runs, in seconds, and whose they are."""

    recorded: FloatColumn
    simulated: FloatColumn
    users: Labels
    queues: Labels


def reproduces(grid: Grid) -> Reproduces | None:
    """The sentence on the incumbent's run of a grid beside the record; None where one of them lacks."""
    found = _runs(grid)
    if found is None:
        return None
    incumbent, waits = found
    off = np.abs(waits.simulated - waits.recorded)
    return Reproduces(
        incumbent.label,
        float(waits.simulated.mean()),
        float(waits.recorded.mean()),
        float(np.percentile(off, 50.0)),
        float(np.percentile(off, 90.0)),
    )


def tables(grid: Grid) -> list[Table]:
    """Waits by queue and by user, recorded and simulated; none where one of the runs lacks."""
    found = _runs(grid)
    if found is None:
        return []
    incumbent, waits = found
    title = f"{incumbent.label} beside the record, by"
    return [
        _table(f"{title} {kind}", kind, of, waits)
        for kind, of in (("queue", waits.queues), ("user", waits.users))
        if len(of.names) > 1
    ]


def _runs(grid: Grid) -> tuple[Composition, _Waits] | None:
    found = compositions(grid)
    incumbent = next((one for one in found if one.is_incumbent), None)
    record = next((one for one in found if one.is_recorded), None)
    if incumbent is None or record is None or len(grid.rates) > 1:
        return None
    simulated, recorded = incumbent.runs[0].outcomes, record.runs[0].outcomes
    rows = np.flatnonzero(np.isfinite(simulated.finish) & np.isfinite(recorded.finish))
    if not len(rows):
        return None
    queues = Labels.read(["|".join(spec.queues) for spec in recorded.specs])
    return incumbent, _Waits(
        _wait(recorded)[rows],
        _wait(simulated)[rows],
        labels.users(recorded).at(rows),
        queues.at(rows),
    )


def _wait(outcomes: Outcomes) -> FloatColumn:
    waits: FloatColumn = np.maximum(outcomes.jct - outcomes.exclusive_seconds, 0.0)
    return waits


def _table(title: str, kind: str, of: Labels, waits: _Waits) -> Table:
    off = np.abs(waits.simulated - waits.recorded)
    rows: list[tuple[Cell, ...]] = []
    for number, name in enumerate(of.names):
        mine = of.of == number
        middle, most = np.percentile(off[mine], (50.0, 90.0)).tolist()
        means = float(waits.recorded[mine].mean()), float(waits.simulated[mine].mean())
        rows.append((name or "(none)", int(mine.sum()), *means, middle, most))
    rows.sort(key=lambda row: -int(str(row[1])))
    left = len(rows) - _MOST_GROUPS
    note = f"{left} more with fewer jobs." if left > 0 else ""
    return Table(title, (Column(kind, kind), *_COLUMNS), tuple(rows[:_MOST_GROUPS]), note)
