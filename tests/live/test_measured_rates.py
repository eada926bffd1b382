"""What progress reports show of a job is kept, and is what later jobs of its name are declared to do."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import ControllerHarness
from systems_here import needs

from volvelle.cli.formatting import format_measured
from volvelle.core.fork import Fork
from volvelle.live import measured_rates
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.messages import AttemptProgress
from volvelle.live.records import RateMeasured
from volvelle.model.job import JobSpec
from volvelle.model.throughput import Linear, PerType, Table

TYPES = ("V100", "A100")


def measured(
    rate: float, gpus: int = 1, kind: str = "", nodes: int = 1, **more: Any
) -> RateMeasured:
    told: dict[str, Any] = {"user": "ada", "name": "bert", "epochs": False, "total": 1000.0, **more}
    return RateMeasured(gpu_type=kind, gpus=gpus, nodes=nodes, rate=rate, **told)


def declared(kept: Iterable[RateMeasured], types: tuple[str, ...] = ("",), **asked: Any) -> JobSpec:
    spec = JobSpec(id="0", submit_time=0.0, user="ada", name="bert", **asked)
    return MeasuredRates(kept).declare(spec, types)


def request(seconds: float = 1000, **more: Any) -> JobRequest:
    return JobRequest.model_validate({"command": ["sleep", str(seconds)], "name": "bert", **more})


def tell(
    harness: ControllerHarness, number: int, iterations: int, seconds: float, **more: Any
) -> None:
    run = harness.fake_cluster.runs[number]
    report = AttemptProgress(
        *run.start.key,
        iterations=iterations,
        saved_iterations=iterations,
        iteration_seconds=seconds,
        **{"total_iterations": 1000, **more},
    )
    harness.fake_cluster.outbox.append(report)
    harness.deliver()


def spec(harness: ControllerHarness, number: int) -> JobSpec:
    return harness.controller._cycle.state.scheduler.spec(number)


def test_the_next_job_of_a_name_takes_as_long_as_measured_on_its_gpus() -> None:
    kept = [measured(2.0, 1), measured(3.0, 2)]
    assert declared(kept, gpus=1.0).estimate_seconds == 500.0
    assert declared(kept, gpus=2.0).estimate_seconds == pytest.approx(1000 / 3)
    assert declared(kept, gpus=4.0).estimate_seconds == pytest.approx(1000 / 6), "in proportion"
    assert declared(kept, gpus=2.0, estimate_seconds=60.0).estimate_seconds == 60.0
    assert declared(kept, gpus=2.0).throughput is None, "a gang on one type needs none"
    others = [measured(9.0, name="gpt"), measured(9.0, user="bob")]
    assert declared(others).estimate_seconds is None


def test_an_elastic_job_gets_rates_by_gpus_and_one_of_several_types_rates_by_type() -> None:
    by_gpus = [measured(2.0, 1), measured(3.0, 2)]
    elastic = declared(by_gpus, gpus=1.0, max_gpus=4.0)
    assert elastic.throughput == Table((1.0, 1.5, 2.2, 3.0))
    by_type = [measured(2.0, 1, "V100"), measured(5.0, 1, "A100")]
    typed = declared(by_type, TYPES)
    assert typed.throughput == PerType({"V100": Linear(1.0), "A100": Linear(2.5)})
    assert (typed.first_type, typed.estimate_seconds) == ("V100", 500.0)
    only_one = declared(by_type, TYPES, gpu_types=("A100",))
    assert (only_one.throughput, only_one.estimate_seconds) == (None, 200.0)
    unseen = declared(by_type[:1], TYPES)
    assert unseen.throughput == PerType({"V100": Linear(1.0), "A100": Linear(1.0)})
    mine = Linear(7.0)
    assert declared(by_type, TYPES, throughput=mine).throughput == mine


def test_nothing_that_a_job_makes_up_leads_out_of_bounds() -> None:
    wild = [measured(1e-9, 1, "V100"), measured(1e12, 1, "A100"), measured(1.0, 1, "V100", nodes=2)]
    spec = declared(wild, TYPES)
    assert spec.throughput == PerType({"V100": Linear(1.0), "A100": Linear(1e6)})
    assert spec.estimate_seconds is None, "thirty thousand years"
    assert 0.0 <= spec.spread_slowdown <= 1000.0
    wide = declared([measured(1.0, 1), measured(1.9, 2)], gpus=1.0, max_gpus=1e6).throughput
    assert isinstance(wide, Table)
    assert len(wide.rates) == 1024


def test_slowdown_over_nodes_is_what_was_measured_and_units_are_not_mixed() -> None:
    spread = [measured(4.0, 4), measured(2.0, 4, nodes=2)]
    assert declared(spread, gpus=4.0).spread_slowdown == 1.0
    assert declared(spread, gpus=4.0).estimate_seconds == 250.0, "on the fewest nodes"
    assert declared(spread, gpus=4.0, spread_slowdown=0.5).spread_slowdown == 0.5
    over_racks = [measured(4.0, 4), measured(2.0, 4, nodes=2, nodes_apart=3.0)]
    assert declared(over_racks, gpus=4.0).spread_slowdown == 0.25, "racks count as nodes"
    mixed = [measured(4.0, 4), measured(0.1, 2, epochs=True, total=10.0)]
    assert declared(mixed, gpus=4.0).estimate_seconds == pytest.approx(50.0)


def test_only_what_is_news_is_kept_and_names_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = MeasuredRates([measured(2.0)])
    assert not kept.is_news(measured(2.05))
    assert kept.is_news(measured(2.2))
    assert kept.is_news(measured(2.0, total=500.0))
    assert kept.is_news(measured(2.0, 2))
    for wild in (measured(1e-20), measured(1e20), measured(9.0, total=1e15)):
        assert not kept.is_news(wild), "jobs write what they want"
    monkeypatch.setattr(measured_rates, "MAX_NAMES", 2)
    for name in ("a", "bert", "c"):
        kept.add(measured(3.0, name=name))
    assert [one.name for one in kept.all] == ["bert", "c"]


def test_reports_of_a_job_are_measured_and_outlive_the_server(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x2:V100,1x2:A100", estimator="measured")
    first = harness.submit(request(gpu_types=["A100"], gpus=2))
    harness.step(1)
    tell(harness, first, 1, 0.5)
    assert not harness.controller.measured_rates("ada", "bert"), "of one iteration nothing is known"
    tell(harness, first, 11, 0.5)
    (kept,) = harness.controller.measured_rates("ada", "bert")
    assert (kept.gpu_type, kept.gpus, kept.nodes, kept.rate) == ("A100", 2, 1, 2.0)
    entries = harness.controller._cycle.state.next_seq
    tell(harness, first, 21, 0.51)
    assert harness.controller._cycle.state.next_seq == entries, "no news is no entry"
    for snapshot in (False, True):
        harness.crash(snapshot=snapshot)
        harness.deliver()
        assert harness.controller.measured_rates("ada", "bert") == (kept,)
    second = harness.submit(request(gpu_types=["A100"], gpus=1))
    assert spec(harness, second).estimate_seconds == 1000.0
    anyone = harness.submit(JobRequest(command=("sleep", "9"), gpu_types=("A100",)))
    assert spec(harness, anyone).estimate_seconds is None


@pytest.mark.parametrize(("slow", "enough", "seconds"), [(0.084, 11, 0.011), (90.0, 3, 30.0)])
def test_a_first_iteration_does_not_outweigh_what_was_declared(
    slow: float, enough: int, seconds: float, tmp_path: Path
) -> None:
    harness = ControllerHarness.at(tmp_path, estimator="measured")
    number = harness.submit(request(estimate="10m"))
    harness.step(1)

    def left() -> float:
        return Fork(harness.controller._cycle.state.scheduler).until().finish[number] - 1.0

    declared_left = left()
    tell(harness, number, 1, slow, total_iterations=30_000)
    assert left() == declared_left == pytest.approx(600.0, abs=2.0)
    tell(harness, number, enough, seconds, total_iterations=30_000)
    assert left() == pytest.approx((30_000 - enough) * seconds, abs=2.0), "at once, then"
    (kept,) = harness.controller.measured_rates("ada", "bert")
    assert kept.rate == pytest.approx(1.0 / seconds)


def test_epochs_count_where_a_script_tells_them(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    number = harness.submit(request())
    harness.step(1)
    tell(harness, number, 5, 0.1, epochs=0.05, total_epochs=10)
    tell(harness, number, 105, 0.1, epochs=1.05, total_epochs=10)
    (kept,) = harness.controller.measured_rates("ada", "bert")
    assert kept.rate == pytest.approx(0.1)
    assert (kept.epochs, kept.total) == (True, 10.0)


@needs("gavel")
def test_gavel_takes_the_next_job_of_a_name_that_was_measured(tmp_path: Path) -> None:
    cluster = "1x2:V100,1x2:A100"
    harness = ControllerHarness.at(tmp_path, cluster, "gavel-fifo:round=10", estimator="measured")
    for kind, seconds in (("V100", 1.0), ("A100", 0.25)):
        number = harness.submit(request(30, gpu_types=[kind]))
        harness.step(10)
        tell(harness, number, 0, seconds)
        tell(harness, number, 10, seconds)
        harness.step(40)
    number = harness.submit(request())
    harness.step(10)
    (grant,) = harness.fake_cluster.runs[number].start.grants
    assert harness.controller._cycle.state.scheduler.resources.nodes[1].name == grant.node
    assert spec(harness, number).throughput == PerType({"V100": Linear(1.0), "A100": Linear(4.0)})


def test_what_was_measured_is_told_in_words() -> None:
    told = [
        {"gpu_type": "A100", "gpus": 4, "nodes": 2, "rate": 5.125, "epochs": False, "total": 0.0},
        {"gpu_type": "", "gpus": 1, "nodes": 1, "rate": 0.5, "epochs": True, "total": 9.0},
    ]
    assert format_measured(told) == "1 GPU 1,800 epochs/h, 4 A100 over 2 nodes 5.12 iterations/s"
