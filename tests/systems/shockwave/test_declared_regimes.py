"""Batch sizes to come as jobs declare their rules (Shockwave, NSDI'23, section 5)."""

import json
from pathlib import Path

import msgspec
import pytest

from volvelle.core.events import JobSubmitted, ProgressReported
from volvelle.core.fork import Fork
from volvelle.core.journal import replay
from volvelle.core.parts import KnownJob, estimators
from volvelle.core.snapshot import Snapshot
from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, Linear, PerBatchSize, PerType
from volvelle.simulate.world import World
from volvelle.systems.shockwave.regimes import DeclaredRegimes, RegimePredictor
from volvelle.testing.scenario import Scenario, happen

RATES = PerBatchSize({32: Linear(1.0), 64: Linear(2.0), 128: Linear(4.0)}, 32)


def adaptation(rule: ScalingRule, *sizes: int, **more: object) -> Adaptation:
    return msgspec.convert({"rule": rule, "epochs": 90.0, "sizes": sizes, **more}, Adaptation)


def spec(
    declared: Adaptation | None, throughput: AnyThroughput | None = RATES, **more: object
) -> JobSpec:
    base = JobSpec(id="0", submit_time=0.0, adaptation=declared, throughput=throughput)
    return msgspec.structs.replace(base, **more)


class Told:
    """One job, and what is believed of it as it goes on."""

    def __init__(self, declared: JobSpec, estimator: str = "declared-regimes") -> None:
        made = estimators.make(estimator)
        assert isinstance(made, RegimePredictor)
        self.estimator = made
        self.spec = declared
        self.believed = self.estimator.believe(JobSubmitted(0.0, 0, declared), 0).truth

    def after(self, work_done: float, batch_size: int | None = None) -> list[tuple[float, int]]:
        """What regimes are believed once it is so far."""
        known = KnownJob(self.spec, self.believed)
        belief = self.estimator.adapt(known, work_done, batch_size)
        if belief is not None:
            self.believed = belief.truth
        return self.regimes

    @property
    def regimes(self) -> list[tuple[float, int]]:
        return [(one.start_work, one.batch_size) for one in self.believed.regimes]


def test_accordion_takes_turns_as_often_as_declared_and_on_if_it_changes_oftener() -> None:
    told = Told(spec(adaptation(ScalingRule.ACCORDION, 32, 128, regimes=3)))
    assert told.regimes == [(0.0, 32), (30.0, 128), (60.0, 32)]
    assert told.after(10.0, 128) == [(0.0, 32), (10.0, 128), (50.0, 32)]
    assert told.after(20.0, 32) == [(0.0, 32), (10.0, 128), (20.0, 32)]
    assert told.after(30.0, 128)[-1] == (30.0, 128)
    assert told.after(40.0)[-1] == (30.0, 128)


def test_gns_doubles_up_to_its_limit_and_may_pass_a_size_over() -> None:
    told = Told(spec(adaptation(ScalingRule.GNS, 32, 128)))
    assert told.regimes == [(0.0, 32), (30.0, 64), (60.0, 128)]
    assert told.after(40.0) == [(0.0, 32), (40.0, 64), (65.0, 128)]
    assert told.after(40.0, 128) == [(0.0, 32), (40.0, 64), (40.0, 128)]


def test_a_limit_that_no_doubling_meets_is_the_last_size() -> None:
    assert adaptation(ScalingRule.GNS, 32, 100).ahead == (32, 64, 100)


def test_a_schedule_is_known_and_late_changes_are_still_to_come() -> None:
    expert = adaptation(ScalingRule.SCHEDULE, 32, 64, 128, begins=[0, 20, 80])
    told = Told(spec(expert))
    assert told.regimes == [(0.0, 32), (20.0, 64), (80.0, 128)]
    assert told.after(25.0) == [(0.0, 32), (25.0, 64), (80.0, 128)]
    assert told.after(26.0, 64) == [(0.0, 32), (26.0, 64), (80.0, 128)]


