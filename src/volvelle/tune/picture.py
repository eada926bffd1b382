"""The page and the pictures of a front: the trade-off, what each point is and what it costs, in words."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from volvelle.metrics.catalogue import Objective
from volvelle.model.arrays import FloatColumn
from volvelle.report.charts import Axis, Dots, Drawing, scatter, write_pngs
from volvelle.report.page import Section, figure, note, tiles, write_page
from volvelle.report.table import Cell, Column, Table, format_cell, measure_column, to_html
from volvelle.tune.front import Front, title_of

PAGE = "front.html"

_WIDE = 30.0
"""An axis is logarithmic where its figures differ by more than this factor."""
_FAR = 3.0
"""Configurations are far off beyond the third quartile by more than so many times what lies between the first
and it. They do not stretch an axis: they stand on its edge."""
_MARGIN = 0.05
"""Of what the points span, beside them."""
_SHOWN_QUEUES = 6
_SHOWN_NUMBERS = 8


def write_pictures(
    front: Front, directory: Path, *, facts: dict[str, str], png: bool = False
) -> Path:
    """Write ``front.html`` into ``directory``; the page's path.

    With ``png`` also the chart of each pair of objectives.
    """
    drawings = {
        name: drawing(front, x, y)
        for (x, y), name in zip(_pairs(front), _names(front), strict=True)
    }
    if png:
        write_pngs(drawings, directory)
    pictures = "".join(figure(drawn, name) for name, drawn in drawings.items())
    hint = note(
        "Point at a square: what it is, and what it costs. To use one: "
        f"--policy {front.policy}:front.json#{next(iter(front.picks), '0')}, or its number."
    )
    sections = [
        Section("trade-off", "The trade-off", pictures + hint),
        Section("picks", "Named points", _picks(front)),
        Section("points", "Every point", to_html(table(front)) + note(_about(front))),
    ]
    return write_page(
        directory / PAGE,
        title=f"Trade-offs of {front.policy}",
        facts=facts,
        lead=tiles({name: front.figure(front.points[at], 0) for name, at in front.named.items()}),
        sections=sections,
    )


def drawing(front: Front, x: int, y: int) -> Drawing:
    """Objective ``y`` over objective ``x``: all that was tried, the front, and how it does in the test."""
    points = front.points
    numbers = range(len(points))
    tested = [number for number in numbers if points[number].test]
    names = [", ".join(front.names_of(number)) for number in numbers]
    kinds = [
        _dots("tried", [one.mean for one in front.evaluated], x, y, "axis", size=4.0),
        _dots(
            "front, on the later part",
            [points[number].tested for number in tested],
            x,
            y,
            "series-2",
            words=[_words(front, number, tested=True) for number in tested],
            size=6.0,
        ),
        _dots(
            "front",
            [point.mean for point in points],
            x,
            y,
            "series-1",
            words=[_words(front, number) for number in numbers],
            labels=names,
            joined=len(front.objectives) == 2,
        ),
    ]
    if front.present is not None:
        words, labels = [front.present.parameters], ["used now"]
        means = [front.present.mean]
        kinds.append(_dots("used now", means, x, y, "series-3", words=words, labels=labels))
    first, second = front.objectives[x], front.objectives[y]
    across = _axis(first, [kind.x for kind in kinds])
    upright = _axis(second, [kind.y for kind in kinds])
    said = "every square is a configuration, simulated on the same samples"
    if across.log or upright.log:
        said += "; 0 is drawn at the edge of a log scale"
    inside = [replace(k, x=_within(k.x, across), y=_within(k.y, upright)) for k in kinds]
    if far := int(((inside[0].x < kinds[0].x) | (inside[0].y < kinds[0].y)).sum()):
        said += f"; {far} beyond an axis {'is' if far == 1 else 'are'} drawn at its end"
    return scatter(
        f"{title_of(second)} against {title_of(first)}", inside, across, upright, subtitle=said
    )


def _within(column: FloatColumn, axis: Axis) -> FloatColumn:
    return column if axis.high is None else np.minimum(column, axis.high)


def table(front: Front) -> Table:
    """One row for each point: its number, name, parameters, and figures by which part of the history."""
    heads = [Column("point", "point"), Column("name", "name")]
    for objective in front.objectives:
        column = measure_column(objective)
        heads += [column, Column(f"{objective} later", f"{column.title}, later", column.unit)]
    heads += [Column("words", "what it is")]
    rows: list[tuple[Cell, ...]] = []
    for number, point in enumerate(front.points):
        tested = point.tested or (None,) * len(front.objectives)
        figures = [f for pair in zip(point.mean, tested, strict=True) for f in pair]
        rows.append(
            (str(number), ", ".join(front.names_of(number)), *figures, what_it_is(front, number))
        )
    return Table("The front", tuple(heads), tuple(rows)).without_empty_columns()


def what_it_is(front: Front, number: int) -> str:
    """The configuration of a point, shortly."""
    point = front.points[number]
    queues = (point.facts or {}).get("queues")
    numbers = [f"{name} {value:.3g}" for name, value in (point.searched or {}).items()]
    searched = ", ".join(numbers[:_SHOWN_NUMBERS]) + " ..." * (len(numbers) > _SHOWN_NUMBERS)
    if not queues:
        return searched
    shown = [f"{100 * queue['weight']:.3g} %" for queue in queues[:_SHOWN_QUEUES]]
    more = " ..." if len(queues) > _SHOWN_QUEUES else ""
    return f"{len(queues)} queue{'s' * (len(queues) > 1)} ({', '.join(shown)}{more}); {searched}"


def _words(front: Front, number: int, *, tested: bool = False) -> str:
    point = front.points[number]
    means = point.tested if tested else point.mean
    figures = [
        f"{title_of(objective)} {format_cell(mean, objective.metric.unit)}"
        for objective, mean in zip(front.objectives, means, strict=True)
    ]
    part = " on the later part of the history" if tested else ""
    name = f"{number}: {', '.join(front.names_of(number)) or 'point'}"
    return "\n".join(
        [f"{name}{part}", what_it_is(front, number), "; ".join(figures), front.in_words(number)]
    )


def _picks(front: Front) -> str:
    heads = (Column("name", "name"), Column("words", "in words"), Column("is", "what it is"))
    rows: list[tuple[Cell, ...]] = [
        (name, front.in_words(at), what_it_is(front, at)) for name, at in front.named.items()
    ]
    return to_html(Table("Named points", heads, tuple(rows)))


def _about(front: Front) -> str:
    samples, test = front.search.get("samples"), front.search.get("test")
    part = "the earlier part of the history" if test else "the history"
    tried = (
        f"Means over {samples} sample{'s' * (samples > 1)} of {part}"
        if samples
        else f"Figures on {part}"
    )
    text = f"{tried}, by which the front was chosen from {len(front.evaluated)} configurations."
    if test:
        same = "samples of the later part" if samples else "the later part"
        text += f" 'Later' is the same on {same}, which chose nothing."
    return text if front.complete else f"{text} The search was stopped before its end."


def _dots(
    name: str,
    means: Sequence[tuple[float, ...]],
    x: int,
    y: int,
    color: str,
    *,
    words: list[str] | None = None,
    labels: list[str] | None = None,
    size: float = 9.0,
    joined: bool = False,
) -> Dots:
    columns = np.array([[mean[x], mean[y]] for mean in means]).reshape(-1, 2)
    kept = np.flatnonzero(np.isfinite(columns).all(axis=1)).tolist()
    return Dots(
        name,
        columns[kept, 0],
        columns[kept, 1],
        color,
        [words[i] for i in kept] if words else (),
        [labels[i] for i in kept] if labels else (),
        size,
        joined,
    )


def _axis(objective: Objective, columns: list[FloatColumn]) -> Axis:
    """The axis of ``columns``: of the first, all that was tried, what is not far off; of the others all."""
    values, kept = np.concatenate(columns), np.concatenate(columns[1:])
    log, low, high = _is_wide(values), None, None
    if len(values) and not log:
        first, third = np.quantile(values, [0.25, 0.75])
        fence = third + _FAR * (third - first) if third > first else np.inf
        needed = float(kept.max()) if len(kept) else -np.inf
        least = float(values.min())
        log = least > 0.0 and needed > max(fence, _FAR * third)
    if len(values) and not log:
        most = float(values[values <= max(fence, needed)].max())
        margin = _MARGIN * (most - least) or 1.0
        low = least - margin if least < 0.0 else max(0.0, least - margin)
        high = most + margin
    column = measure_column(objective)
    seconds = objective.metric.unit == "s"
    unit = "" if seconds or objective.metric.unit == "1" else objective.metric.unit
    return Axis(column.title, "duration" if seconds else "number", unit, log, low, high)


def _is_wide(values: FloatColumn) -> bool:
    """Whether the largest is by far more than nearly the least that is positive."""
    above = values[values > 0]
    return bool(len(above)) and float(above.max()) > _WIDE * float(np.quantile(above, 0.05))


def _pairs(front: Front) -> list[tuple[int, int]]:
    return list(combinations(range(len(front.objectives)), 2))


def _names(front: Front) -> list[str]:
    pairs = _pairs(front)
    return ["front"] if len(pairs) == 1 else [f"front-{x + 1}-{y + 1}" for x, y in pairs]
