"""The report of several runs on one trace: side by side, with the best of each column marked."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from volvelle.metrics.catalogue import metrics
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.summary import Summary, summarise
from volvelle.report import against, reproduction, run_charts
from volvelle.report.charts import Drawing, write_pngs
from volvelle.report.compositions import baseline_of
from volvelle.report.grid import Grid
from volvelle.report.mail import MAIL, write_mail
from volvelle.report.owner import in_short
from volvelle.report.page import Section, figure, folded, listed, note, tiles, write_page
from volvelle.report.sentences import BestChange, Idle, Sentence, under
from volvelle.report.table import (
    BEST,
    Cell,
    Column,
    Table,
    comparison,
    format_cell,
    to_csv,
    to_html,
)
from volvelle.report.told import told_side_by_side
from volvelle.report.verdict import verdict

DEFAULT_COLUMNS = (
    "jct:mean",
    "jct:p50",
    "jct:p99",
    "responsiveness:p50",
    "slowdown:mean",
    "rho:max",
    "unfair",
    "eta_error:p90",
    "eta_p90_coverage",
    "eta_p90_width",
    "deadline_miss",
    "utilisation",
    "makespan",
)
"""Default columns of a comparison; columns without a number are left out."""

_GROUPINGS = {"class": "job class", "width": "GPUs requested", "pool": "pool", "user": "user"}
_GROUP_MEASURES = (
    ("jct", "mean", "Mean completion time"),
    ("jct", "p99", "99th percentile of the completion time"),
    ("responsiveness", "p50", "Median wait for the first GPU"),
    ("deadline_miss", "mean", "Deadline misses"),
)
_MOST_GROUPS = 12
_MOST_RUNS = 13
"""Runs that are drawn one by one, a dozen and what was recorded; of more there are only tables and what is
drawn over the rates."""
_MOST_PANELS = 4
"""Runs whose course is shown before a reader asks for the others."""
_DrawEach = Callable[..., Drawing]
_COURSES: Mapping[str, _DrawEach] = {
    "utilisation": run_charts.utilisations,
    "queue": run_charts.queues,
}
TIDY = "runs.csv"
_MOST_IN_A_PAIR = 5  # columns of tables that stand side by side


def write_compare_report(
    runs: Mapping[str, Outcomes],
    directory: Path,
    *,
    title: str,
    facts: Mapping[str, str],
    columns: Sequence[str] = (),
    grid: Grid | None = None,
    reference: str | None = None,
    price: float | None = None,
    png: bool = False,
) -> Path:
    """Write ``report.html``, ``runs.csv`` and a mail into ``directory``, with ``png`` also the charts.

    Returns the page's path. ``columns`` are measures as in ``jct:p99``. ``grid`` says what sets the
    runs apart; with it seeds are drawn together, rates of submission become an axis, and every run is
    a row of ``runs.csv``. ``reference`` is a policy of the grid against which the others are judged, and
    ``price`` that of a GPU-hour, for the verdict.
    Raises `Problem` for a measure that does not exist, or a run without a reference.
    """
    directory.mkdir(parents=True, exist_ok=True)
    summaries = {name: summarise(outcomes) for name, outcomes in runs.items()}
    sections: list[Section] = []
    drawings: dict[str, Drawing] = {}
    short = () if grid is None else in_short(grid, reference, price)
    if short:
        write_mail(directory, title, list(map(str, short)))
        mailed = note(f"As a mail: {MAIL}, beside this page.")
        sections.append(Section("short", "In short", listed(map(str, short)) + mailed))
    if grid is not None and (said := verdict(grid, reference, price)):
        sections.append(Section("verdict", "Verdict", listed(map(str, said))))
    side_by_side = _side_by_side(runs, columns, grid, summaries, reference)
    sections.append(Section("comparison", "Side by side", side_by_side))
    if grid is not None and (beside := reproduction.tables(grid)):
        html = "".join(map(to_html, beside))
        sections.append(Section("reproduction", "Beside the record", html))
    if told := told_side_by_side(runs):
        sections.append(Section("told", "Told times", "".join(map(to_html, told))))
    if grid is not None:
        (directory / TIDY).write_text(to_csv(grid.tidy()), encoding="utf-8")
        if len(grid.rates) > 1:
            drawings["rates"] = grid.panels(columns)
            swept = figure(drawings["rates"], "rates")
            sections.append(Section("rates", "Over the rate of submission", swept))
    if grid is not None and reference is not None and (judged := against.judge(grid, reference)):
        drawings["harm"] = against.picture(judged, reference)
        html = "".join(map(to_html, against.tables(judged, reference)))
        sections.append(
            Section("against", f"Against {reference}", figure(drawings["harm"], "harm") + html)
        )
    apart = _apart(runs, grid)
    if len(apart) <= _MOST_RUNS:
        each = {name: runs[run] for name, run in apart.items()}
        drawings["jct_cdf"] = run_charts.completion_cdf(each)
        drawings["wait_cdf"] = run_charts.wait_cdf(each)
        times = "".join(figure(drawings[name], name) for name in ("jct_cdf", "wait_cdf"))
        load = "".join(_panels(draw, each, name) for name, draw in _COURSES.items())
        if png:
            drawings |= {name: draw(each) for name, draw in _COURSES.items()}
        sections += [
            Section("times", "Completion times and waits", times),
            Section("load", "The cluster over time", load),
        ]
        shown = {name: summaries[run] for name, run in apart.items()}
        sections += [
            Section(
                f"by-{grouping}",
                f"By {words}",
                folded("Show the tables", _groups_html(shown, grouping)),
            )
            for grouping, words in _GROUPINGS.items()
            if any(len(summary.groups[grouping]) > 1 for summary in shown.values())
        ]
    if png:
        write_pngs(drawings, directory)
    lead = tiles(_answer(short)) if short else ""
    return write_page(
        directory / "report.html", title=title, facts=facts, lead=lead, sections=sections
    )


def _answer(short: Sequence[Sentence]) -> dict[str, str]:
    """The figures of the owner's sentences that one looks for first, by their names."""
    found: dict[str, str] = {}
    for one in short:
        if isinstance(one, Idle) and one.of:
            idle = format_cell(100.0 * one.idle / one.of, "%")
            found[f"of the GPU time idle {under(one.run)}"] = idle
        if isinstance(one, BestChange):
            now, best = under(one.baseline), f"under {one.run}, the best change"
            found[f"mean wait {now}"] = format_cell(one.wait_before, "s")
            found[f"mean completion time {now}"] = format_cell(one.jct_before, "s")
            if one.improves:
                found[f"mean wait {best}"] = format_cell(one.wait, "s")
                found[f"mean completion time {best}"] = format_cell(one.jct, "s")
    return found


