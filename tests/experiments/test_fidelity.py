"""The experiment on fidelity: a live run and its simulation are of the same jobs, simulations only shake."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the extra 'live' is not installed")

FOLDER = Path(__file__).parents[2] / "experiments" / "fidelity"


@pytest.fixture
def fidelity(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return importlib.import_module("fidelity")


def test_jobs_ask_for_about_the_load_it_says(fidelity: ModuleType) -> None:
    jobs = fidelity.planned(2_000, fidelity.MADE_UP)
    asked = sum(job.work_seconds * job.gpus for job in jobs)
    assert asked / (16 * jobs[-1].after) == pytest.approx(1.0, abs=0.1)
    assert {job.gpus for job in jobs} == {1, 2, 4}


def test_live_jobs_and_simulated_ones_are_the_same(fidelity: ModuleType) -> None:
    jobs = [fidelity.PlannedJob(0.2 * n, gpus, 10, 0.1) for n, gpus in enumerate((1, 4, 2))]
    costs = {"sleep": fidelity.Costs(starts=(0.2, 0.6), checkpoint=0.1, restore=0.0)}
    nodes = fidelity.Nodes("2x8", "local:pretend=true")
    pair = fidelity.pair("FIFO", "fifo", nodes, jobs, costs)
    assert len(pair.shaken) > 1
    for outcomes in (pair.live, pair.simulated, *pair.shaken):
        assert outcomes.gpus.tolist() == [1.0, 4.0, 2.0]
        assert np.all(outcomes.jct >= 1.0)
    assert pair.live.submit_time == pytest.approx(pair.simulated.submit_time)
    assert pair.simulated.jct == pytest.approx([1.4] * 3)
    assert 0.0 < pair.floor <= 0.2 / 1.4 + 1e-9


def test_jobs_on_a_gpu_train_whole_epochs_for_about_as_long_as_they_are_to(
    fidelity: ModuleType,
) -> None:
    jobs = fidelity.planned(200, fidelity.ONE_GPU, step=0.04)
    assert all(job.kind == "gpu" and job.iterations % 25 == 0 for job in jobs)
    assert min(job.work_seconds for job in jobs) >= 6.0 - 0.5
    assert max(job.work_seconds for job in jobs) <= 40.0 + 0.5
