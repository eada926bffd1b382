"""Runs against a reference on the same jobs: who gained, who was harmed, and in which pool.

The metrics are those of anticipatory scheduling (SIA, section 6.1, figure 13, tables 12 and 17).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from volvelle.core.policy import policies
from volvelle.metrics.baseline import AgainstBaseline, against, by_pool
from volvelle.model.problems import Problem
from volvelle.report.charts import Axis, Dots, Drawing, scatter
from volvelle.report.grid import Grid, GridRun
from volvelle.report.table import Cell, Column, Table

_COLUMNS = (
    Column(
        "speed_up", "speed-up", "1", "higher", "Geometric mean of JCT in the reference over JCT."
    ),
    Column("speed_up:p50", "speed-up p50", "1", "higher"),
    Column("speed_up:p95", "speed-up p95", "1", "higher"),
    Column("slowed", "harmed", "jobs", "lower", "Jobs that ended later than in the reference."),
    Column("slowed_share", "harmed share", "%", "lower"),
    Column("harm:total", "harm, total", "s", "lower", "Seconds added to all of them together."),
    Column("harm:max", "harm, worst", "s", "lower", "Seconds added to the one that lost most."),
)


class Judged(NamedTuple):
    """A run against its reference, as a whole and by pool."""

    name: str
    compared: AgainstBaseline
    pools: dict[str, AgainstBaseline]


def judge(grid: Grid, reference: str) -> list[Judged]:
    """Every run against the one of policy ``reference`` that differs from it in nothing else.

    Raises `Problem` where there is none.
    """
    wanted = policies.make(reference).label
    references = {
        _setting(run): run.outcomes for run in grid.runs if _policy(run.parts["policy"]) == wanted
    }
    found = []
    for run in grid.runs:
        if _policy(run.parts["policy"]) == wanted:
            continue
        if _setting(run) not in references:
            raise Problem(
                f"run {run.name!r} has no reference: no run of policy {wanted!r} is like it otherwise",
                mend=f"simulate it with --policy {wanted} too",
                usage=True,
            )
        compared = against(run.outcomes, references[_setting(run)])
        found.append(Judged(run.name, compared, by_pool(run.outcomes, compared)))
    return found


def _policy(written: str) -> str:
    return (
        policies.make(written).label if written.partition(":")[0] in policies.names() else written
    )


def _setting(run: GridRun) -> tuple[object, ...]:
    others = sorted((kind, part) for kind, part in run.parts.items() if kind != "policy")
    return (*others, run.rate, run.seed)


def tables(judged: Sequence[Judged], reference: str) -> list[Table]:
    """One row for each run, and one for each of its pools where there are several."""
    rows = tuple((one.name, *_figures(one.compared)) for one in judged)
    made = [Table(f"Against {reference}", (Column("run", "policy"), *_COLUMNS), rows)]
    by_pools = tuple(
        (one.name, pool or "(none)", *_figures(compared))
        for one in judged
        for pool, compared in one.pools.items()
    )
    if len(by_pools) > len(judged):
        plain = (replace(column, better="neither") for column in _COLUMNS)  # pools are no contest
        heads = (Column("run", "policy"), Column("pool", "pool"), *plain)
        made.append(Table(f"Against {reference}, by pool", heads, by_pools))
    return made


def _figures(compared: AgainstBaseline) -> tuple[Cell, ...]:
    return (
        compared.mean_speed_up,
        compared.speed_up_at(50.0),
        compared.speed_up_at(95.0),
        compared.slowed,
        100.0 * compared.slowed_fraction,
        compared.total_slowdown_seconds,
        compared.worst_slowdown_seconds,
    )


def picture(judged: Sequence[Judged], reference: str) -> Drawing:
    """Speed-up against harm: a square for each run, smaller ones for its pools."""
    runs = [(one.name, one.compared) for one in judged]
    parts = [
        (f"{one.name}, pool {pool or '(none)'}", compared)
        for one in judged
        for pool, compared in one.pools.items()
        if compared.compared and len(one.pools) > 1
    ]
    dots = [
        _dots("pools of it", parts, "series-2", size=6.0, labelled=False),
        _dots("all jobs", runs, "series-1", size=9.0, labelled=True),
    ]
    harms = np.concatenate([kind.y for kind in dots])
    log = bool((harms > 0.0).any())
    said = f"jobs against the same jobs under {reference}"
    return scatter(
        "Speed-up against harm",
        [kind for kind in dots if len(kind.x)],
        Axis("speed-up, geometric mean"),
        Axis("harm, all jobs together", "duration", log=log, low=None if log else 0.0),
        subtitle=f"{said}; 0 is drawn at the edge of the log scale" if log else said,
    )


def _dots(
    name: str,
    points: Sequence[tuple[str, AgainstBaseline]],
    color: str,
    *,
    size: float,
    labelled: bool,
) -> Dots:
    names = [words for words, _ in points]
    return Dots(
        name,
        np.array([compared.mean_speed_up for _, compared in points]),
        np.array([compared.total_slowdown_seconds for _, compared in points]),
        color,
        words=names,
        labels=names if labelled else (),
        size=size,
    )
