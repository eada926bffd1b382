"""Scatter charts: where points stand, and what they say."""

import numpy as np
import pytest

from volvelle.report.charts import Axis, Dots, scatter, to_svg
from volvelle.report.charts.marks import Line, Panel, Rect, Text, text_width

POINTS = Dots(
    "front",
    np.array([0.0, 5.0, 10.0]),
    np.array([100.0, 10.0, 1.0]),
    "series-1",
    words=["first", "second & more", "third"],
    labels=["fast", "", "sure"],
    joined=True,
)


def test_points_stand_where_they_belong_and_say_what_they_are() -> None:
    drawing = scatter("Trade-off", [POINTS], Axis("JCT"), Axis("error", log=True))
    panel = next(mark for mark in drawing.marks if isinstance(mark, Panel))
    squares = [mark for mark in panel.marks if isinstance(mark, Rect)]
    across = [square.x + square.width / 2 for square in squares]
    down = [square.y + square.height / 2 for square in squares]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1])
    assert down[1] - down[0] == pytest.approx(down[2] - down[1])  # a decade each
    assert down[0] < down[2]
    assert [square.title for square in squares] == ["first", "second & more", "third"]
    [line] = [mark for mark in panel.marks if isinstance(mark, Line)]
    np.testing.assert_allclose(line.points, np.column_stack([across, down]))
    assert "<title>second &amp; more</title>" in to_svg(drawing, "front")


def test_labels_stay_within_the_panel() -> None:
    drawing = scatter("Trade-off", [POINTS], Axis("JCT"), Axis("error"))
    panel = next(mark for mark in drawing.marks if isinstance(mark, Panel))
    labels = [m for m in drawing.marks if isinstance(m, Text) and m.text in ("fast", "sure")]
    for label in labels:
        width = text_width(label.text, 12.0, bold=True)
        left = label.x - width if label.anchor == "end" else label.x
        assert panel.x < left < left + width < panel.x + panel.width


def test_labels_of_points_close_together_stand_one_over_the_other() -> None:
    names = ["p50", "balanced", "cheapest", "fastest"]
    close = Dots("front", np.array([1.0, 1.01, 1.02, 9.0]), np.ones(4), "series-1", labels=names)
    drawing = scatter("Trade-off", [close], Axis("JCT"), Axis("error"))
    lines = [m.y for m in drawing.marks if isinstance(m, Text) and m.text in names[:3]]
    assert min(np.diff(sorted(lines))) >= 14


def test_a_line_leads_to_a_label_that_is_far_from_its_point() -> None:
    names = [f"a name that takes some room, {number}" for number in range(9)]
    close = Dots("front", np.linspace(1.0, 1.01, 9), np.ones(9), "series-1", labels=names)
    drawing = scatter("Trade-off", [close], Axis("JCT"), Axis("error"))
    panel = next(mark for mark in drawing.marks if isinstance(mark, Panel))
    labels = [m for m in drawing.marks if isinstance(m, Text) and m.text in names]
    squares = [m.y + m.height / 2 for m in panel.marks if isinstance(m, Rect)]
    far = [each for each, y in zip(labels, squares, strict=True) if abs(each.y - y) > 28]
    assert 0 < len(far) == len([m for m in panel.marks if isinstance(m, Line)]) < 9


def test_nothing_to_show_is_an_empty_frame() -> None:
    nothing = Dots("front", np.zeros(0), np.zeros(0), "series-1")
    drawing = scatter("Trade-off", [nothing], Axis("JCT"), Axis("error", log=True))
    assert not any(m.marks for m in drawing.marks if isinstance(m, Panel))
