"""The reference pages say what the code says."""

import functools
from pathlib import Path

import make_reference
import pytest

MARKED = [
    page
    for page in sorted(make_reference.REFERENCE.glob("*.md"))
    if make_reference.MADE in page.read_text(encoding="utf-8")
]

made = functools.cache(make_reference.made)


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == made().get(page.name), "run: python docs/make_reference.py"


def test_every_page_is_there() -> None:
    assert {page.name for page in MARKED} == set(made())
