"""The report of one run: report.html and, where asked for, its charts as PNG files."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from volvelle.metrics import labels, promises
from volvelle.metrics.catalogue import metrics
from volvelle.metrics.measures import STANDARD
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.metrics.summary import Group, Summary, summarise
from volvelle.metrics.told import Told, told_sentence
from volvelle.report import run_charts
from volvelle.report.charts import write_pngs
from volvelle.report.choices import choices
from volvelle.report.gantt import bars_of
from volvelle.report.gantt_view import gantt_drawing, gantt_html, gantt_note
from volvelle.report.page import Section, figure, note, tiles, write_page
from volvelle.report.table import Amount, Cell, Column, Table, format_cell, to_html
from volvelle.report.told import told_by_state

GROUPINGS = {
    "class": "By job class",
    "width": "By GPUs requested",
    "pool": "By pool",
    "user": "By user",
}
"""The groupings a report has tables for, with their titles."""

MOST_GROUPS = 30
"""Rows of such a table; beyond, the groups with the most jobs are kept."""

_YES_OR_NO = frozenset(
    {
        "profiled_only",
        "unfair",
        "deadline_miss",
        "first_deadline_miss",
        "guaranteed",
        "guarantee_broken",
        "eta_p50_coverage",
        "eta_p90_coverage",
    }
)
"""Metrics that are 0 or 100 percent for a job: only their mean says anything."""

_IN_TILES = ("utilisation", "makespan")

_GROUP_COLUMNS = (
    ("jct", "mean"),
    ("jct", "p50"),
    ("jct", "p99"),
    ("responsiveness", "p50"),
    ("responsiveness", "p99"),
    ("slowdown", "mean"),
    ("unfair", "mean"),
    ("deadline_miss", "mean"),
    ("attained_service", "mean"),
)


def write_run_report(
    outcomes: Outcomes, directory: Path, *, title: str, facts: Mapping[str, str], png: bool = False
) -> Path:
    """Write ``report.html`` into ``directory``, with ``png`` also its charts; return the page's path.

    ``facts`` are the lines that say what was run: the composition, the trace, the cluster.
    """
    directory.mkdir(parents=True, exist_ok=True)
    summary = summarise(outcomes)
    bars = bars_of(outcomes)
    drawings = {
        "jct_cdf": run_charts.completion_cdf({"all jobs": outcomes}, 560),
        "wait_cdf": run_charts.wait_cdf({"all jobs": outcomes}, 560),
        "utilisation": run_charts.utilisation(outcomes),
        "queue": run_charts.queue(outcomes),
    }
    if outcomes.choices:
        drawings["choices"] = choices(outcomes)
    if png:
        write_pngs({**drawings, "gantt": gantt_drawing(outcomes, bars)}, directory)
    figures = {name: figure(drawing, name) for name, drawing in drawings.items()}
    sections = [
        Section("summary", "Summary", _summary_html(summary)),
        Section(
            "times",
            "Completion times and waits",
            f'<div class="pair">{figures["jct_cdf"]}{figures["wait_cdf"]}</div>',
        ),
        *(
            [Section("guarantees", "Guarantees", _promises_html(outcomes))]
            if outcomes.promises
            else []
        ),
        *(
            [Section("told", "Told times", _told_html(outcomes))]
            if told_sentence(Told.of(outcomes))
            else []
        ),
        Section("load", "The cluster over time", figures["utilisation"] + figures["queue"]),
        *(
            [Section("choices", "What the synthesizer chose", figures["choices"])]
            if outcomes.choices
            else []
        ),
        Section(
            "gantt-chart",
            "Who held the GPUs",
            gantt_html(outcomes, bars) + note(gantt_note(outcomes, bars)),
        ),
        Section("groups", "By class, width, pool and user", _groups_html(summary)),
    ]
    return write_page(
        directory / "report.html",
        title=title,
        facts=facts,
        lead=tiles(_headline(summary)),
        sections=sections,
        scripts=("report.js", "gantt_marks.js", "gantt_controls.js", "gantt.js"),
    )


def _headline(summary: Summary) -> dict[str, str]:
    total = summary.total
    jct, wait = total.figures["jct"].values, total.figures["responsiveness"].values
    return {
        f"of {total.jobs:,} jobs finished": f"{total.statuses[JobStatus.FINISHED.value]:,}",
        "mean completion time": format_cell(jct["mean"], "s"),
        "p99 completion time": format_cell(jct["p99"], "s"),
        "median wait for a GPU": format_cell(wait["p50"], "s"),
        "of the GPU time used": format_cell(summary.run["utilisation"], "%"),
        "makespan": format_cell(summary.run["makespan"], "s"),
    }


def summary_table(summary: Summary) -> Table:
    """Every per-job metric and every series, with the standard measures."""
    rows: list[tuple[Cell, ...]] = []
    for name, metric in metrics.all().items():
        if name in summary.total.figures:
            figures = summary.total.figures[name]
            if figures.count:
                measures = STANDARD[:1] if name in _YES_OR_NO else STANDARD
                cells = _amounts(figures.values, measures, metric.unit)
                rows.append((_sentence(metric.title), *cells, figures.count, metric.description))
        elif name in summary.over_time:
            cells = _amounts(summary.over_time[name], STANDARD, metric.unit)
            title = f"{_sentence(metric.title)} over time"
            rows.append((title, *cells, None, metric.description))
    heads = [Column(m, m) for m in STANDARD]
    return Table(
        "Figures of the run",
        (
            Column("metric", "metric"),
            *heads,
            Column("jobs", "jobs measured"),
            Column("meaning", "meaning"),
        ),
        tuple(rows),
    )


def _amounts(values: Mapping[str, float], measures: Sequence[str], unit: str) -> list[Cell]:
    return [Amount(values[m], unit) if m in measures else None for m in STANDARD]


def _summary_html(summary: Summary) -> str:
    statuses = ", ".join(
        f"{count:,} {name}" for name, count in summary.total.statuses.items() if count
    )
    text = f"{summary.total.jobs:,} jobs: {statuses}." if statuses else "No job was submitted."
    if summary.submitted > summary.total.jobs:
        text = f"{summary.submitted:,} jobs submitted, of which measured: {text}"
    run = ", ".join(
        f"{metrics.get(name).title} {format_cell(value, metrics.get(name).unit)}"
        for name, value in summary.run.items()
        if not math.isnan(value) and name not in _IN_TILES
    )
    said = [f"{text}{f' {_sentence(run)}.' if run else ''}"]
    finished = summary.total.statuses[JobStatus.FINISHED.value]
    if 0 < summary.submitted == summary.total.jobs == finished:
        said = [f"{_sentence(run)}."] if run else []
    return "".join(map(note, said)) + to_html(summary_table(summary))


def _promises_html(outcomes: Outcomes) -> str:
    reasons = reasons_of_promises(outcomes)
    return to_html(promises_by_class(outcomes)) + (to_html(reasons) if reasons.rows else "")


def _told_html(outcomes: Outcomes) -> str:
    return note(told_sentence(Told.of(outcomes))) + to_html(told_by_state(outcomes))


def _groups_html(summary: Summary) -> str:
    shown = [
        to_html(group_table(summary, grouping, title))
        for grouping, title in GROUPINGS.items()
        if len(summary.groups[grouping]) > 1
    ]
    if shown:
        return "".join(shown)
    return note("All jobs are of one class, width, pool and user: there is nothing to compare.")


def group_table(summary: Summary, grouping: str, title: str) -> Table:
    """One row for each group of jobs, with its statuses and main measures."""
    groups = summary.groups[grouping]
    kept = set(sorted(groups, key=lambda name: -groups[name].jobs)[:MOST_GROUPS])
    note_text = (
        f"The {len(kept)} of {len(groups):,} with the most jobs." if len(kept) < len(groups) else ""
    )
    measures = [
        Column(f"{metric}:{measure}", _heading(metric, measure), metrics.get(metric).unit)
        for metric, measure in _GROUP_COLUMNS
    ]
    names = "GPUs" if grouping == "width" else grouping
    return Table(
        title,
        (
            Column(grouping, names),
            Column("jobs", "jobs"),
            Column("finished", "finished"),
            *measures,
        ),
        tuple(_group_row(name, group) for name, group in groups.items() if name in kept),
        note_text,
    ).without_empty_columns()


def _group_row(name: str, group: Group) -> tuple[Cell, ...]:
    finished = group.statuses[JobStatus.FINISHED.value]
    figures = [group.figures[metric].values[measure] for metric, measure in _GROUP_COLUMNS]
    return (name or "(none)", group.jobs, finished, *figures)


def _heading(metric: str, measure: str) -> str:
    plain = measure == "mean" and metrics.get(metric).unit == "%"
    return metrics.get(metric).title if plain else f"{measure} {metrics.get(metric).title}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


_MOST_REASONS = 12


def promises_by_class(outcomes: Outcomes) -> Table:
    """A row for each class of jobs to which something was guaranteed, or was not though they asked."""
    promised, broken = promises.promised(outcomes), promises.broken(outcomes)
    classes = labels.classes(outcomes)
    rows: list[tuple[Cell, ...]] = []
    for number, name in enumerate(classes.names):
        mine = outcomes.tracked & (classes.of == number)
        made = int(np.nansum(promised[mine]))
        asked = int((~np.isnan(promised[mine])).sum())
        lost = int(np.nansum(broken[mine]))
        kept = int((broken[mine] == 0.0).sum())
        if asked:
            rows.append((name, asked, made, kept, lost, made - kept - lost))
    heads = ("class", "with deadlines", "guaranteed", "kept", "broken", "undecided")
    return Table(
        "Guarantees by class",
        tuple(Column(head.replace(" ", "_"), head) for head in heads),
        tuple(rows),
    )


def reasons_of_promises(outcomes: Outcomes) -> Table:
    """Why no finish was guaranteed, or one no longer is: how often each was said, the most frequent first."""
    said = Counter(
        change.promise.reason for change in outcomes.promises if change.promise.finish_by is None
    )
    rows = tuple((reason, count) for reason, count in said.most_common(_MOST_REASONS))
    return Table("Why not", (Column("reason", "reason"), Column("times", "times")), rows)
