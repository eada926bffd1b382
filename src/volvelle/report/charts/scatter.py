"""Points over two axes, each with words that are shown when one points at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.report.charts.axes import Axis, fit
from volvelle.report.charts.layout import (
    NARROW,
    WIDTH,
    Box,
    LegendEntry,
    also_narrow,
    frame,
    header,
    left_margin,
)
from volvelle.report.charts.marks import (
    Anchor,
    Drawing,
    Line,
    Mark,
    Panel,
    Rect,
    Text,
    clip_text,
    text_width,
)

_LABEL_SIZE = 12.0
_LABEL_LINE = 14.0
_LINES = 12
"""How far above and below its place a label may move away from what is drawn."""
_FAR = 2.0
"""Lines from a point beyond which one leads to its label."""
_STEPS = 60
"""In how many steps the line between two points is followed, to keep labels off it."""


@dataclass(frozen=True)
class Dots:
    """Points of one kind, with words for each; ``labels`` stand beside them, empty for none."""

    name: str
    x: FloatColumn
    y: FloatColumn
    color: str
    words: Sequence[str] = ()
    labels: Sequence[str] = ()
    size: float = 9.0
    joined: bool = False


@also_narrow
def scatter(
    title: str,
    dots: Sequence[Dots],
    x: Axis,
    y: Axis,
    *,
    subtitle: str = "",
    description: str = "",
    width: float = WIDTH,
    height: float = 420.0,
) -> Drawing:
    """Dots are painted in order; those that are ``joined`` have a line through them."""
    across = fit(x, [kind.x for kind in dots], wanted=8 if width > NARROW else 4)
    upright = fit(y, [kind.y for kind in dots], wanted=8)
    legend = [LegendEntry(kind.name, kind.color, filled=True) for kind in dots if len(kind.x)]
    marks, top = header(title, subtitle, legend, width)
    margin = left_margin([upright])
    box = Box(margin + 4, top + 30, width - margin - 24, height)
    marks += frame(box, across, upright)
    inside: list[Mark] = []
    named: list[tuple[str, float, float, float]] = []
    drawn: list[FloatColumn] = []
    for kind in dots:
        places = np.column_stack(
            [across.place(kind.x, box.x, box.right), upright.place(kind.y, box.bottom, box.y)]
        )
        drawn.append(places)
        if kind.joined and len(places) > 1:
            inside.append(Line(places, kind.color, 1.5))
            drawn += [np.linspace(a, b, _STEPS) for a, b in pairwise(places)]
        for number, (left, down) in enumerate(places.tolist()):
            half = kind.size / 2
            words = kind.words[number] if kind.words else ""
            inside.append(
                Rect(left - half, down - half, kind.size, kind.size, kind.color, title=words)
            )
            if kind.labels and kind.labels[number]:
                named.append((kind.labels[number], left, down, half))
    texts: list[Text] = []
    for text, left, down, half in named:
        label = _label(text, left, down, half, box, texts, np.concatenate(drawn))
        texts.append(label)
        if abs(label.y - down) > _FAR * _LABEL_LINE:
            edge = label.y + 4 if label.y < down else label.y - _LABEL_SIZE
            inside.append(Line(np.array([[left, down], [left, edge]]), "muted", 0.75))
    panel = Panel(box.x - 6, box.y - 6, box.width + 12, box.height + 12, tuple(inside))
    return Drawing(
        box.right + 20, box.bottom + 48, (*marks, panel, *texts), title, description or subtitle
    )


def _label(
    text: str,
    x: float,
    y: float,
    half: float,
    box: Box,
    others: Sequence[Text],
    drawn: FloatColumn,
) -> Text:
    """The label of a point: where it covers least, over none of ``others`` where there is room, then nearest.

    It stays within the panel: beside the point, above or below it, or further up or down. drawn: places
    (n, 2) of points, and of lines between them.
    """
    text = clip_text(text, _LABEL_SIZE, box.width / 2)
    highest, lowest = box.y + 12, box.bottom - 6
    above, level, below = y - half - 4, y + _LABEL_SIZE / 3, y + half + _LABEL_SIZE
    lines = [above, below, *(above + step * _LABEL_LINE for step in range(-_LINES, _LINES + 1))]
    sides: tuple[tuple[Anchor, float], ...] = (("start", 1.0), ("end", -1.0))
    labels = [
        Text(across, min(max(down, highest), lowest), text, "ink", _LABEL_SIZE, anchor, bold=True)
        for anchor, side in sides
        for across, down in (
            *((x - side * half, line) for line in lines),
            (x + side * (half + 4), level),
        )
    ]

    def worth(label: Text) -> tuple[bool, bool, int, float]:
        left, right = _span(label)
        outside = left < box.x - 6 or right > box.right + 6
        meets = any(_meet(label, each) for each in others)
        return outside, meets, _covered(label, drawn), abs(label.y - y)

    return min(labels, key=worth)


def _covered(label: Text, drawn: FloatColumn) -> int:
    """How many of the places ``drawn`` are under a label."""
    left, right = _span(label)
    x, y = drawn.T
    return int(((left < x) & (x < right) & (label.y - _LABEL_SIZE < y) & (y < label.y + 3)).sum())


def _meet(one: Text, other: Text) -> bool:
    (left, right), (from_, to) = _span(one), _span(other)
    return left < to and from_ < right and abs(one.y - other.y) < _LABEL_LINE


def _span(label: Text) -> tuple[float, float]:
    width = text_width(label.text, _LABEL_SIZE, bold=True)
    return (label.x - width, label.x) if label.anchor == "end" else (label.x, label.x + width)