def _apart(runs: Mapping[str, Outcomes], grid: Grid | None) -> Mapping[str, str]:
    """The runs by the names that they are shown under: of those that decided alike one, under all names."""
    if grid is None or any(label not in runs for label in grid.labels):
        return {name: name for name in runs}
    return dict(grid.rows)


def _panels(draw: _DrawEach, runs: Mapping[str, Outcomes], name: str) -> str:
    """A panel for each run, of which the first are shown and the others folded."""
    first = figure(draw(runs, slice(_MOST_PANELS)), name)
    left = len(runs) - _MOST_PANELS
    if left <= 0:
        return first
    others = figure(draw(runs, slice(_MOST_PANELS, None)), f"{name}-others")
    return first + folded(f"Show {left} more", others)


def _side_by_side(
    runs: Mapping[str, Outcomes],
    columns: Sequence[str],
    grid: Grid | None,
    summaries: Mapping[str, Summary],
    reference: str | None,
) -> str:
    said = f"★: {BEST}. Click on a heading to sort by it."
    baseline = ""
    if grid is not None and len(grid.labels) > 1:
        baseline = baseline_of(grid, reference)
        said += f" Small figures: the difference from {baseline}."
    star = note(said)
    if grid is None:
        tables = [comparison(runs, columns or DEFAULT_COLUMNS).without_empty_columns()]
    else:
        tables = grid.tables(columns, DEFAULT_COLUMNS)
        if not grid.is_plain:
            star += note(f"Every run is a row of {TIDY}.")
    if len(runs) > _MOST_RUNS:
        star += note(
            "They are too many to be drawn one by one: volvelle report FOLDER/runs/NAME draws one."
        )
    shown = {column.key.partition(":")[0] for each in tables for column in each.columns}
    explained = [metrics.get(name) for name in ("jct", "rho") if name in shown]
    if explained:
        star += note(" ".join(f"{one.title}: {one.description}" for one in explained))
    html = "".join(to_html(each.against(baseline)) for each in tables)
    return html + star + _unfinished_note(summaries)


