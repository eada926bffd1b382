"""What a policy must not answer, and what is said then."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from volvelle.core import mistakes
from volvelle.core.events import JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.order_policy import OrderPolicy
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.policy import Allocation, Policy
from volvelle.core.scheduler import Scheduler
from volvelle.core.view import JobView, View
from volvelle.metrics.catalogue import Metric
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.testing.scenario import Scenario, happen, linear_job

SCENARIO = Scenario.of(parse_cluster("1x4"), [linear_job(n, 0.0, 2.0, 9.0) for n in range(3)])


def decide(policy: Policy) -> None:
    composition = SCENARIO.setting.composition.build()._replace(policy=policy)
    happen(SCENARIO, scheduler=Scheduler(SCENARIO.cluster, composition))


def answering(answer: Callable[[View], Any]) -> Policy:
    class Wrong(Policy):
        """Answers as it is told to."""

        name: ClassVar[str] = "wrong"

        def allocate(self, view: View) -> Allocation:
            found: Allocation = answer(view)
            return found

    return Wrong()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda view: Allocation(np.ones(2)), r"gave gpus of shape \(2,\) for 3 jobs"),
        (
            lambda view: Allocation(np.ones(3), gpu_type=np.zeros(4)),
            r"gave gpu_type of shape \(4,\) for 3 jobs",
        ),
        (lambda view: Allocation(np.array([1.0, np.nan, 1.0])), "gave job 1 a number of GPUs that"),
        (lambda view: Allocation(np.array([1.0, 1.0, -1.0])), "gave job 2 a number of GPUs that"),
        (lambda view: Allocation(view.jobs.gpus), "gave 6 of 4 GPUs"),
        (lambda view: np.ones(3), "answered with ndarray, not with an Allocation"),
        (lambda view: None, "answered with NoneType, not with an Allocation"),
    ],
)
def test_an_answer_that_cannot_be_is_an_error_that_names_the_policy(
    answer: Callable[[View], Any], said: str
) -> None:
    with pytest.raises(Problem, match=rf"policy 'wrong' in {re.escape(__file__)}, line \d+ {said}"):
        decide(answering(answer))


def test_a_mistake_in_somebodys_policy_is_told_with_its_file_and_line() -> None:
    def fails(view: View) -> Any:
        raise LookupError("no such thing")

    line = fails.__code__.co_firstlineno + 1
    with pytest.raises(Problem) as raised:
        decide(answering(fails))
    assert str(raised.value) == (
        f"policy 'wrong' failed in {__file__}, line {line}, in fails: LookupError: no such thing. "
        "It was asked at 0 s about 3 jobs."
    )


def test_a_column_that_is_not_there_is_told_with_the_nearest_one() -> None:
    def misspelt(view: Any) -> Allocation:
        return Allocation(view.jobs.remaining_secs)

    with pytest.raises(Problem, match=r"did you mean 'remaining_seconds'"):
        decide(answering(misspelt))


def test_a_mistake_in_somebodys_admission_is_an_error_with_its_file_and_line() -> None:
    class Mistaken(Admission):
        """Asks a question that has no answer."""

        name: ClassVar[str] = "mistaken"

        def judge(self, event: JobSubmitted, view: View, ahead: LookAhead) -> Verdict:
            raise LookupError("no such thing")

    composition = SCENARIO.setting.composition.build()._replace(admission=Mistaken())
    with pytest.raises(Problem, match=f"admission 'mistaken' failed in {__file__}, .* job 'job-0'"):
        happen(SCENARIO, scheduler=Scheduler(SCENARIO.cluster, composition))


@pytest.mark.parametrize(
    ("asked", "said"),
    [("finnish", r"\(did you mean 'finish'\?\)"), ("width", r"\(it has capacity, .* gpus, ")],
)
def test_a_mistake_in_somebodys_metric_names_the_columns(asked: str, said: str) -> None:
    mistaken = Metric("mistaken", "", "1", "lower", "job", lambda run: getattr(run, asked))
    with pytest.raises(Problem, match=f"metric 'mistaken' failed in {__file__}, line .* {said}"):
        mistaken(happen(SCENARIO).outcomes)


def test_an_admission_that_takes_other_arguments_is_told_when_it_is_registered() -> None:
    class Two(Admission):
        """Lacks the look-ahead."""

        name: ClassVar[str] = "two"

        def judge(self, job: JobSubmitted, view: View) -> Verdict:  # type: ignore[override]
            return Verdict(Fate.ADMIT)

    said = rf"admission 'two' in {__file__}, line \d+ has judge\(self, job, view\)"
    with pytest.raises(Problem, match=said + r"\. Define judge\(self, job, view, ahead\)"):
        admissions.register(Two)


def test_a_name_that_is_not_there_is_not_likened_to_a_private_one() -> None:
    with pytest.raises(Problem, match="'estimate' \\(it has ") as raised:
        decide(answering(lambda view: view.jobs.estimate))  # type: ignore[attr-defined]
    offered = str(raised.value).partition("(it has ")[2].partition(")")[0].split(", ")
    assert {"gpus", "remaining_seconds", "user", "own"} <= {*offered}
    guide = (Path(__file__).parents[2] / "docs/how-to/write-a-policy.md").read_text()
    assert [name for name in offered if not re.search(rf"`(jobs\.)?{name}`", guide)] == []


def test_a_mistake_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "_NOT_THEIRS", (Path(__file__).parent, *mistakes._NOT_THEIRS))
    with pytest.raises(ZeroDivisionError) as raised:
        decide(answering(lambda view: 1 / 0))
    assert raised.value.__notes__ == ["(policy 'wrong': it was asked at 0 s about 3 jobs)"]


class Keyless(OrderPolicy):
    """Has no key for anybody."""

    name: ClassVar[str] = "keyless"

    def key(self, jobs: JobView, now: float) -> Any:
        return jobs.gpus * np.nan


class Short(OrderPolicy):
    """Has a key for all jobs together."""

    name: ClassVar[str] = "short"

    def key(self, jobs: JobView, now: float) -> Any:
        return jobs.gpus[:1]


class Unknown(OrderPolicy):
    """Has keys for all jobs together, one of them unknown."""

    name: ClassVar[str] = "unknown"

    def key(self, jobs: JobView, now: float) -> Any:
        return np.append(jobs.gpus[:-1], np.nan)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Keyless(), "the key of job 0 is not a number"),
        (Short(), r"policy 'short' gave keys of shape \(1,\) for 3 jobs"),
        (Unknown(), "policy 'unknown' gave NaN as the key of job 2"),
    ],
)
def test_an_order_needs_a_number_for_each_job(policy: Policy, said: str) -> None:
    with pytest.raises(Problem, match=rf"{re.escape(__file__)}, line \d+, in key: {said}"):
        decide(policy)
