"""A run directory is read back as it was written, or says what is wrong with it."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate import run_directory
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.simulate.run_directory import RunRecord, RunStatus
from volvelle.simulate.sources import Source, generated

SETTING = Setting(
    cluster=parse_cluster("2x8"),
    composition=WrittenComposition(policy="las", placement="consolidated"),
)


@pytest.fixture(scope="module")
def made() -> tuple[Source, Simulation]:
    source = generated("demo:jobs=40,gpus=16", 1)
    return source, simulate(source.workload, SETTING)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other, equal_nan=_real(one)))
    if hasattr(one, "__dataclass_fields__") and not isinstance(one, type):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


def _real(column: np.ndarray[Any, Any]) -> bool:
    return bool(column.dtype.kind == "f")


@pytest.mark.parametrize("predicted", [True, False])
def test_outcomes_are_read_as_they_were_written(
    made: tuple[Source, Simulation], tmp_path: Path, predicted: bool
) -> None:
    outcomes = made[1].outcomes
    if predicted:
        outcomes = replace(outcomes, predicted_finish=outcomes.finish + 1.0)
    run_directory.write_outcomes(outcomes, tmp_path / "outcomes.npz")
    read = run_directory.load_outcomes(tmp_path / "outcomes.npz")
    for field in fields(Outcomes):
        assert same(getattr(outcomes, field.name), getattr(read, field.name)), field.name


def test_a_record_is_read_as_it_was_written(
    made: tuple[Source, Simulation], tmp_path: Path
) -> None:
    source, simulation = made
    record = RunRecord.of("las", source.origin, SETTING)
    run_directory.begin(tmp_path, record)
    assert run_directory.read_record(tmp_path).status is RunStatus.RUNNING
    run_directory.finish(tmp_path, record, simulation)
    read = run_directory.read_record(tmp_path)
    assert read.status is RunStatus.FINISHED
    assert read.events == simulation.events
    assert read.describes_same(RunRecord.of("renamed", source.origin, SETTING))
    other = Setting(cluster=SETTING.cluster, composition=SETTING.composition, seed=1)
    assert not read.describes_same(RunRecord.of("las", source.origin, other))


def test_a_run_that_is_not_over_says_so(made: tuple[Source, Simulation], tmp_path: Path) -> None:
    record = RunRecord.of("las", made[0].origin, SETTING)
    run_directory.begin(tmp_path, record)
    with pytest.raises(Problem, match="its run is running"):
        run_directory.read_outcomes(tmp_path, record)


def test_damaged_files_are_named(made: tuple[Source, Simulation], tmp_path: Path) -> None:
    record = RunRecord.of("las", made[0].origin, SETTING)
    (tmp_path / "outcomes.npz").write_bytes(b"PK but no archive")
    with pytest.raises(Problem, match=r"outcomes.npz cannot be read"):
        run_directory.read_outcomes(tmp_path, record)
    (tmp_path / "run.json").write_text('{"format": 1}')
    with pytest.raises(Problem, match=r"run.json cannot be read"):
        run_directory.read_record(tmp_path)
    newer = msgspec.structs.replace(record, format=99)
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(newer))
    with pytest.raises(Problem, match="is of format 99"):
        run_directory.read_record(tmp_path)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    with pytest.raises(KeyboardInterrupt), run_directory.written(path) as partial:
        partial.write_text("half of i")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with run_directory.written(path) as partial:
        partial.write_text("all of it")
        assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["jobs.csv"]


def test_a_folder_in_which_none_can_be_made_is_named() -> None:
    with pytest.raises(Problem, match="cannot make /proc/x: /proc takes no new folders"):
        run_directory.prepare(Path("/proc/x"))