def test_a_sequence_of_ones_own_comes_in_its_order() -> None:
    told = Told(spec(adaptation(ScalingRule.SEQUENCE, 64, 32, 128)))
    assert told.regimes == [(0.0, 64), (30.0, 32), (60.0, 128)]
    assert told.after(45.0, 32) == [(0.0, 64), (45.0, 32), (67.5, 128)]


def test_of_an_unknown_rule_no_change_is_expected_but_those_that_come_are_followed() -> None:
    told = Told(spec(adaptation(ScalingRule.UNKNOWN, 32)))
    assert told.regimes == [(0.0, 32)]
    assert told.after(10.0, 128) == [(0.0, 32), (10.0, 128)]
    assert told.after(20.0, 32) == [(0.0, 32), (10.0, 128), (20.0, 32)]
    assert told.after(30.0, 48)[-1] == (20.0, 32), "of which nothing is known"


def test_a_job_that_says_its_size_again_is_where_it_was() -> None:
    told = Told(spec(adaptation(ScalingRule.ACCORDION, 32, 128, regimes=3)))
    assert told.after(0.0, 32) == [(0.0, 32), (30.0, 128), (60.0, 32)]
    told.after(10.0, 128)
    assert told.after(10.0) == [(0.0, 32), (10.0, 128), (50.0, 32)]
    assert told.after(15.0, 128) == [(0.0, 32), (10.0, 128), (50.0, 32)]


@pytest.mark.parametrize(
    ("rule", "last"), [("restatement", 65.0), ("bayesian", None), ("greedy", 90.0)]
)
def test_the_three_rules_of_prediction_are_options(rule: str, last: float | None) -> None:
    told = Told(spec(adaptation(ScalingRule.GNS, 32, 128)), f"declared-regimes:rule={rule}")
    believed = told.after(40.0)
    begins = [begin for begin, size in believed if size == 128]
    if rule == "greedy":
        assert believed == [(0.0, 32)]
    elif last is None:  # Dir(30 + 40, 30, 30): of what is left each has its share
        left = [90 * 70 / 130 - 40, 90 * 30 / 130, 90 * 30 / 130]
        assert begins == pytest.approx([40 + 50 * sum(left[:2]) / sum(left)])
    else:
        assert begins == [last]


def test_a_job_that_declares_nothing_is_believed_as_measured() -> None:
    ours, measured = estimators.make("declared-regimes"), estimators.make("measured")
    plain = JobSubmitted(0.0, 0, JobSpec(id="0", submit_time=0.0, estimate_seconds=50.0))
    assert ours.believe(plain, 0) == measured.believe(plain, 0)
    report = ProgressReported(1.0, 0, 0, 10, 100, 1.0)
    assert ours.measure(report, 5.0) == measured.measure(report, 5.0) == 90.0
    ours.believe(JobSubmitted(0.0, 0, spec(adaptation(ScalingRule.GNS, 32, 128))), 0)
    assert ours.measure(report, 5.0) is None, "its iterations get fewer"


def test_a_file_says_the_rules_of_jobs_by_name(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"lm": {"rule": "gns", "epochs": 90, "sizes": [32, 64]}}))
    told = Told(spec(None, name="lm"), f"declared-regimes:rules={file}")
    assert told.regimes == [(0.0, 32), (45.0, 64)]
    other = Told(spec(None, name="other", estimate_seconds=7.0), f"declared-regimes:rules={file}")
    assert other.regimes == []


