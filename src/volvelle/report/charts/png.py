"""A drawing as a PNG picture, painted by Pillow on light paper.

Everything is painted larger and then reduced, which smooths the edges.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from volvelle.report.charts.marks import Area, Drawing, Line, Mark, Panel, Points, Rect, Rects, Text
from volvelle.report.charts.palette import LIGHT

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

PIXELS_PER_UNIT = 2
_OVERSAMPLING = 2


def write_png(drawing: Drawing, path: Path, theme: Mapping[str, str] = LIGHT) -> Path:
    """Write the drawing at two pixels per unit."""
    image(drawing, theme).save(path)
    return path


def write_pngs(drawings: Mapping[str, Drawing], directory: Path) -> None:
    """Write each drawing as ``NAME.png``."""
    for name, drawing in drawings.items():
        write_png(drawing, directory / f"{name}.png")


def image(drawing: Drawing, theme: Mapping[str, str] = LIGHT) -> Image:
    """The drawing as an image of ``PIXELS_PER_UNIT`` times its size."""
    from PIL.Image import new  # noqa: PLC0415 - heavy, only here

    scale = PIXELS_PER_UNIT * _OVERSAMPLING
    size = (round(drawing.width * scale), round(drawing.height * scale))
    sheet = new("RGB", size, theme["paper"])
    _Painter(sheet, scale, theme).paint(drawing.marks)
    return sheet.reduce(_OVERSAMPLING)


class _Painter:
    """Paints marks on a sheet, ``scale`` pixels to the unit."""

    def __init__(self, sheet: Image, scale: int, theme: Mapping[str, str]) -> None:
        self.sheet = sheet
        self.scale = scale
        self.theme = theme
        self.origin = np.zeros(2)  # the sheet's top left corner, in pixels of the whole drawing
        self.brush = self._brush()
        self.fonts: dict[float, FreeTypeFont] = {}

    def _brush(self) -> ImageDraw:
        from PIL.ImageDraw import Draw  # noqa: PLC0415 - heavy, only here

        return Draw(self.sheet, "RGBA")  # RGBA blends what is not opaque

    def paint(self, marks: tuple[Mark, ...]) -> None:
        for mark in marks:
            match mark:
                case Line():
                    self._line(mark)
                case Area():
                    if len(mark.points) > 2:
                        color = self._color(mark.color, mark.opacity)
                        self.brush.polygon(self._pixels(mark.points), fill=color)
                case Rect():
                    self._rect(mark)
                case Rects():
                    self._rects(mark)
                case Text():
                    self._text(mark)
                case Panel():
                    self._panel(mark)

    def _panel(self, panel: Panel) -> None:
        """Paint inside the box only: on a sheet of its own, which is pasted back."""
        left, top = round(panel.x * self.scale), round(panel.y * self.scale)
        right = round((panel.x + panel.width) * self.scale)
        bottom = round((panel.y + panel.height) * self.scale)
        outer, origin = self.sheet, self.origin
        corner = (left - int(origin[0]), top - int(origin[1]))
        self.sheet = outer.crop((*corner, corner[0] + right - left, corner[1] + bottom - top))
        self.origin = np.array([left, top])
        self.brush = self._brush()
        self.paint(panel.marks)
        outer.paste(self.sheet, corner)
        self.sheet, self.origin = outer, origin
        self.brush = self._brush()

    def _pixels(self, points: Points) -> list[float]:
        """Points of the drawing as ``[x, y, x, y, ...]`` on the sheet."""
        flat: list[float] = (points * self.scale - self.origin).ravel().tolist()
        return flat

    def _line(self, mark: Line) -> None:
        width = max(1, round(mark.width * self.scale))
        color = self._color(mark.color)
        for stroke in _strokes(mark.points, mark.dash) if mark.dash else [mark.points]:
            if len(stroke) > 1:
                self.brush.line(self._pixels(stroke), color, width, joint="curve")

    def _rect(self, mark: Rect) -> None:
        left, top, right, bottom = self._pixels(
            np.array([[mark.x, mark.y], [mark.x + mark.width, mark.y + mark.height]])
        )
        right, bottom = max(left, right - 1), max(top, bottom - 1)
        self.brush.rectangle((left, top, right, bottom), self._color(mark.color, mark.opacity))

    def _rects(self, mark: Rects) -> None:
        corners = np.column_stack((mark.x, mark.y, mark.x + mark.width, mark.y + mark.height))
        corners = corners * self.scale - np.tile(self.origin, 2)
        corners[:, 2:] = np.maximum(corners[:, :2], corners[:, 2:] - 1)
        colors = {role: self._color(role) for role in np.unique(mark.color).tolist()}
        for corner, role in zip(corners.tolist(), mark.color.tolist(), strict=True):
            self.brush.rectangle(corner, colors[role])

    def _text(self, mark: Text) -> None:
        size = mark.size * self.scale
        if size not in self.fonts:
            self.fonts[size] = _font(size)
        x, y = self._pixels(np.array([mark.x, mark.y]))
        self.brush.text(
            (x, y),
            _spelled(mark.text),
            self._color(mark.color),
            self.fonts[size],
            anchor={"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor],
            stroke_width=1 if mark.bold else 0,
        )

    def _color(self, role: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
        digits = self.theme[role]
        red, green, blue = (int(digits[at : at + 2], 16) for at in (1, 3, 5))
        return red, green, blue, round(255 * opacity)


def _font(size: float) -> FreeTypeFont:
    from PIL import ImageFont  # noqa: PLC0415 - heavy, only here

    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # a size was given
    return font


_SPELLINGS = str.maketrans({"–": "-", "—": "-", "×": "x", "≤": "<=", "≥": ">=", "·": "-"})


def _spelled(text: str) -> str:
    """``text`` in the letters that Pillow's own font has, which are ASCII and the ellipsis."""
    plain = unicodedata.normalize("NFKD", text.replace("…", "\0").translate(_SPELLINGS))
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() else "?" for letter in kept).replace("\0", "…")


def _strokes(points: Points, dash: tuple[float, ...]) -> Iterator[Points]:
    """The painted parts of a line with the pattern ``dash`` (painted, left out, ...)."""
    lengths = np.hypot(*np.diff(points, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    ends = np.cumsum(np.tile(dash, int(along[-1] / sum(dash)) + 1))
    starts = np.concatenate([[0.0], ends[:-1]])
    for start, end in zip(starts[::2], np.minimum(ends[::2], along[-1]), strict=True):
        inside = points[(along > start) & (along < end)]
        cut = [[np.interp(at, along, points[:, k]) for k in (0, 1)] for at in (start, end)]
        yield np.concatenate([cut[:1], inside, cut[1:]])
