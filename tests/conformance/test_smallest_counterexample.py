"""Promises are checked on the same draws for all parts, which are made once."""

import pytest
from hypothesis import strategies as st

from volvelle.testing.promises import on_random


def test_later_parts_are_checked_on_the_same_draws_and_fail_on_the_smallest() -> None:
    most, seen = 1000, []

    def check(number: int) -> None:
        seen.append(number)
        assert number <= most

    on_random(20, check, number=st.integers(0, 1000))
    first = seen.copy()
    assert len(set(first)) == 20
    seen.clear()
    on_random(20, check, number=st.integers(0, 1000))
    assert seen == first
    most = 10
    with pytest.raises(AssertionError):
        on_random(20, check, number=st.integers(0, 1000))
    assert seen[-1] == 11
