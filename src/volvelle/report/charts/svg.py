"""A drawing as SVG text, to be set inside the page; colours are the page's CSS variables."""

import json
from html import escape

import numpy as np

from volvelle.report.charts.marks import (
    Area,
    Drawing,
    Line,
    Mark,
    Panel,
    Points,
    ReadOutAxis,
    Rect,
    Rects,
    Text,
)


def to_svg(drawing: Drawing, name: str) -> str:
    """The drawing, and its narrow one; ``name`` is unique in the page and keeps the ids inside apart."""
    if drawing.narrow is None:
        return _svg(drawing, name, "chart")
    narrow = _svg(drawing.narrow, f"{name}-narrow", "chart narrow")
    return _svg(drawing, name, "chart wide") + narrow


def _svg(drawing: Drawing, name: str, style: str) -> str:
    body = "".join(_element(mark, f"{name}-{index}") for index, mark in enumerate(drawing.marks))
    described = f"{name}-title {name}-desc" if drawing.description else f"{name}-title"
    desc = (
        f'<desc id="{name}-desc">{escape(drawing.description)}</desc>'
        if drawing.description
        else ""
    )
    return (
        f'<svg class="{style}" role="img" aria-labelledby="{described}" '
        f'viewBox="0 0 {drawing.width:g} {drawing.height:g}">'
        f'<title id="{name}-title">{escape(drawing.title)}</title>{desc}{body}</svg>'
    )


def _element(mark: Mark, name: str) -> str:
    match mark:
        case Line():
            return _line(mark)
        case Area():
            return (
                f'<path d="{_path(mark.points)}Z" fill="var(--{mark.color})" '
                f'fill-opacity="{mark.opacity:g}"/>'
            )
        case Rect():
            return _rect(mark)
        case Rects():
            columns = (mark.x, mark.y, mark.width, mark.height, mark.color)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return "".join(_rect(Rect(*row)) for row in rows)
        case Text():
            return _text(mark)
        case Panel():
            return _panel(mark, name)


def _line(mark: Line) -> str:
    dash = f' stroke-dasharray="{" ".join(f"{d:g}" for d in mark.dash)}"' if mark.dash else ""
    label = f' data-name="{escape(mark.name)}"' if mark.name else ""
    return (
        f'<path d="{_path(mark.points)}" fill="none" stroke="var(--{mark.color})" '
        f'stroke-width="{mark.width:g}" stroke-linejoin="round"{dash}{label}/>'
    )


def _rect(mark: Rect) -> str:
    opacity = f' fill-opacity="{mark.opacity:g}"' if mark.opacity < 1 else ""
    shape = (
        f'<rect x="{mark.x:.1f}" y="{mark.y:.1f}" width="{max(0.3, mark.width):.1f}" '
        f'height="{mark.height:.1f}" fill="var(--{mark.color})"{opacity}'
    )
    return f"{shape}><title>{escape(mark.title)}</title></rect>" if mark.title else f"{shape}/>"


def _text(mark: Text) -> str:
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    weight = ' font-weight="600"' if mark.bold else ""
    return (
        f'<text x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}" '
        f'fill="var(--{mark.color})"{anchor}{weight}>{escape(mark.text)}</text>'
    )


def _panel(panel: Panel, name: str) -> str:
    box = f'x="{panel.x:.1f}" y="{panel.y:.1f}" width="{panel.width:.1f}" '
    box += f'height="{panel.height:.1f}"'
    inside = "".join(_element(mark, f"{name}-{i}") for i, mark in enumerate(panel.marks))
    axes = ""
    if panel.x_axis is not None and panel.y_axis is not None:
        read_out = {
            "box": [round(v, 1) for v in (panel.x, panel.y, panel.width, panel.height)],
            "x": _axis(panel.x_axis),
            "y": _axis(panel.y_axis),
        }
        axes = f' class="panel" data-readout="{escape(json.dumps(read_out))}"'
    return (
        f'<clipPath id="{name}-clip"><rect {box}/></clipPath>'
        f'<g{axes} clip-path="url(#{name}-clip)">{inside}</g>'
    )


def _axis(axis: ReadOutAxis) -> dict[str, object]:
    return {
        "quantity": axis.quantity,
        "log": axis.log,
        "low": axis.low,
        "high": axis.high,
        "title": axis.title,
        "unit": axis.unit,
    }


def _path(points: Points) -> str:
    """``M x y L ...`` in tenths of a unit, with H and V for level and upright strokes."""
    if not len(points):
        return "M0 0"
    rounded = np.round(points, 1)
    parts = [f"M{rounded[0, 0]:g} {rounded[0, 1]:g}"]
    for (x0, y0), (x, y) in zip(rounded[:-1].tolist(), rounded[1:].tolist(), strict=True):
        if x == x0 and y == y0:
            continue
        parts.append(f"H{x:g}" if y == y0 else f"V{y:g}" if x == x0 else f"L{x:g} {y:g}")
    return "".join(parts)
