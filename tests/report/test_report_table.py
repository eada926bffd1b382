"""Tables: best cells, and the four ways they are shown."""

import csv
import io
import json
import math
from typing import Any

import pytest
from report_runs import simulated, small_run

from volvelle.model.problems import Problem
from volvelle.report.table import (
    Amount,
    Column,
    Table,
    comparison,
    format_cell,
    format_number,
    has_room_for_deltas,
    to_csv,
    to_html,
    to_json,
    to_text,
)

NAN = float("nan")


def small() -> Table:
    return Table(
        "Side by side",
        (
            Column("run", "policy"),
            Column("jct:mean", "mean JCT", "s", "lower"),
            Column("utilisation", "utilisation", "%", "higher"),
            Column("service", "service", "GPU s"),
        ),
        (
            ("fifo", 34860.0, 80.5, 3600.0),
            ("srsf", 10920.0, 91.04, 7200.0),
            ("<b>new</b>", NAN, 91.0, None),
        ),
    )


def test_the_best_follows_the_metric_and_cells_as_good_share_it() -> None:
    assert small().best() == {(1, 1), (1, 2), (2, 2)}  # 91.04 and 91.0


def test_stars_go_by_the_rule_of_the_verdict_and_not_by_how_figures_read() -> None:
    column = (Column("policy", "policy"), Column("jct:p99", "p99 JCT", "s", "lower"))
    rows = (("a", 107_000.0), ("b", 108_600.0), ("c", 107_400.0))  # all read 1d 06h, or nearly
    assert Table("", column, rows).best() == {(0, 1), (2, 1)}
    assert Table("", column, (rows[0], rows[2])).best() == frozenset()


def test_nothing_is_best_where_all_are_as_good_or_one_row_stands_alone() -> None:
    column = (Column("run", "policy"), Column("x", "x", "s", "lower"))
    assert Table("", column, (("a", 0.0), ("b", 0.0))).best() == frozenset()
    assert Table("", column, (("a", 1.0),)).best() == frozenset()
    assert Table("", column, (("a", NAN), ("b", 3.0))).best() == frozenset()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.123"), (12345.6, "12,346"), (99.96, "100"), (7, "7"), (0.0, "0"), (NAN, "-"),
     (math.inf, "inf"), (0.00004, "<0.001"), (1234567, "1,234,567")],
)  # fmt: skip
def test_numbers_for_people(value: float, text: str) -> None:
    assert format_number(value) == text


def test_cells_show_units_that_their_header_does_not() -> None:
    assert format_cell(93784.0, "s") == "1d 02h"
    assert format_cell(31.27, "%") == "31.3 %"
    assert format_cell(7200.0, "GPU s") == "2"
    assert format_cell(Amount(7200.0, "GPU s")) == "2 GPU h"
    assert format_cell(Amount(12.0, "jobs")) == "12 jobs"
    assert format_cell(Amount(NAN, "%")) == format_cell(None) == "-"
    assert small().columns[3].heading == "service (GPU h)"


def test_json_holds_raw_numbers_and_no_nan() -> None:
    document: dict[str, Any] = json.loads(to_json(small()))
    assert document["rows"][0] == {
        "run": "fifo", "jct:mean": 34860.0, "utilisation": 80.5, "service": 3600.0,
    }  # fmt: skip
    assert document["rows"][2]["jct:mean"] is None
    assert document["columns"][1] == {
        "key": "jct:mean", "title": "mean JCT", "unit": "s", "better": "lower",
    }  # fmt: skip
    assert document["best"] == {"jct:mean": [1], "utilisation": [1, 2]}


def test_csv_has_units_in_its_header_and_empty_unknowns() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(small()))))
    assert rows[0] == ["run", "jct:mean [s]", "utilisation [%]", "service [GPU s]"]
    assert rows[1] == ["fifo", "34860.0", "80.5", "3600.0"]
    assert rows[3][1] == rows[3][3] == ""


def test_the_terminal_table_stars_the_best_and_takes_no_markup_from_names() -> None:
    named = Table("t", small().columns, (*small().rows, ("[red]x", 1e6, 1.0, 1.0)))
    shown = to_text(named, width=120)
    assert "*3h 02m*" in shown
    assert "*91 %*" in shown
    assert "[red]x" in shown
    assert "*80.5" not in shown


def test_html_has_headers_marks_the_best_and_escapes() -> None:
    html = to_html(small())
    assert html.count('scope="col"') == 4
    assert html.count('scope="row"') == 3
    assert html.count('aria-label="best"') == 3
    assert 'class="number best" data-value="10920"' in html
    assert "<caption>Side by side</caption>" in html
    assert "<b>" not in html
    assert "&lt;b&gt;new" in html
    assert "nan" not in html


def test_deltas_stand_beside_figures_where_a_row_is_the_baseline() -> None:
    table = small().against("fifo")
    assert table.delta(1, 1) == pytest.approx(100 * (10920 / 34860 - 1))
    assert table.delta(1, 2) == pytest.approx(10.54)  # shares differ by points
    for nowhere in [
        (0, 1),
        (1, 3),
        (2, 1),
    ]:  # the baseline itself, a column of no contest, no figure
        assert math.isnan(table.delta(*nowhere))
    html = to_html(table)
    assert html.count('class="delta"') == 3
    assert '3h 02m <span class="delta">\u221269 %</span>' in html
    assert '91 % <span class="delta">+11 pt</span>' in html
    assert "delta" not in to_html(small().against("nobody"))


def test_the_terminal_shows_deltas_where_they_fit() -> None:
    table = small().against("fifo")
    wide = to_text(table, width=100)
    assert "-69 %" in wide
    assert "+11 pt" in wide
    assert wide.count(" pt") == 2
    needed = max(map(len, wide.splitlines())) + 1  # the blank at the end of lines
    assert to_text(table, width=needed) == wide
    assert has_room_for_deltas(table, needed) > has_room_for_deltas(table, needed - 1)
    assert to_text(table, width=needed - 1) == to_text(small(), width=needed - 1)


def test_columns_with_nothing_in_them_can_be_left_out() -> None:
    table = Table("", (Column("a", "a"), Column("b", "b", "s")), (("x", NAN), ("y", None)))
    assert [column.key for column in table.without_empty_columns().columns] == ["a"]


def test_a_comparison_measures_every_run() -> None:
    run = small_run()
    table = comparison({"one": run, "two": run}, ["jct:mean", "utilisation", "unfair"])
    assert [c.heading for c in table.columns] == ["policy", "mean JCT", "utilisation", "unfair"]
    assert table.rows[0][0] == "one"
    assert table.rows[0][1] == pytest.approx(float(run.jct.mean()))
    with pytest.raises(Problem, match="did you mean 'jct'"):
        comparison({"one": run}, ["jtc:mean"])


def test_a_comparison_says_how_many_jobs_finished_where_not_all_did() -> None:
    cut = simulated(until=40_000.0)
    table = comparison({"all": simulated(), "cut": cut}, ["jct:mean"])
    assert table.columns[1].title == "jobs finished"
    assert [row[1] for row in table.rows] == [200, int((cut.status == "finished").sum())]