def _unfinished_note(summaries: Mapping[str, Summary]) -> str:
    """Numbers of jobs by status, for the runs that did not finish them all."""
    alike: dict[str, list[str]] = {}
    for name, total in ((name, summary.total) for name, summary in summaries.items()):
        if total.statuses["finished"] < total.jobs:
            counts = (f"{count:,} {status}" for status, count in total.statuses.items() if count)
            alike.setdefault(", ".join(counts), []).append(name)
    if not alike:
        return ""
    parts = [
        f"{'all runs' if len(names) == len(summaries) > 1 else ', '.join(names)}: {counts}"
        for counts, names in alike.items()
    ]
    return note(
        "Completion times are of finished jobs only, so a run that leaves slow jobs unfinished looks "
        f"better than it is. {'; '.join(parts)}."
    )


def _groups_html(summaries: Mapping[str, Summary], grouping: str) -> str:
    tables = [
        group_table(summaries, grouping, metric, measure, title=title)
        for metric, measure, title in _GROUP_MEASURES
    ]
    shown = [to_html(table) for table in tables if len(table.columns) > 1]
    widest = max((len(table.columns) for table in tables), default=0)
    if len(shown) < 2 or widest > _MOST_IN_A_PAIR:
        return "".join(shown)
    return f'<div class="pair">{"".join(f"<div>{table}</div>" for table in shown)}</div>'


def group_table(
    summaries: Mapping[str, Summary], grouping: str, metric: str, measure: str, *, title: str
) -> Table:
    """One row for each run, one column for each group of jobs (those with the most jobs)."""
    jobs: dict[str, int] = {}
    for summary in summaries.values():
        for name, group in summary.groups[grouping].items():
            jobs[name] = max(jobs.get(name, 0), group.jobs)
    kept = set(sorted(jobs, key=lambda name: -jobs[name])[:_MOST_GROUPS])
    groups = [name for name in jobs if name in kept]
    described = metrics.get(metric)
    heads = [
        Column(name or "(none)", _group_title(grouping, name), described.unit, described.better)
        for name in groups
    ]
    rows: list[tuple[Cell, ...]] = [
        (run, *(_figure(summary, grouping, name, metric, measure) for name in groups))
        for run, summary in summaries.items()
    ]
    text = f"The {len(kept)} of {len(jobs):,} with the most jobs." if len(kept) < len(jobs) else ""
    return Table(
        title, (Column("run", "policy"), *heads), tuple(rows), text
    ).without_empty_columns()


def _group_title(grouping: str, name: str) -> str:
    if grouping == "width":
        return f"{name} GPU" if name == "1" else f"{name} GPUs"
    return name or "(none)"


def _figure(summary: Summary, grouping: str, name: str, metric: str, measure: str) -> float | None:
    group = summary.groups[grouping].get(name)
    return None if group is None else group.figures[metric].values[measure]
