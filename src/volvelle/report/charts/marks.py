"""Marks of a chart that is laid out: lines, areas, rectangles and text on a sheet.

Coordinates are in units of about one screen pixel, from the top left corner. Colours are roles of
`volvelle.report.charts.palette`, so that one drawing serves light and dark paper. The backends
(`svg`, `png`) know these marks and nothing of charts.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""Shape (n, 2): x and y of each point."""

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Line:
    """An open polyline. ``name`` is what the read-out calls it; empty means decoration."""

    points: Points
    color: str = "ink"
    width: float = 1.5
    dash: tuple[float, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: Points
    color: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Rect:
    """A filled rectangle; ``title`` is shown when one points at it."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Rects:
    """Many filled rectangles, as columns."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]
    color: NDArray[np.str_]


@dataclass(frozen=True)
class Text:
    """One line of text; ``y`` is its baseline."""

    x: float
    y: float
    text: str
    color: str = "ink"
    size: float = 12.0
    anchor: Anchor = "start"
    bold: bool = False


@dataclass(frozen=True)
class ReadOutAxis:
    """How a position along one axis is turned back into a value and written."""

    quantity: str
    log: bool
    low: float
    high: float
    title: str
    unit: str


@dataclass(frozen=True)
class Panel:
    """The marks inside one pair of axes, clipped to their box; the axes feed the read-out."""

    x: float
    y: float
    width: float
    height: float
    marks: tuple["Mark", ...]
    x_axis: ReadOutAxis | None = None
    y_axis: ReadOutAxis | None = None


Mark = Line | Area | Rect | Rects | Text | Panel


@dataclass(frozen=True)
class Drawing:
    """A sheet of ``width`` x ``height`` with marks, painted in order.

    ``title`` and ``description`` say in words what one sees, for those who do not see it.
    narrow: the same for a phone.
    """

    width: float
    height: float
    marks: tuple[Mark, ...]
    title: str
    description: str = ""
    notes: tuple[str, ...] = field(default=())
    narrow: "Drawing | None" = None


_NARROW = frozenset("iljtfrI.,:;'|!()[] ")
_WIDE = frozenset("mwMW%@")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide ``text`` is in the sans-serif fonts of browsers; never much too little."""
    ems = sum(
        0.36
        if letter in _NARROW
        else 0.9
        if letter in _WIDE
        else 0.67
        if letter.isupper()
        else 1.0
        if ord(letter) > 0x2E80
        else 0.6
        for letter in text
    )
    return ems * size * (1.06 if bold else 1.0)


def clip_text(text: str, size: float, room: float) -> str:
    """``text``, or its beginning with an ellipsis where it is wider than ``room``."""
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text + "…"
