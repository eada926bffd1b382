"""The pages on papers say what the studies' committed pages say, and leave none out."""

import re
from pathlib import Path

import make_papers
import pytest

from volvelle.studies.registry import Study

EXPERIMENTS = make_papers.ROOT / "experiments"
REGISTRY = make_papers.registry
STUDIES = [study for paper in REGISTRY.papers for study in paper.studies]
GUESSES = re.compile(
    r"\b(we think|we believe|probably|perhaps|presumably|likely|seems?)\b", re.IGNORECASE
)


def test_pages_are_up_to_date() -> None:
    there = {
        path.name: path.read_text(encoding="utf-8") for path in make_papers.FOLDER.glob("*.md")
    }
    assert there == make_papers.made(), "run: python docs/make_papers.py"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_row_is_a_claim_of_a_committed_page_and_says_why_where_it_does_not_hold(
    study: Study,
) -> None:
    claims = make_papers.results.claims(study)
    page = REGISTRY.page(study).read_text(encoding="utf-8")
    assert claims
    for one in claims:
        assert f"| {one.paper} | {one.seen} | {'yes' if one.holds else '**no**'} |" in page
        assert bool(one.why) is not one.holds
        assert one.why != "no reason is registered"
        assert not GUESSES.search(one.why)
        assert not re.search(r"\d[\d.]* (%|h|s)\b", one.why), "figures are the studies'"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_no_reason_is_left_of_a_claim_that_holds(study: Study) -> None:
    failed = [one.paper for one in make_papers.results.claims(study) if not one.holds]
    unused = [said for said in study.why if not any(paper.startswith(said) for paper in failed)]
    assert unused == []


def test_every_study_of_the_five_papers_with_a_claim_is_registered() -> None:
    pages = {
        f"{paper.name}/{page.stem}"
        for paper in REGISTRY.papers
        for page in (EXPERIMENTS / paper.name / "results").glob("*.md")
        if "| agrees |" in page.read_text(encoding="utf-8")
    }
    assert pages <= {study.name for study in STUDIES}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_study_is_a_program_with_a_committed_page_and_tables(study: Study) -> None:
    assert (EXPERIMENTS / study.run_by).is_file()
    assert REGISTRY.page(study).read_text(encoding="utf-8").startswith("# ")
    assert REGISTRY.table(study).is_file()
    assert study.small is None or REGISTRY.table(study, small=True).is_file()


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_curve_has_a_value_of_ours_at_every_point_of_the_paper(study: Study) -> None:
    for curve in study.curves:
        ours = curve.ours(REGISTRY.table(study))
        assert {name: [place for place, _ in points] for name, points in ours.items()} == {
            name: [place for place, _ in points] for name, points in curve.paper.items()
        }


def test_a_curve_divides_and_scales_what_the_table_has(tmp_path: Path) -> None:
    curve = next(one for one in REGISTRY.chosen("blox", None, "blox/termination")).curves[0]
    table = tmp_path / "termination.csv"
    table.write_text("termination,mean_jct_hours\nepochs,10\nepochs,30\nloss,15\n")
    [[place, value]] = curve.ours(table)["JCT"]
    assert place == "loss"
    assert value == pytest.approx(25.0)


def test_every_path_that_a_page_names_is_there() -> None:
    parts = [part.where for paper in REGISTRY.papers for part in paper.built]
    assert [
        where for where in parts if not (make_papers.ROOT / where / "README.md").is_file()
    ] == []
