"""The Gantt chart shown: the one to zoom in the page, and the still one as a drawing."""

from collections.abc import Callable, Sequence

import numpy as np

from volvelle.metrics import series
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.summary import GROUPINGS
from volvelle.report.charts.axes import Axis, fit
from volvelle.report.charts.layout import WIDTH, Box, LegendEntry, frame, header, left_margin
from volvelle.report.charts.marks import Drawing, Panel, Rects
from volvelle.report.charts.palette import SERIES
from volvelle.report.gantt import Bars, gantt_json

_COLORS = {
    "class": "job class",
    "width": "GPUs requested",
    "pool": "pool",
    "user": "user",
    "status": "status",
}
_GROUP_NAMES: dict[str, Callable[[str], str]] = {
    "class": str,
    "width": lambda gpus: f"{float(gpus):g} GPU{'' if gpus == '1' else 's'}",
    "pool": lambda pool: pool or "no pool",
    "user": lambda user: user or "no user",
}


def coloring(outcomes: Outcomes) -> str:
    """The first of class, width, pool and user by which the jobs differ."""
    apart = (name for name in _GROUP_NAMES if len(GROUPINGS[name](outcomes).names) > 1)
    return next(apart, "class")


def gantt_html(outcomes: Outcomes, bars: Bars) -> str:
    """The chart to zoom, with its controls and its data."""
    chosen = coloring(outcomes)
    colors = "".join(
        f'<option value="{name}"{" selected" if name == chosen else ""}>{title}</option>'
        for name, title in _COLORS.items()
    )
    buttons = "".join(
        f'<button type="button" data-do="{do}" title="{title}" aria-label="{title}">{sign}</button>'
        for do, title, sign in (
            ("in", "Zoom in on time (+)", "+"),
            ("out", "Zoom out on time (-)", "−"),
            ("taller", "Taller rows (])", "↕ +"),
            ("flatter", "Flatter rows ([)", "↕ −"),
            ("all", "Show everything (0)", "All"),
        )
    )
    return (
        '<div class="gantt" id="gantt"><div class="controls">'
        '<label>Rows <select name="rows"><option value="gpus">GPUs</option>'
        '<option value="jobs">jobs</option></select></label>'
        f'<label>Colour by <select name="color">{colors}</select></label>'
        f"<span>{buttons}</span></div>"
        '<canvas tabindex="0" role="application" aria-label="Gantt chart: which job held which GPUs '
        "when. Arrow keys move, plus and minus zoom time, brackets zoom rows, 0 shows everything."
        '"></canvas><ul class="legend"></ul>'
        f'<script type="application/json" id="gantt-data">{gantt_json(outcomes, bars)}</script>'
        "<noscript>The chart needs JavaScript; with --png there is a still one in gantt.png."
        "</noscript></div>"
    )


def gantt_note(outcomes: Outcomes, bars: Bars) -> str:
    """How to use and to read the chart, and what it leaves out."""
    parts = [
        "Wheel or pinch zooms time, shift and wheel zooms rows, dragging moves, a double click "
        "shows everything; point at a bar for its job."
    ]
    if not bars.placed:
        parts.append("The placement only counted GPUs: rows show how many were in use, not which.")
    if bars.left_out:
        parts.append(
            f"Shown are the {len(bars.jobs):,} jobs with the longest holdings of GPUs; "
            f"{bars.left_out:,} shorter holdings are left out."
        )
    return " ".join(parts)


def gantt_drawing(outcomes: Outcomes, bars: Bars, height: float = 440.0) -> Drawing:
    """The still chart: all of the run, rows are GPUs."""
    title = "Who held the GPUs"
    name = coloring(outcomes)
    origin = series.start_time(outcomes)
    time = Axis("Time since the first submission", "time", low=0.0, high=outcomes.end_time - origin)
    rows = "GPU" if bars.placed else "GPUs in use"
    x = fit(time, [], wanted=10)
    y = fit(Axis(rows, low=0.0, high=bars.lanes / bars.per_gpu), [], wanted=8)
    groups = GROUPINGS[name](outcomes).at(bars.job)
    named = [_GROUP_NAMES[name](group) for group in groups.names]
    colors = _group_colors(named, np.bincount(groups.of, minlength=len(named)).tolist())
    legend = [LegendEntry(group, color, filled=True) for group, color in colors.items()]
    marks, top = header(title, f"Colour: {_COLORS[name]}", legend, WIDTH)
    margin = left_margin([y])
    box = Box(margin + 4, top + 30, WIDTH - margin - 24, height)
    marks += frame(box, x, y, downwards=True)
    left = x.place(bars.start - origin, box.x, box.right)
    right = x.place(bars.end - origin, box.x, box.right)
    upper = y.place(bars.lane / bars.per_gpu, box.y, box.bottom)
    lower = y.place((bars.lane + bars.height) / bars.per_gpu, box.y, box.bottom)
    shades = np.array([colors.get(group, SERIES[7]) for group in named])
    drawn = Rects(left, upper, np.maximum(0.25, right - left), lower - upper, shades[groups.of])
    marks.append(Panel(box.x, box.y, box.width, box.height, (drawn,)))
    return Drawing(WIDTH, box.bottom + 48, tuple(marks), title, gantt_note(outcomes, bars))


def _group_colors(groups: Sequence[str], counts: Sequence[int]) -> dict[str, str]:
    """A colour for each of the most frequent groups; the rest are ``others``."""
    most = sorted(groups, key=dict(zip(groups, counts, strict=True)).__getitem__, reverse=True)
    shown = sorted(most[: 7 if len(groups) > 8 else 8], key=_natural)
    colors = dict(zip(shown, SERIES, strict=False))
    if len(groups) > 8:
        colors["others"] = SERIES[7]
    return colors


def _natural(text: str) -> tuple[float, str]:
    number = text.split(" ", 1)[0]
    try:
        return float(number), text
    except ValueError:
        return float("inf"), text
