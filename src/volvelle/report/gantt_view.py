"""The Gantt chart shown: the one to zoom in the page, and the still one as a drawing."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from volvelle.metrics import series
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.job import JobSpec
from volvelle.report.charts.axes import Axis, fit
from volvelle.report.charts.layout import WIDTH, Box, LegendEntry, frame, header, left_margin
from volvelle.report.charts.marks import Drawing, Mark, Panel, Rect
from volvelle.report.charts.palette import SERIES
from volvelle.report.gantt import Bars, gantt_json

_COLORS: dict[str, tuple[str, Callable[[JobSpec], str]]] = {
    "class": ("job class", lambda spec: spec.job_class.value),
    "width": ("GPUs requested", lambda spec: f"{spec.gpus:g} GPU{'' if spec.gpus == 1 else 's'}"),
    "pool": ("pool", lambda spec: spec.pool or "no pool"),
    "user": ("user", lambda spec: spec.user or "no user"),
    "status": ("status", lambda spec: ""),
}


def coloring(outcomes: Outcomes) -> str:
    """The first of class, width, pool and user that tells the jobs apart."""
    for name in ("class", "width", "pool", "user"):
        group_of = _COLORS[name][1]
        if len({group_of(spec) for spec in outcomes.specs}) > 1:
            return name
    return "class"


def gantt_html(outcomes: Outcomes, bars: Bars) -> str:
    """The chart to zoom, with its controls and its data."""
    chosen = coloring(outcomes)
    colors = "".join(
        f'<option value="{name}"{" selected" if name == chosen else ""}>{title}</option>'
        for name, (title, _) in _COLORS.items()
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
        "<noscript>The chart needs JavaScript; gantt.png beside this page is a still one."
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
            f"Shown are the {len(np.unique(bars.job)):,} jobs with the longest holdings of GPUs; "
            f"{bars.left_out:,} shorter holdings are left out."
        )
    return " ".join(parts)


def gantt_drawing(outcomes: Outcomes, bars: Bars, height: float = 440.0) -> Drawing:
    """The still chart: all of the run, rows are GPUs."""
    title = "Who held the GPUs"
    name, group_of = _COLORS[coloring(outcomes)]
    origin = series.start_time(outcomes)
    time = Axis("Time since the first submission", "time", low=0.0, high=outcomes.end_time - origin)
    rows = "GPU" if bars.placed else "GPUs in use"
    x = fit(time, [], wanted=10)
    y = fit(Axis(rows, low=0.0, high=bars.lanes / bars.per_gpu), [], wanted=8)
    groups = [group_of(outcomes.specs[row]) for row in bars.job]
    colors = _group_colors(groups)
    legend = [LegendEntry(group, color, filled=True) for group, color in colors.items()]
    marks, top = header(title, f"Colour: {name}", legend, WIDTH)
    margin = left_margin([y])
    box = Box(margin + 4, top + 30, WIDTH - margin - 24, height)
    marks += frame(box, x, y, downwards=True)
    shades = [colors.get(group, SERIES[7]) for group in groups]
    left = x.place(bars.start - origin, box.x, box.right)
    right = x.place(bars.end - origin, box.x, box.right)
    upper = y.place(bars.lane / bars.per_gpu, box.y, box.bottom)
    lower = y.place((bars.lane + bars.height) / bars.per_gpu, box.y, box.bottom)
    drawn: list[Mark] = [
        Rect(x0, y1, max(0.25, x1 - x0), y0 - y1, color)
        for x0, x1, y0, y1, color in zip(
            left.tolist(), right.tolist(), lower.tolist(), upper.tolist(), shades, strict=True
        )
    ]
    marks.append(Panel(box.x, box.y, box.width, box.height, tuple(drawn)))
    return Drawing(WIDTH, box.bottom + 48, tuple(marks), title, gantt_note(outcomes, bars))


def _group_colors(groups: list[str]) -> dict[str, str]:
    """A colour for each of the most frequent groups; the rest are ``others``."""
    tally = Counter(groups)
    most = [group for group, _ in tally.most_common(7 if len(tally) > 8 else 8)]
    most.sort(key=_natural)
    colors = dict(zip(most, SERIES, strict=False))
    if len(tally) > 8:
        colors["others"] = SERIES[7]
    return colors


def _natural(text: str) -> tuple[float, str]:
    number = text.split(" ", 1)[0]
    try:
        return float(number), text
    except ValueError:
        return float("inf"), text
