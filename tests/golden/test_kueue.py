"""Every decision of Kueue's own scheduler tests: victims with reasons, flavours, usage, order of queues."""

from collections.abc import Callable
from typing import Any

import pytest
from kueue_cases import Case, cases, differences, suite, why_skipped

from volvelle.incumbents.kueue import cycle, fair_sharing, flavors, preemption, quota

CASES = cases()
pytestmark = pytest.mark.skipif(not CASES, reason="../shared/golden/kueue is not here")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"][:90])
def test_kueue_decides_the_same(case: Case) -> None:
    """What a case expects after one cycle, or of one search for victims."""
    if why := why_skipped(case):
        pytest.skip(why)
    assert differences(case) == []


def test_no_case_is_left_out_but_for_a_reason() -> None:
    """The suites, with how many cases of each are compared and how many there are."""
    compared = {
        name: (sum(not why_skipped(one) for one in of), len(of))
        for name in dict.fromkeys(map(suite, CASES))
        if (of := [one for one in CASES if suite(one) == name])
    }
    assert compared == {
        "TestFairPreemptions": (27, 27),
        "TestPreemption": (27, 27),
        "TestHierarchicalPreemptions": (11, 11),
        "TestSchedule": (47, 49),
        "TestScheduleForFairSharing": (14, 14),
    }


def _without_lending_limits(node: quota.Node, of: Any) -> int:
    return 0


def _nothing_is_put_back(ledger: Any, preemptor: Any, candidates: Any, *, borrowing: bool) -> Any:
    taken, fits = [], False
    for victim in candidates:
        ledger.remove(victim.holder)
        taken.append(victim)
        if fits := preemptor.fits(borrowing=borrowing):
            break
    for victim in taken:
        ledger.add(victim.holder)
    return taken if fits else []


def _first_admitted_first(one: quota.Holder, queue: str) -> tuple[bool, bool, int, float, str]:
    return not one.evicted, one.queue == queue, one.priority, one.reserved, one.uid


def _whoever_borrowed(ledger: Any, preemptor: Any, candidates: Any, borrowing: bool) -> Any:
    return (preemption.Victim(one.holder, one.reason) for one in candidates)


def _unweighted(share: quota.Share) -> tuple[bool, float]:
    return False, share.ratio


def _in_order_of_queues(nominees: list[fair_sharing.Nominee]) -> fair_sharing.Nominee:
    return nominees[0]


def _first_flavour(grade: Any, fungibility: Any) -> bool:
    return bool(grade.mode <= flavors.Mode.NO_FIT)


def _nothing_kept(assignment: Any, queue: Any) -> dict[Any, int]:
    return {}


MUTANTS: list[tuple[Any, str, Any]] = [
    (quota.Node, "local_quota", _without_lending_limits),
    (preemption, "minimal", _nothing_is_put_back),
    (preemption, "victim_order", _first_admitted_first),
    (preemption, "_valid", _whoever_borrowed),
    (quota.Share, "order", property(_unweighted)),
    (cycle, "first_by_share", _in_order_of_queues),
    (flavors, "_goes_on", _first_flavour),
    (cycle, "_reserved", _nothing_kept),
]


@pytest.mark.parametrize(("module", "name", "wrong"), MUTANTS, ids=[name for _, name, _ in MUTANTS])
def test_a_wrong_rule_loses_cases(
    module: Any, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule in its turn is replaced by one that is nearly right."""
    monkeypatch.setattr(module, name, wrong)
    assert any(not why_skipped(case) and differences(case) for case in CASES)
