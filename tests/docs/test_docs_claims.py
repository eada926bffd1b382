"""The page of the papers' claims says what the studies' committed pages say, and leaves none out."""

import re

import make_claims
import pytest

EXPERIMENTS = make_claims.ROOT / "experiments"
STUDIES = [study for studies in make_claims.STUDIES.values() for study in studies]
GUESSES = re.compile(
    r"\b(we think|we believe|probably|perhaps|presumably|likely|seems?)\b", re.IGNORECASE
)


def test_page_is_up_to_date() -> None:
    written = make_claims.PAGE.read_text(encoding="utf-8")
    assert written == make_claims.made(), "run: python docs/make_claims.py"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_row_is_a_claim_of_a_committed_page_and_says_why_where_it_does_not_hold(
    study: make_claims.Study,
) -> None:
    rows = list(make_claims.rows(study))
    page = study.page.read_text(encoding="utf-8")
    assert rows
    for row in rows:
        assert f"| {row.paper} | {row.seen} | {'yes' if row.holds else '**no**'} |" in page
        assert bool(row.why) is not row.holds
        assert not GUESSES.search(row.why)
        assert not re.search(r"\d[\d.]* (%|h|s)\b", row.why), "figures are the studies'"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_no_reason_is_left_of_a_claim_that_holds(study: make_claims.Study) -> None:
    failed = [row.paper for row in make_claims.rows(study) if not row.holds]
    unused = [said for said in study.why if not any(paper.startswith(said) for paper in failed)]
    assert unused == []


def test_every_study_of_the_five_papers_with_a_claim_is_on_the_page() -> None:
    pages = {
        f"{folder}/{page.stem}"
        for folder in ("blox", "pcs", "chronus", "anticipatory", "shockwave")
        for page in (EXPERIMENTS / folder / "results").glob("*.md")
        if "| agrees |" in page.read_text(encoding="utf-8")
    }
    assert pages <= {study.name for study in STUDIES}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_command_of_a_study_is_a_program_of_the_repository(study: make_claims.Study) -> None:
    python, program, *_ = study.made_by.split()
    assert python == "python"
    assert (make_claims.ROOT / program).is_file()
