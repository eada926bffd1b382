"""The reference pages say what the code says."""

import make_reference
import pytest

MADE = make_reference.made()


@pytest.mark.parametrize("name", MADE)
def test_page_is_up_to_date(name: str) -> None:
    text = (make_reference.REFERENCE / name).read_text(encoding="utf-8")
    assert text == MADE[name], "run: python docs/make_reference.py"


def test_no_page_is_left_of_what_is_gone() -> None:
    marked = {
        page.name
        for page in make_reference.REFERENCE.glob("*.md")
        if make_reference.MADE in page.read_text(encoding="utf-8")
    }
    assert marked == set(MADE)
