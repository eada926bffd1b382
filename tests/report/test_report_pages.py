"""The pages: whole, self-contained, with the right numbers, also for nothing and for much."""

import json
import re
import time
from dataclasses import replace
from email import message_from_bytes, policy
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image
from report_runs import empty_run, simulated, small_run

from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.units import format_duration
from volvelle.report.compare_report import write_compare_report
from volvelle.report.describe_report import write_describe_report
from volvelle.report.grid import Grid, GridRun
from volvelle.report.run_report import write_run_report
from volvelle.workload.describe import describe
from volvelle.workload.workload import Workload

FACTS = {"policy": "fifo", "cluster": "8x8 <script>alert(1)</script>"}


class Page(HTMLParser):
    """Checks that tags are balanced and collects what could load something."""

    VOID = frozenset({"meta", "br", "link", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [named["id"] or ""] if "id" in named else []
        self.loads += [named[a] or "" for a in ("src", "href", "data", "action") if a in named]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(path: Path) -> str:
    """The page, after checking that it stands on its own."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert all(target.startswith("#") for target in page.loads)
    assert len(set(page.ids)) == len(page.ids)
    assert not re.search(r"https?://|@import|url\((?!#)|\bfetch\(|XMLHttpRequest", text)
    assert "<script>alert" not in text
    assert not re.search(r">\s*(nan|None|NaN)\b", text)
    return text


def gantt_data(text: str) -> dict[str, dict[str, list[object]]]:
    found = re.search(r'<script type="application/json" id="gantt-data">(.*?)</script>', text)
    assert found
    decoded: dict[str, dict[str, list[object]]] = json.loads(found[1])
    return decoded


def test_a_run_report_is_whole(tmp_path: Path) -> None:
    run = small_run()
    folder = tmp_path / "new" / "run"
    path = write_run_report(run, folder, title="FIFO & co", facts=FACTS, png=True)
    text = read(path)
    assert path.name == "report.html"
    assert "FIFO &amp; co" in text
    assert format_duration(measure(run, "jct:mean")) in text
    assert format_duration(measure(run, "jct:p99")) in text
    assert len(gantt_data(text)["jobs"]["id"]) == 200
    for title in ("By job class", "By GPUs requested", "By pool", "By user"):
        assert f"<caption>{title}</caption>" in text
    assert text.count("<svg ") == text.count('role="img" aria-labelledby') == 8
    for name in ("jct_cdf", "wait_cdf", "queue", "utilisation", "gantt"):
        with Image.open(path.parent / f"{name}.png") as picture:
            assert picture.width >= 1000
            assert picture.height >= 600


def test_a_comparison_marks_the_best_of_each_column(tmp_path: Path) -> None:
    runs = {"fifo": simulated(600, load=1.1), "sjf": simulated(600, load=1.1, shortest_first=True)}
    columns = ["jct:mean", "jct:p50", "makespan", "eta_error"]
    text = read(
        write_compare_report(runs, tmp_path, title="Two", facts=FACTS, columns=columns, png=True)
    )
    first_table = text[text.index("<table") : text.index("</table>")]
    assert "ETA error" not in first_table  # nobody predicted anything
    rows = re.findall(r"<tr>(.*?)</tr>", first_table)[1:]
    assert [re.findall(r'<th scope="row">(.*?)</th>', row)[0] for row in rows] == ["fifo", "sjf"]
    best = [re.findall(r'class="(number best|number)"', row)[:2] for row in rows]
    assert best == [["number"] * 2, ["number best"] * 2]
    assert measure(runs["sjf"], "jct:mean") < measure(runs["fifo"], "jct:mean")
    assert (
        text.count('data-name="sjf"') >= 3
    )  # by these names, and those of rows, the page fades the others
    for name in ("jct_cdf", "wait_cdf", "queue", "utilisation"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert picture.width == 1920


def test_a_comparison_has_tables_by_pool_and_user_and_one_name_for_runs_that_are_alike(
    tmp_path: Path,
) -> None:
    fifo, sjf = simulated(200, load=1.1), simulated(200, load=1.1, shortest_first=True)
    runs = {"fifo": fifo, "easy": fifo, "sjf": sjf}
    grid = Grid.of(GridRun(name, {"policy": name}, None, 0, run) for name, run in runs.items())
    text = read(write_compare_report(runs, tmp_path, title="x", facts=FACTS, grid=grid))
    for title in ("By pool", "By user", "By GPUs requested"):
        assert f">{title}</h2>" in text
    assert 'data-name="fifo, easy"' in text
    assert 'data-name="easy"' not in text
    assert 'data-name="fifo"' not in text


def test_of_many_runs_the_first_panels_are_shown_and_the_others_folded(tmp_path: Path) -> None:
    runs = {f"run-{number}": simulated(20 + number) for number in range(6)}
    text = read(write_compare_report(runs, tmp_path, title="x", facts=FACTS))
    shown, others = text[text.index('id="load"') :].split("<details>", 1)
    assert shown.count('data-name="run-') == 2 * 4  # for desks and for phones
    assert 'data-name="run-4"' not in shown
    assert others.startswith("<summary>Show 2 more</summary>")
    assert text.count("<summary>Show 2 more</summary>") == 2
    assert "\u2605: the best of its column, or within 0.5 % of it." in text


def test_the_summary_is_a_mail_of_text_and_html(tmp_path: Path) -> None:
    runs = {"fifo": simulated(200, load=1.1), "s<jf": simulated(200, load=1.1, shortest_first=True)}
    grid = Grid.of(GridRun(name, {"policy": "fifo"}, None, 0, run) for name, run in runs.items())
    write_compare_report(runs, tmp_path, title="2 runs,\nof März", facts={}, grid=grid)
    raw = (tmp_path / "summary.eml").read_bytes()
    mail = message_from_bytes(raw, policy=policy.default)
    assert mail["Subject"] == "2 runs, of März"
    text, html = mail.iter_parts()
    assert "- The best change: s<jf." in text.get_content()
    assert "<li>The best change: s&lt;jf." in html.get_content()
    page = read(tmp_path / "report.html")
    assert "summary.eml" in page
    assert "<span>mean wait under fifo</span>" in page
    assert "<span>mean completion time under s&lt;jf, the best change</span>" in page
    write_compare_report(runs, tmp_path, title="2 runs,\nof März", facts={}, grid=grid)
    assert (tmp_path / "summary.eml").read_bytes() == raw


def test_charts_are_painted_only_where_they_are_asked_for(tmp_path: Path) -> None:
    write_run_report(small_run(), tmp_path / "run", title="Run", facts=FACTS)
    write_compare_report({"a": small_run()}, tmp_path / "runs", title="Runs", facts=FACTS)
    assert {path.name for path in tmp_path.rglob("*.*")} == {"report.html"}


def test_names_of_users_jobs_and_policies_are_text(tmp_path: Path) -> None:
    run = small_run()
    evil = "</script><script>alert(1)</script>"
    specs = [
        msgspec.structs.replace(spec, user=f"{evil}{i % 3}", pool=evil, name=evil)
        for i, spec in enumerate(run.specs)
    ]
    bad = replace(run, specs=specs)
    text = read(write_run_report(bad, tmp_path / "a", title=evil, facts={evil: evil}))
    assert text.count("</script>") == 5  # data and four scripts
    read(write_compare_report({evil: bad, "x": bad}, tmp_path / "b", title=evil, facts={}))


def test_an_empty_run_has_a_report(tmp_path: Path) -> None:
    empty = empty_run()
    text = read(write_run_report(empty, tmp_path / "a", title="Nothing", facts={}))
    assert "No job was submitted" in text
    read(write_compare_report({"a": empty, "b": empty}, tmp_path / "b", title="x", facts={}))
    read(write_compare_report({}, tmp_path / "c", title="x", facts={}))


def test_runs_in_which_nothing_finished_or_started(tmp_path: Path) -> None:
    run = small_run()
    nan, nothing = np.full(200, np.nan), np.empty(0)
    none = np.empty(0, dtype=np.int64)
    stuck = replace(
        run,
        first_start=nan,
        finish=nan,
        status=np.full(200, JobStatus.WAITING.value),
        segments=replace(
            run.segments, job=none, start=nothing, end=nothing, gpus=nothing,
            slots=none, slot_offsets=np.zeros(1, dtype=np.int64),
        ),
    )  # fmt: skip
    text = read(write_run_report(stuck, tmp_path / "a", title="Stuck", facts={}))
    assert "200 waiting" in text
    text = read(
        write_compare_report({"stuck": stuck, "ok": run}, tmp_path / "b", title="x", facts={})
    )
    assert "stuck: 200 waiting" in text
    alike = {"stuck": stuck, "as stuck": stuck}
    text = read(write_compare_report(alike, tmp_path / "c", title="x", facts={}))
    assert text.count("200 waiting") == 1 and "all runs: 200 waiting" in text


def test_only_tracked_jobs_are_measured_but_all_are_shown(tmp_path: Path) -> None:
    run = small_run()
    part = run.tracking(np.arange(200) < 50)
    text = read(write_run_report(part, tmp_path, title="Part", facts={}))
    assert "200 jobs submitted, of which measured: 50 jobs: 50 finished" in text
    assert len(gantt_data(text)["jobs"]["id"]) == 200


def test_many_groups_are_cut_to_those_with_most_jobs(tmp_path: Path) -> None:
    run = small_run()
    specs = [
        msgspec.structs.replace(spec, user=f"u{min(i, 99)}") for i, spec in enumerate(run.specs)
    ]
    text = read(write_run_report(replace(run, specs=specs), tmp_path, title="x", facts={}))
    assert "The 30 of 100 with the most jobs." in text
    assert '<th scope="row">u99</th>' in text


def test_thirty_thousand_jobs_fit_in_ten_megabytes(tmp_path: Path) -> None:
    big = simulated(30_000, gpus=512)
    began = time.perf_counter()
    path = write_run_report(big, tmp_path, title="Big", facts={})
    assert time.perf_counter() - began < 60  # about 2 s on a quiet machine
    assert path.stat().st_size < 10e6
    text = path.read_text()
    assert len(gantt_data(text)["jobs"]["id"]) == 30_000
    pictures = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert max(map(len, pictures)) < 300_000


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_trace_is_described_in_pictures(count: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    jobs = [
        Job(
            JobSpec(
                id=str(i), submit_time=i * 1000.0, gpus=float(draw.integers(1, 16)), user="<u>"
            ),
            Truth(work=float(draw.lognormal(8))),
        )
        for i in range(count)
    ]
    for gpus in (None, 64):
        description = describe(Workload.of(jobs, "t"), gpus)
        text = read(write_describe_report(description, tmp_path, title="Trace", facts={}, png=True))
        assert text.count("<svg ") == 8
        assert f"<b>{count:,}</b>" in text
    for name in ("load", "durations", "gaps", "widths"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000


def test_the_table_of_a_comparison_stands_above_its_charts_with_a_row_for_runs_that_are_alike(
    tmp_path: Path,
) -> None:
    sjf = simulated(shortest_first=True)
    runs = {"fifo": small_run(), "again": small_run(), "sjf": sjf}
    grid = Grid.of(GridRun(name, {"policy": name}, None, 0, run) for name, run in runs.items())
    write_compare_report(runs, tmp_path, title="three", facts={}, grid=grid)
    text = read(tmp_path / "report.html")
    assert text.index('id="verdict"') < text.index('id="comparison"') < text.index('id="times"')
    assert '<th scope="row">fifo, again</th>' in text
