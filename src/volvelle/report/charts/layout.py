"""Layout of all charts: the sheet's title and legend, and a frame of axes around each panel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from volvelle.report.charts.axes import FittedAxis
from volvelle.report.charts.marks import Drawing, Line, Mark, Rect, Text, clip_text, text_width

WIDTH = 960.0
NARROW = 360.0
"""Of drawings for phones, on which texts are to be as large as those of the page."""

TITLE_SIZE = 15.0
TEXT_SIZE = 12.0
LINE_HEIGHT = 18.0


_Draw = TypeVar("_Draw", bound=Callable[..., Drawing])


def also_narrow(draw: _Draw) -> _Draw:
    """``draw``, which takes a ``width``, with a narrow drawing of the same beside what it returns."""

    @wraps(draw)
    def drawn(*arguments: Any, **settings: Any) -> Drawing:
        wide = draw(*arguments, **settings)
        return replace(wide, narrow=draw(*arguments, **settings | {"width": NARROW}))

    return cast("_Draw", drawn)


@dataclass(frozen=True)
class Box:
    """A rectangle on the sheet."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height


@dataclass(frozen=True)
class LegendEntry:
    """A name and how its marks look."""

    name: str
    color: str
    dash: tuple[float, ...] = ()
    filled: bool = False


def header(
    title: str, subtitle: str, legend: Sequence[LegendEntry], width: float
) -> tuple[list[Mark], float]:
    """The marks of title, subtitle and legend, and how tall they are together."""
    marks: list[Mark] = [Text(12, 24, clip_text(title, 15, width - 24), size=TITLE_SIZE, bold=True)]
    bottom = 32.0
    if subtitle:
        marks.append(Text(12, bottom + 11, clip_text(subtitle, 12, width - 24), color="muted"))
        bottom += LINE_HEIGHT
    entries, height = _legend(legend, bottom + 4, width)
    return marks + entries, bottom + height


def _legend(entries: Sequence[LegendEntry], top: float, width: float) -> tuple[list[Mark], float]:
    marks: list[Mark] = []
    x, y = 12.0, top + 11
    for entry in entries:
        name = clip_text(entry.name, TEXT_SIZE, width / 2)
        taken = 30 + text_width(name, TEXT_SIZE) + 20
        if x > 12 and x + taken > width:
            x, y = 12.0, y + LINE_HEIGHT
        marks.append(_swatch(entry, x, y))
        marks.append(Text(x + 30, y, name))
        x += taken
    return marks, (y - top + 11 if entries else 0.0)


def _swatch(entry: LegendEntry, x: float, y: float) -> Mark:
    if entry.filled:
        return Rect(x, y - 9, 24, 10, entry.color)
    return Line(np.array([[x, y - 4], [x + 24, y - 4]]), entry.color, 2.5, entry.dash)


def left_margin(axes: Sequence[FittedAxis]) -> float:
    """Room for the tick labels of the widest of the vertical ``axes``."""
    labels = [text_width(label, TEXT_SIZE) for axis in axes for _, label in axis.ticks]
    return max([20.0, *labels]) + 20


def frame(
    box: Box, x: FittedAxis, y: FittedAxis, *, x_title: bool = True, downwards: bool = False
) -> list[Mark]:
    """Grid lines, tick labels and titles of the axes around ``box``.

    The vertical axis has its title above it, lying, where it can be read; its values grow upwards
    unless ``downwards``.
    """
    marks: list[Mark] = [Rect(box.x, box.y, box.width, box.height, "panel")]
    marks += _vertical_ticks(box, y, downwards)
    marks += _horizontal_ticks(box, x)
    marks.append(_rule(box.x, box.bottom, box.right, box.bottom, "axis"))
    marks.append(Text(box.x, box.y - 8, y.title, "muted"))
    if x_title:
        marks.append(Text(box.x + box.width / 2, box.bottom + 36, x.title, "muted", 12, "middle"))
    return marks


def _vertical_ticks(box: Box, axis: FittedAxis, downwards: bool) -> list[Mark]:
    marks: list[Mark] = []
    ends = (box.y, box.bottom) if downwards else (box.bottom, box.y)
    for value, label in axis.ticks:
        y = float(axis.place(np.array([value]), *ends)[0])
        marks.append(_rule(box.x, y, box.right, y, "grid"))
        marks.append(Text(box.x - 8, y + 4, label, "muted", TEXT_SIZE, "end"))
    return marks


def _horizontal_ticks(box: Box, axis: FittedAxis) -> list[Mark]:
    marks: list[Mark] = []
    taken = -np.inf
    for value, label in axis.ticks:
        x = float(axis.place(np.array([value]), box.x, box.right)[0])
        marks.append(_rule(x, box.y, x, box.bottom, "grid"))
        half = text_width(label, TEXT_SIZE) / 2
        if x - half > taken + 6:
            marks.append(Text(x, box.bottom + 17, label, "muted", TEXT_SIZE, "middle"))
            taken = x + half
    return marks


def _rule(x1: float, y1: float, x2: float, y2: float, color: str) -> Line:
    return Line(np.array([[x1, y1], [x2, y2]]), color, 1.0)
