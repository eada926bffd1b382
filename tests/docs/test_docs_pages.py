"""What README.md and the documentation show is so: commands, programs, files, links, pictures."""

import re
from pathlib import Path

import pytest
import shown

PAGES = shown.pages()
RUN = [page for page in PAGES if any(shown.blocks(page.read_text(encoding="utf-8")))]
LONG = {"docs/tutorial/guarantees-kept.md"}  # its deadlines have to pass
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")


def _name(page: Path) -> str:
    return str(page.relative_to(shown.ROOT))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=_name(page), marks=pytest.mark.slow if _name(page) in LONG else ())
        for page in RUN
    ],
)
def test_every_command_shown_does_what_the_page_says(page: Path) -> None:
    found = shown.differences(page)
    said = "\n\n".join(map(str, found))
    assert not found, f"{said}\n\nIf that is right now: python docs/shown.py --update {_name(page)}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    inside = [target for target in targets if "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    folder = shown.ROOT / "docs"
    indexed = {
        (index.parent / target).resolve()
        for index in (folder / "README.md", *folder.glob("*/README.md"))
        for target in LINK.findall(index.read_text(encoding="utf-8"))
    }
    pages = {page for page in PAGES if folder in page.parents and page.name != "README.md"}
    assert sorted(pages - indexed) == []


def test_pictures_are_small() -> None:
    pictures = list((shown.ROOT / "docs" / "pictures").iterdir())
    assert pictures
    assert [picture.name for picture in pictures if picture.stat().st_size > 200_000] == []


def test_an_update_leaves_out_what_the_page_leaves_out() -> None:
    shown_before = ["jobs", " JCT   1h", "...", " utilisation  70 %", "...", "Report: here", ""]
    printed = ["jobs", " JCT   2h", " wait  3s", " utilisation  80 %", " queue  1", "Report: here"]
    assert shown.abridged(shown_before, printed) == [
        "jobs", " JCT   2h", "...", " utilisation  80 %", "...", "Report: here", "",
    ]  # fmt: skip
    assert shown.abridged(["?"], printed) == printed
