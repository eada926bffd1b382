"""What is said while loops are compiled, and when machine code is made anew."""

from pathlib import Path
from typing import Any

import pytest

from volvelle.core.machine_code import files
from volvelle.core.machine_code.announcing import Announcement
from volvelle.core.machine_code.kernels import stamp
from volvelle.core.machine_code.loading import called
from volvelle.core.state import Classes, Jobs


def test_that_it_compiles_is_said_once_and_only_where_it_takes_more_than_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = 0.0
    monkeypatch.setattr("volvelle.core.machine_code.announcing.time.monotonic", lambda: clock)
    said: list[float] = []
    announcement = Announcement(lambda: said.append(clock))
    for seconds in (0.75, 0.75, 0.75, 5.0, 5.0):
        announcement.begun()
        clock += seconds
        announcement.done()
    assert said == [1.5]


def test_a_loop_within_a_slow_one_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("volvelle.core.machine_code.announcing.time.monotonic", lambda: clock)
    said: list[float] = []
    announcement = Announcement(lambda: said.append(clock))
    announcement.begun()
    clock = 3.0
    announcement.begun()
    assert said == [3.0]


def test_machine_code_is_outdated_where_a_table_that_it_is_given_gets_other_columns() -> None:
    def first(jobs: Jobs) -> int:
        return len(jobs)

    before = stamp(first)
    first.__annotations__["jobs"] = Classes
    assert stamp(first) != before


def loop_of_version(folder: Path, version: int) -> Any:
    """The loop of a module of which there are several versions."""
    file = folder / "versioned.py"
    file.write_text(f"VERSION = {version}\n\n\ndef loop(given):\n    return given * VERSION\n")
    names: dict[str, Any] = {"__name__": "versioned"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["loop"]


def test_versions_that_run_at_once_never_write_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose sources were replaced compiles on; what it keeps must not be taken for the new."""
    monkeypatch.setenv(files.FOLDER, str(tmp_path / "kept"))
    kept: list[set[str]] = []
    for version in (1, 2, 1):
        assert called(loop_of_version(tmp_path, version), (int, int))(10) == 10 * version
        kept.append({file.name for file in tmp_path.rglob("*.o")})
    assert [len(names) for names in kept] == [1, 2, 2]
