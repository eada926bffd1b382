"""Energy and carbon: by hand on two GPU types, with nodes that fail and grams that change."""

from dataclasses import replace
from pathlib import Path

import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.power import Power, read_carbon, read_power
from volvelle.model.problems import Problem
from volvelle.report.sentences import Draws
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

HOUR = 3600.0


def measured(power: Power | None, cluster: str = "1x2:a100,1x2:v100") -> tuple[float, float]:
    """Energy and carbon of a job of an hour on both A100s, and one of two hours on a V100."""
    jobs = [
        Job(JobSpec(id="a", submit_time=0.0, gpus=2, gpu_types=("a100",)), Truth(work=2 * HOUR)),
        Job(JobSpec(id="b", submit_time=0.0, gpus=1, gpu_types=("v100",)), Truth(work=2 * HOUR)),
    ]
    setting = Setting(cluster=parse_cluster(cluster), composition=WrittenComposition("fifo"))
    outcomes = simulate(Workload(jobs), replace(setting, power=power)).outcomes
    return outcomes.energy_kwh or 0.0, outcomes.carbon_kg or 0.0


def test_gpus_that_are_held_draw_their_types_power_and_others_that_of_idle_ones() -> None:
    power = Power({"a100": 400.0, "v100": 300.0}, idle=50.0)
    held = 2 * 400 + 2 * 300  # W for an hour
    idle = 2 * 50 + 2 * 50  # one V100 for both hours, both A100s for one
    assert measured(power)[0] == pytest.approx((held + idle) / 1000)


def test_carbon_goes_by_the_grams_of_each_time() -> None:
    power = Power({"busy": 1000.0}, carbon=((0.0, 100.0), (HOUR, 500.0)))
    # 3 kW in the first hour, 1 kW in the second.
    assert measured(power) == pytest.approx((4.0, 3 * 0.1 + 1 * 0.5))


def test_without_power_nothing_is_measured() -> None:
    assert measured(None) == (0.0, 0.0)


def test_power_is_read_with_units_and_for_every_type() -> None:
    power = read_power("a100=0.4kW, busy=300W,idle=60", None, ("a100", "v100"))
    assert (power.of("a100"), power.of("v100"), power.idle) == (400.0, 300.0, 60.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a10=400W,v100=300W", "'a10' (did you mean 'a100'?)"),
        ("a100=400W", "GPUs of type v100"),
        ("a100=lots,v100=300W", "'lots' as watts"),
    ],
)
def test_wrong_power_is_named(text: str, said: str) -> None:
    with pytest.raises(Problem) as problem:
        read_power(text, None, ("a100", "v100"))
    assert said in str(problem.value)


def test_carbon_is_a_number_or_a_table(tmp_path: Path) -> None:
    table = tmp_path / "grams.csv"
    table.write_text("time,g_per_kwh\n0,120\n3600,380.5\n")
    assert read_carbon(str(table)) == ((0.0, 120.0), (3600.0, 380.5))
    assert read_carbon("380") == ((0.0, 380.0),)
    table.write_text("time,g_per_kwh\n3600,120\n0,380\n")
    with pytest.raises(Problem, match="times ascend"):
        read_carbon(str(table))
    with pytest.raises(Problem, match="no number"):
        read_carbon("green")


def test_a_verdict_says_both() -> None:
    said = str(Draws("srsf", 90.0, "fifo", 100.0, (40.0, 50.0)))
    assert (
        said
        == "GPUs draw 90 kWh under srsf, 10 % less than under fifo: 40 kg of CO2 instead of 50 kg."
    )
    assert (
        str(Draws("srsf", 90.0, "fifo", 90.0, None))
        == "GPUs draw 90 kWh under srsf, as much as under fifo."
    )
