"""Keys of jobs: which are known never to rise as time passes, and which go by beliefs about durations."""

from typing import Any, ClassVar

import pytest

from volvelle.core.key_facts import goes_by_durations, never_rises, stands_still
from volvelle.core.order_policy import OrderPolicy, kept_order
from volvelle.core.orders import Key
from volvelle.core.policy import policies


def test_keys_made_of_what_falls_and_what_stays_never_rise() -> None:
    keys: list[Key] = [
        lambda jobs, now: jobs.remaining_seconds * jobs.gpus + jobs.submit_time,
        lambda jobs, now: (5 + jobs.remaining_work) / (2.0 * jobs.weight) - jobs.submit_time,
        lambda jobs, now: jobs.weight / (1.0 + jobs.attained_seconds),
        lambda jobs, now: -now - jobs.work_done,
        lambda jobs, now: -(jobs.submit_time * -3.0),
    ]
    assert all(never_rises(key) for key in keys)


def test_of_others_that_is_not_known() -> None:
    def by_case(jobs: Any, now: float) -> Any:
        return jobs.remaining_seconds if jobs.gpus != 1.0 else now

    keys: list[Key] = [
        lambda jobs, now: jobs.attained_gpu_seconds,
        lambda jobs, now: now - jobs.submit_time,
        lambda jobs, now: (jobs.remaining_seconds - 60.0) * (jobs.remaining_seconds - 60.0),
        lambda jobs, now: jobs.remaining_seconds * (jobs.submit_time - 60.0),
        lambda jobs, now: jobs.weight / (jobs.remaining_work - 5.0),
        lambda jobs, now: 1.0 / jobs.remaining_seconds,
        lambda jobs, now: min(jobs.remaining_seconds, 60.0),
        lambda jobs, now: jobs.first_start + jobs.remaining_seconds,
        by_case,
    ]
    assert not any(never_rises(key) for key in keys)


@pytest.mark.parametrize("name", ["fifo", "fifo-skip", "sjf", "smallest", "srtf", "srsf"])
def test_the_plain_orders_but_las_are_among_those_that_never_rise(name: str) -> None:
    policy = policies.make(name)
    assert isinstance(policy, OrderPolicy)
    key = kept_order(policy)
    assert key is not None
    assert never_rises(key)
    assert not never_rises(policies.make("las").key)  # type: ignore[attr-defined]


def _short_ones(jobs: Any) -> Any:
    return jobs.total_seconds < 60.0


def test_a_key_goes_by_durations_where_it_reads_them_itself_or_by_a_function() -> None:
    def nested(jobs: Any, now: float) -> Any:
        return max(one.remaining_work for one in [jobs])

    helper = _short_ones
    reading: list[Key] = [
        lambda jobs, now: jobs.remaining_seconds,
        lambda jobs, now: jobs.gpus if _short_ones(jobs) else 0.0,
        lambda jobs, now: helper(jobs),
        lambda jobs, now: jobs.column("total"),
        nested,
    ]
    others: list[Key] = [
        lambda jobs, now: jobs.gpus,
        lambda jobs, now: now - jobs.submit_time + jobs.attained_seconds,
    ]
    assert [goes_by_durations(key) for key in reading + others] == [True] * 5 + [False] * 2


def test_an_order_needs_durations_where_its_key_reads_them() -> None:
    class Narrow(OrderPolicy):
        """Narrow jobs first."""

        name: ClassVar[str] = "narrow"

        def key(self, jobs: Any, now: float) -> Any:
            return jobs.gpus

    class Short(Narrow):
        """Short jobs first."""

        name: ClassVar[str] = "short"

        def key(self, jobs: Any, now: float) -> Any:
            return jobs.total_seconds

    assert not Narrow.needs_durations
    assert Short.needs_durations


@pytest.mark.parametrize(
    ("policy", "still"), [("fifo", True), ("sjf", True), ("srsf", False), ("las", False)]
)
def test_a_key_stands_still_where_no_decision_changes_it(policy: str, still: bool) -> None:
    key = kept_order(policies.make(policy))
    assert key is not None
    assert stands_still(key) is still
