"""Programs that the clock ends on a live scheduler: the journal says so, and what was decided holds."""

from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping

from volvelle.live.records import SolverEnded

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")


def _ended(harness: ControllerHarness) -> list[int]:
    records = [record for one in harness.controller.store.entries() for record in one.records]
    return [record.programs for record in records if isinstance(record, SolverEnded)]


def _three_of_two_gpus(harness: ControllerHarness) -> list[int]:
    harness.deliver()
    numbers = [harness.submit(sleeping(seconds, 1)) for seconds in (9, 7, 5)]
    harness.step(5)
    return numbers


def test_the_journal_notes_that_the_clock_ended_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ControllerHarness.at(tmp_path, policy="gavel-makespan:round=5")
    monkeypatch.setattr("volvelle.plan.programs.LATEST", 0.0)
    numbers = _three_of_two_gpus(harness)
    assert sum(_ended(harness)) > 0
    monkeypatch.undo()
    states = [harness.state(number) for number in numbers]
    harness.crash()
    harness.deliver()
    assert [harness.state(number) for number in numbers] == states
    for _ in range(6):
        harness.step(5)
    assert [harness.state(number) for number in numbers] == ["finished"] * 3


def test_without_that_the_journal_says_nothing(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="gavel-makespan:round=5")
    _three_of_two_gpus(harness)
    assert _ended(harness) == []
