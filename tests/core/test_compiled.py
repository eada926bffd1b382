"""What is said while loops are compiled, and when machine code is made anew."""

import pytest

from volvelle.core import compiled
from volvelle.core.state import Classes, Jobs


def test_that_it_compiles_is_said_once_and_only_where_it_takes_more_than_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = 0.0
    monkeypatch.setattr("volvelle.core.compiled.time.monotonic", lambda: clock)
    said: list[float] = []
    announcement = compiled._Announcement(lambda: said.append(clock))
    for seconds in (0.75, 0.75, 0.75, 5.0, 5.0):
        announcement.begun()
        clock += seconds
        announcement.done()
    assert said == [1.5]


def test_a_loop_within_a_slow_one_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("volvelle.core.compiled.time.monotonic", lambda: clock)
    said: list[float] = []
    announcement = compiled._Announcement(lambda: said.append(clock))
    announcement.begun()
    clock = 3.0
    announcement.begun()
    assert said == [3.0]


def test_machine_code_is_outdated_where_a_table_that_it_is_given_gets_other_columns() -> None:
    def first(jobs: Jobs) -> int:
        return len(jobs)

    before = compiled._stamp(first)
    first.__annotations__["jobs"] = Classes
    assert compiled._stamp(first) != before