def test_a_function_says_the_rules_of_jobs(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text(
        "from volvelle.model.adaptation import Adaptation, ScalingRule\n"
        "def adaptation(spec):\n"
        "    if spec.user == 'ada':\n"
        "        return Adaptation(rule=ScalingRule.SEQUENCE, epochs=10, sizes=(64, 32))\n"
    )
    assert Told(spec(None, user="ada"), f"declared-regimes:rules={file}").regimes == [
        (0.0, 64),
        (5.0, 32),
    ]
    assert Told(spec(None, user="bo"), f"declared-regimes:rules={file}").regimes == []


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("missing.json", None, "cannot be read"),
        ("wrong.json", "{", "cannot be read"),
        (
            "none.json",
            '{"lm": {"rule": "gns", "epochs": 0, "sizes": [1, 2]}}',
            "epochs must be above 0",
        ),
        ("empty.py", "", r"no function adaptation\(spec\)"),
    ],
)
def test_files_that_say_no_rules_are_named(
    tmp_path: Path, name: str, content: str | None, complaint: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(Problem, match=complaint):
        estimators.make(f"declared-regimes:rules={tmp_path / name}")


@pytest.mark.parametrize(
    ("throughput", "complaint"),
    [
        (None, "declares no throughput"),
        (
            PerBatchSize({32: Linear(1.0)}, 32),
            "gns: there is no throughput for batch size 64, only for 32",
        ),
        (PerBatchSize({32: Linear(1.0), 64: Linear(0.0)}, 32), "no progress at batch size 64"),
        (PerType({"a": PerBatchSize({32: Linear(1.0)}, 32)}), "no throughput for batch size 64"),
    ],
)
def test_a_job_without_a_rate_that_its_rule_needs_is_refused(
    throughput: AnyThroughput | None, complaint: str
) -> None:
    with pytest.raises(Problem, match=complaint):
        Told(spec(adaptation(ScalingRule.GNS, 32, 64), throughput, name="lm"))


@pytest.mark.parametrize(
    ("rule", "sizes", "more", "complaint"),
    [
        ("gns", [64, 32], {}, "the smaller one first"),
        ("accordion", [32], {}, "two batch sizes"),
        ("accordion", [32, 64], {"regimes": 0}, "at least 1"),
        ("schedule", [32, 64], {"begins": [0]}, "epoch of every size"),
        ("schedule", [32, 64], {"begins": [1, 2]}, "first one at 0"),
        ("schedule", [32, 64, 128], {"begins": [0, 5, 5]}, "ascend"),
        ("unknown", [32, 64], {}, "only the first"),
        ("sequence", [0], {}, "at least 1"),
        ("sequence", [], {}, "at least 1"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    rule: str, sizes: list[int], more: dict[str, object], complaint: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        adaptation(ScalingRule(rule), *sizes, **more)


def doubling() -> Job:
    """90 epochs in two sizes: 30 s at rate 1, then 30 s at 2."""
    regimes = (Regime(0.0, 32), Regime(30.0, 64))
    return Job(
        spec(adaptation(ScalingRule.GNS, 32, 64)),
        Truth(work=90.0, throughput=RATES, regimes=regimes),
    )


def test_forecasts_see_the_changes_to_come_and_come_true_once_all_are_known() -> None:
    foreseen: dict[float, float] = {}

    def check(world: World) -> None:
        if world.scheduler.known:
            foreseen[world.now] = Fork(world.scheduler).until().finish[0]

    scenario = Scenario.of(parse_cluster("1x1"), [doubling()], estimator="declared-regimes:every=5")
    run = happen(scenario, on_moment=check)
    assert run.outcomes.finish[0] == pytest.approx(60.0)
    assert foreseen[0.0] == pytest.approx(45.0 + 45.0 / 2)
    assert foreseen[30.0] == pytest.approx(60.0)


def test_an_estimator_that_was_not_there_before_a_snapshot_goes_on_predicting() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [doubling()], estimator="declared-regimes:every=5")
    journal = happen(scenario).journal
    before = [entry for entry in journal.entries if entry.time <= 10.0]
    taken = Snapshot.of(replay(journal.header, before), "0")
    again, forgetful = taken.resume(taken.header.composition.build(), remember=False)
    assert forgetful == ["declared-regimes"]
    estimator = again.composition.estimator
    assert isinstance(estimator, DeclaredRegimes)
    belief = estimator.adapt(again.known[0], 20.0, 64)
    assert belief is not None
    predicted = [(one.start_work, one.batch_size) for one in belief.truth.regimes]
    assert predicted == [(0.0, 32), (20.0, 64)]
