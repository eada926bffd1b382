"""Pages of reports in a browser, at a desk and on a phone: accessible, within the window, without errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import DESK, PHONE, chromium, needs_chromium, out_of_reach, overflow, violations
from systems_here import needs

import volvelle as vv
from volvelle.report.describe_report import write_describe_report
from volvelle.tune.picture import PAGE, write_pictures

pytestmark = [needs_chromium, needs("pcs")]

COVERED = """(heading) => {
  const box = heading.getBoundingClientRect();
  return document.elementFromPoint(box.x + 3, box.y + box.height / 2) !== heading;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The page of a comparison, of a run with its Gantt chart, of a trace and of a search."""
    folder = tmp_path_factory.mktemp("reports")
    jobs = vv.generate("lognormal:jobs=100,users=5", cluster="2x8")
    compared = vv.compare(jobs, cluster="2x8", policies=["fifo", "srsf", "las"])
    run = vv.simulate(jobs, cluster="2x8", policy="srsf", placement="consolidated")
    searched = vv.tune(jobs, cluster="2x8", policy="pcs", candidates=8, samples=1, sample_jobs=60)
    return [
        compared.report(folder / "compared"),
        run.report(folder / "run"),
        write_describe_report(jobs.describe(cluster="2x8"), folder / "trace", title="T", facts={}),
        write_pictures(searched.front, folder / "searched", facts={}, png=False),
    ]


@pytest.mark.parametrize("settings", [DESK, PHONE], ids=["desk, light", "phone, dark"])
def test_pages_are_accessible_fit_and_complain_of_nothing(
    browser: Any, pages: list[Path], settings: dict[str, Any]
) -> None:
    errors: list[str] = []
    page = browser.new_context(**settings).new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    for path in pages:
        page.goto(path.as_uri())
        assert not (found := violations(page)), f"{path}: {found}"
        assert overflow(page) <= 0, f"{path} is wider than the window"
        assert not out_of_reach(page), path
        for bar in page.locator(".runs").all():
            assert bar.evaluate("(bar) => bar.scrollWidth <= bar.clientWidth")
        if path.name == PAGE:
            figure = page.locator("#points tbody td.number").first.bounding_box()
            assert figure["x"] + figure["width"] <= settings["viewport"]["width"]
        assert page.locator("main, body").last.inner_text().count("Drag over a span") <= 1, path
    assert not errors


def test_the_default_columns_of_a_comparison_fit_a_desk(browser: Any, pages: list[Path]) -> None:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(pages[0].as_uri())
    table = page.locator("#comparison .table")
    assert "makespan" in table.inner_text()
    assert table.locator(".delta").count()
    assert table.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0


def test_a_link_to_a_section_leaves_its_heading_in_sight(browser: Any, pages: list[Path]) -> None:
    page = browser.new_context(**DESK).new_page()
    page.goto(pages[0].as_uri())
    for link in page.locator("nav a").all():
        link.click()
        heading = page.locator(f"{link.get_attribute('href')} h2")
        assert not heading.evaluate(COVERED), heading.inner_text()
