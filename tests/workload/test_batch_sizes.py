"""Shockwave's batch-size schedules: the rules against the reference's tables, and what they promise."""

import csv
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems_here import needs

from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.workload.batch_sizes import (
    CRITICAL,
    DATASET_SAMPLES,
    DOUBLINGS,
    LARGEST,
    Mode,
    Phase,
    executed,
    profiled,
)
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload


def written(phases: list[Phase]) -> str:
    return ";".join(f"{phase.epoch}:{phase.batch_size}" for phase in phases)


def patterns(shared: Path, file: str) -> list[dict[str, str]]:
    with (shared / "golden/shockwave" / file).open(newline="") as stream:
        names, *rows = csv.reader(stream)
    head = names[: len(rows[0]) - 1]
    return [dict(zip([*head, "regimes"], row, strict=True)) for row in rows]


def test_gns_doubles_where_the_references_table_says(shared: Path) -> None:
    table = patterns(shared, "gns_patterns.csv")
    for row in table:
        size, gpus = int(row["initial_bs"]), int(row["scale_factor"])
        assert written(executed(row["model"], size, Mode.GNS, gpus, 760)) == row["regimes"]
    assert len(table) == 92


def test_accordion_is_profiled_as_in_the_reference(shared: Path) -> None:
    table = patterns(shared, "accordion_profile_patterns.csv")
    for row in table:
        size, epochs = int(row["initial_bs"]), int(row["num_epochs"])
        phases = profiled(row["model"], size, Mode.ACCORDION, 1, epochs)
        assert written(phases) == row["regimes"]
    assert len(table) == 69


@given(
    st.sampled_from([*DOUBLINGS, ("Transformer", 64), ("CycleGAN", 1), ("unheard of", 7)]),
    st.sampled_from(list(Mode)),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.integers(1, 400),
)
def test_phases_start_at_the_first_size_and_each_changes_it(
    model_and_size: tuple[str, int], mode: Mode, gpus: int, epochs: int
) -> None:
    model, size = model_and_size
    for phases in (
        executed(model, size, mode, gpus, epochs),
        profiled(model, size, mode, gpus, epochs),
    ):
        assert phases[0] == (0, size)
        assert phases[-1].epoch < epochs
        for before, after in itertools.pairwise(phases):
            assert before.epoch < after.epoch
            assert before.batch_size != after.batch_size
        assert mode is not Mode.STATIC or len(phases) == 1


def test_what_is_executed_knows_no_head_of_thirty_percent_and_no_later_drops() -> None:
    job = ("Recommendation", 512, Mode.ACCORDION, 1, 100)
    assert written(executed(*job)) == "0:512;30:8192"
    assert written(profiled(*job)).startswith("0:512;31:8192;60:512;")


def test_a_gns_job_that_ends_after_its_second_doubling_is_profiled_with_a_slip() -> None:
    assert written(executed("LM", 10, Mode.GNS, 1, 23)) == "0:10;11:20;21:40"
    assert written(profiled("LM", 10, Mode.GNS, 1, 23)) == "0:10;11:20;21:40;22:10"
    assert written(profiled("LM", 10, Mode.GNS, 1, 22)) == "0:10;11:20;21:10"
    assert written(profiled("LM", 10, Mode.GNS, 1, 20)) == "0:10;11:20"


def test_every_schedule_is_of_a_model_with_a_data_set() -> None:
    models = {model for model, _ in DOUBLINGS} | set(CRITICAL) | set(LARGEST)
    assert models <= set(DATASET_SAMPLES)


TRACE = "{type}\tcmd\tdir\t--steps\t0\t{steps}\t1\t{mode}\t1\t-1\t100\t0\n"


def job(folder: Path, type: str, mode: str, steps: int, rates: str) -> tuple[Workload, Job]:
    (folder / "a.trace").write_text(TRACE.format(type=type, mode=mode, steps=steps))
    (folder / "rates.json").write_text(rates)
    options = {"throughputs": folder / "rates.json", "gpu_type": "v100"}
    workload = read_trace(folder / "a.trace", options=options)
    return workload, workload.jobs[0]


def rates(*sizes: int, model: str = "ResNet-18") -> str:
    lines = (f'"(\'{model} (batch size {size})\', 1)": {{"null": 10.0}}' for size in sizes)
    return f'{{"v100": {{{", ".join(lines)}}}}}'


@needs("gavel")
def test_larger_batches_make_steps_worth_more(tmp_path: Path) -> None:
    """50,000 samples: 391 steps an epoch of 128, 196 of 256, so 20 epochs take 782 + 391 s less."""
    _, found = job(tmp_path, "ResNet-18 (batch size 128)", "accordion", 391 * 20, rates(128, 256))
    assert [regime.batch_size for regime in found.truth.regimes] == [128, 256]
    assert found.truth.regimes[1].start_work == 391 * 10
    assert found.seconds_on(1) == pytest.approx((391 * 10 + 196 * 10) / 10)


@needs("gavel")
def test_a_change_to_a_size_without_a_rate_is_refused(tmp_path: Path) -> None:
    _, found = job(tmp_path, "ResNet-18 (batch size 16)", "gns", 3125 * 60, rates(16, 32, 128, 256))
    assert [regime.batch_size for regime in found.truth.regimes] == [16, 32]


@needs("gavel")
def test_an_unknown_model_keeps_its_size_and_is_counted(tmp_path: Path) -> None:
    made, found = job(tmp_path, "VGG (batch size 16)", "gns", 100, rates(16, model="VGG"))
    assert found.truth.regimes == ()
    assert made.report is not None
    assert made.report.repaired == {"batch-size changes unknown: first batch size kept": 1}


@needs("gavel")
def test_an_unknown_mode_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"unknown mode.*column mode: 'gsn'"):
        job(tmp_path, "ResNet-18 (batch size 16)", "gsn", 100, rates(16))
