"""Charts: axes with round ticks, lines that keep their extremes, and the two backends."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_runs import outcomes_of

from volvelle.metrics.outcomes import Steps
from volvelle.model.job import JobSpec
from volvelle.report.charts import (
    Axis,
    BarGroup,
    Drawing,
    Plot,
    Series,
    bar_chart,
    cdf,
    line_chart,
    to_svg,
    write_png,
)
from volvelle.report.charts.axes import fit
from volvelle.report.charts.marks import Area, Line, Panel, Rect, Text
from volvelle.report.charts.palette import DARK, LIGHT
from volvelle.report.charts.simplify import simplify_line, step_envelope, step_points
from volvelle.report.run_charts import completion_cdf

DAY = 86400.0


def labels(axis: Axis, low: float, high: float, wanted: int = 6) -> list[str]:
    return [label for _, label in fit(axis, [np.array([low, high])], wanted).ticks]


def panels(drawing: Drawing) -> list[Panel]:
    return [mark for mark in drawing.marks if isinstance(mark, Panel)]


def texts(drawing: Drawing) -> list[str]:
    return [mark.text for mark in drawing.marks if isinstance(mark, Text)]


def test_linear_ticks_are_round_and_reach_the_data() -> None:
    assert labels(Axis("GPUs", low=0), 3, 97) == ["0", "20", "40", "60", "80", "100"]
    assert labels(Axis("jobs", low=0), 0, 12_000)[-1] == "12,000"
    assert labels(Axis("share", "share", low=0, high=1), 0, 1) == [
        "0", "20", "40", "60", "80", "100",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "unit", "last"),
    [
        (40, "seconds", "40"),
        (1500, "minutes", "25"),
        (9 * 3600, "hours", "9"),
        (14 * DAY, "days", "14"),
    ],
)
def test_time_axes_choose_the_unit_a_person_would(seconds: float, unit: str, last: str) -> None:
    axis = fit(Axis("Time", "time"), [np.array([0.0, seconds])], wanted=8)
    assert axis.title == f"Time ({unit})"
    assert axis.ticks[0][1] == "0"
    assert axis.ticks[-1][1] == last


def test_log_durations_are_labelled_in_their_own_units() -> None:
    assert labels(Axis("JCT", "duration", log=True), 1, 8 * DAY, 10) == [
        "1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d",
    ]  # fmt: skip
    assert "2 h" in labels(Axis("JCT", "duration", log=True), 3600, 6 * 3600, 10)


def test_an_axis_without_data_or_with_one_value_still_has_a_length() -> None:
    for axis in (Axis("x"), Axis("x", "time"), Axis("x", "duration", log=True)):
        for values in ([], [np.array([5.0])], [np.array([np.nan])]):
            fitted = fit(axis, values)
            assert fitted.high > fitted.low


def test_a_simplified_line_keeps_its_extremes_and_ends() -> None:
    draw = np.random.default_rng(1)
    points = np.column_stack([np.arange(100_000.0), draw.normal(size=100_000)])
    points[54_321, 1], points[777, 1] = 99.0, -99.0
    short = simplify_line(points, 800)
    assert len(short) <= 4 * 800
    assert short[:, 1].max() == 99.0
    assert short[:, 1].min() == -99.0
    assert short[0].tolist() == points[0].tolist()
    assert short[-1].tolist() == points[-1].tolist()
    assert np.all(np.diff(short[:, 0]) >= 0)


def test_the_envelope_of_steps_has_exact_means_and_extremes() -> None:
    band = step_envelope(np.array([0.0, 1.0, 1.5, 2.0]), np.array([4.0, 0, 8, 2]), 0.0, 4.0, 4)
    assert band.mean.tolist() == [4, 4, 2, 2]
    assert band.low.tolist() == [4, 0, 2, 2]
    assert band.high.tolist() == [4, 8, 2, 2]


def test_a_spike_shorter_than_a_pixel_is_drawn() -> None:
    times = np.arange(0.0, 50_000.0)
    values = np.where(times == 31_000, 500.0, 1.0)
    steps = Series.of_steps("queue", Steps(times, values), (0.0, 50_000.0), "series-1")
    drawing = line_chart("Queue", [Plot((steps,), Axis("Jobs", low=0))], Axis("Time", "time"))
    panel = panels(drawing)[0]
    band = next(mark for mark in panel.marks if isinstance(mark, Area))
    assert panel.y_axis is not None
    top = panel.y + panel.height * (1 - 500 / panel.y_axis.high)
    assert band.points[:, 1].min() == pytest.approx(top)


def test_a_step_series_holds_its_values_and_starts_at_zero() -> None:
    steps = Steps(np.array([10.0, 20.0]), np.array([3.0, 1.0]))
    series = Series.of_steps("busy", steps, (0.0, 30.0), "series-1")
    assert series.x.tolist() == [0, 10, 20]
    assert series.y.tolist() == [0, 3, 1]
    corners = step_points(series.x, series.y, 30.0)
    assert corners.tolist() == [[0, 0], [10, 0], [10, 3], [20, 3], [20, 1], [30, 1]]


def test_the_cdf_counts_what_is_missing() -> None:
    x, share = cdf(np.array([3.0, np.nan, 1.0, np.nan]), of=4)
    assert x.tolist() == [1, 1, 3, 3]
    assert share.tolist() == [0, 0.25, 0.25, 0.5]
    assert [len(column) for column in cdf(np.empty(0))] == [0, 0]


def test_every_series_is_in_the_legend_and_every_axis_has_its_unit() -> None:
    names = ["fifo", "srsf", "tiresias"]
    lines = tuple(
        Series.numbered(i, name, np.arange(9.0) * DAY, np.arange(9.0) + i)
        for i, name in enumerate(names)
    )
    drawing = line_chart("Load", [Plot(lines, Axis("Demand", unit="GPUs"))], Axis("Time", "time"))
    assert set(names) <= set(texts(drawing))
    assert "Demand (GPUs)" in texts(drawing)
    assert "Time (days)" in texts(drawing)
    assert len({mark.color for mark in panels(drawing)[0].marks if isinstance(mark, Line)}) == 3


def test_bars_are_as_tall_as_their_values() -> None:
    groups = [BarGroup("jobs", np.array([0.5, 1.0])), BarGroup("time", np.array([0.25, 0.0]))]
    drawing = bar_chart("Widths", ["1", "8"], groups, "GPUs", Axis("Share", "share", low=0))
    bars = [mark for mark in panels(drawing)[0].marks if isinstance(mark, Rect)]
    tall = panels(drawing)[0].height
    assert [round(bar.height / tall, 3) for bar in bars] == [0.5, 0.25, 1.0, 0.0]


def test_svg_names_itself_and_escapes_what_users_wrote() -> None:
    line = Series("<b>&evil", np.arange(3.0), np.arange(3.0))
    drawing = line_chart("A <title>", [Plot((line,), Axis("y"))], Axis("x"), legend=True)
    svg = to_svg(drawing, "one")
    assert 'role="img"' in svg
    assert "<title id=" in svg
    assert "A &lt;title&gt;" in svg
    assert "<b>" not in svg
    assert "data-readout=" in svg
    assert "nan" not in svg


def test_png_has_two_pixels_for_each_unit_and_is_not_blank(tmp_path: Path) -> None:
    line = Series("é – ×", np.arange(50.0), np.arange(50.0) % 7, dash=(6, 3))
    drawing = line_chart("Picture", [Plot((line,), Axis("y"))], Axis("x"), legend=True)
    with Image.open(write_png(drawing, tmp_path / "picture.png")) as picture:
        assert picture.format == "PNG"
        assert picture.size == (round(2 * drawing.width), round(2 * drawing.height))
        colors = picture.convert("RGB").getcolors(1 << 24)
    assert colors is not None
    assert len(colors) > 20
    assert (10, 110, 189) in {color for _, color in colors}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_enough_contrast_with_their_paper(theme: Mapping[str, str]) -> None:
    for role, color in theme.items():
        least = 7.0 if role == "ink" else 4.5 if role == "muted" else 0.0
        least = 3.0 if role.startswith(("series", "state")) else least
        least = 0.0 if role == "state-free" else least  # a background on purpose
        for paper in ("paper", "panel"):
            assert contrast(color, theme[paper]) >= least, (role, paper)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of the Web Content Accessibility Guidelines 2.1."""

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_jobs_are_counted_in_whole_numbers() -> None:
    assert labels(Axis("Jobs", low=0, whole=True), 0, 0) == ["0", "1"]
    assert labels(Axis("Jobs", low=0, whole=True), 0, 2) == ["0", "1", "2"]


def test_a_distribution_goes_on_to_the_end_of_the_axis() -> None:
    specs = [JobSpec(id=str(i), submit_time=0.0) for i in range(4)]
    late = outcomes_of(specs, np.zeros(4), np.array([10.0, 20.0, 30.0, 5000.0]), 4)
    early = outcomes_of(specs, np.zeros(4), np.array([10.0, 20.0, 30.0, 40.0]), 4)
    panel = panels(completion_cdf({"late": late, "early": early}))[0]
    for line in panel.marks:
        assert isinstance(line, Line)
        assert line.points[-1].tolist() == pytest.approx([panel.x + panel.width, panel.y])


def test_the_legend_says_which_line_is_covered_by_which() -> None:
    x, rising = np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.5, 1.0])
    names = {"recorded": rising, "fifo": rising * 1.0001, "srsf": rising + 0.3}
    lines = tuple(Series.numbered(at, name, x, y) for at, (name, y) in enumerate(names.items()))
    svg = to_svg(line_chart("T", [Plot(lines, Axis("y"))], Axis("x")), "t")
    assert "recorded (same as fifo)" in svg
    assert "fifo (same" not in svg
