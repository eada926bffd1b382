"""``volvelle train-arrivals``, and the policy that goes by its model."""

from pathlib import Path

import pytest
from command_line import Volvelle

from volvelle.model.problems import Problem
from volvelle.systems.anticipatory.arrivals import ArrivalModel
from volvelle.systems.anticipatory.bins import RunTimes

pytest_plugins = ["command_fixtures"]

POOLS = """
[[nodes]]
gpus = 4

[[pools]]
name = "a"
quota = 2
lends = true

[[pools]]
name = "b"
quota = 2
lends = true
"""


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    """A trace of two pools in which a job comes every minute, and their cluster."""
    rows = [f"{n},{60 * n},1,50,{'ab'[n % 2]}" for n in range(200)]
    (tmp_path / "jobs.csv").write_text("id,submit_time,gpus,duration,pool\n" + "\n".join(rows))
    (tmp_path / "pools.toml").write_text(POOLS)
    return tmp_path


def test_a_model_of_a_trace_is_gone_by(volvelle: Volvelle, pools: Path) -> None:
    pytest.importorskip("lightgbm")
    ran = volvelle("train-arrivals", "jobs.csv", "--quanta", "1m/10m", "--run-times", "runs.json")
    assert ran.status == 0, ran.err
    seen = RunTimes.load(pools / "runs.json", (60.0, 600.0))
    assert seen.counts[("pool", "a")] == pytest.approx([(1 - 0.99**100) / 0.01, 0, 0])
    assert seen.longest == 50.0
    with pytest.raises(Problem, match="for bins that end at"):
        RunTimes.load(pools / "runs.json", (60.0, 700.0))
    earlier = ArrivalModel.load(pools / "arrivals.json").earlier
    assert earlier["a"].came[-1] == -60.0
    assert earlier["b"].came[-1] == 0.0
    run = ("simulate", "jobs.csv", "--cluster", "pools.toml", "--out", "run", "--policy")
    good = volvelle(*run, "anticipatory:model=arrivals.json,quanta=1m/10m")
    assert good.status == 0, good.err
    other = volvelle(*run[:-2], "other", run[-1], "anticipatory:model=arrivals.json")
    assert other.status == 1
    assert "is for quanta 1m/10m. Write quanta=1m/10m" in other.err


def test_bad_input_is_named(volvelle: Volvelle, pools: Path, trace: Path) -> None:
    assert "no job has a pool" in volvelle("train-arrivals", trace).err
    ran = volvelle("train-arrivals", "jobs.csv", "--quanta", "1h/5m")
    assert ran.status == 2
    assert "each quantum is longer than the one before" in ran.err
