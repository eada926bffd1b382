"""Guarantees of admission ``deadlines`` where wake-ups come late and a job takes longer than was believed."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import Event, JobFinished, JobSubmitted, WakeUp
from volvelle.core.promises import OVERRAN
from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec, Reward
from volvelle.model.tolerances import SAME_END

GPUS = 8
POLICIES = ("srsf", "srtf", "fifo", "easy", "edf")


class Asked(NamedTuple):
    """A script of which a stop loses all; seconds. takes: in truth. due: its deadline, 0 for none."""

    submitted: float
    gpus: int
    estimate: float
    takes: float
    due: float = 0.0

    def event(self, number: int, now: float) -> JobSubmitted:
        rewards = (Reward(self.due, 1.0),) if self.due else ()
        spec = JobSpec(
            id=str(number),
            submit_time=now,
            gpus=self.gpus,
            estimate_seconds=self.estimate,
            starts_over=True,
            rewards=rewards,
        )
        return JobSubmitted(now, number, spec)


@dataclass
class Played:
    """What became of jobs, by number. revoked: why, and which jobs ran then."""

    made: dict[int, float] = field(default_factory=dict)
    revoked: dict[int, tuple[str, set[int]]] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)

    def broken(self) -> set[int]:
        """Jobs that did not end by their guarantee, or whose guarantee was revoked."""
        late = {n for n, by in self.made.items() if self.ended[n] > by + SAME_END}
        return late | self.revoked.keys()


def play(policy: str, asked: list[Asked], late: float, seed: int = 0) -> Played:
    """Let the scheduler decide in a world that it is told of up to ``late`` seconds late."""
    parts = WrittenComposition(policy, "none", "deadlines", "declared").build()
    scheduler, random, played = Scheduler(parse_cluster(f"1x{GPUS}"), parts), Random(seed), Played()
    coming = sorted((job.submitted, number, 0) for number, job in enumerate(asked))
    running: dict[int, int] = {}
    now, wake = 0.0, None
    while len(played.ended) < len(asked):
        following = [coming[0][0]] if coming else []
        following += [] if wake is None else [wake]
        now = max(min(following) + random.uniform(0.0, late), now + 1e-6)
        events: list[Event] = []
        while coming and coming[0][0] <= now:
            time, number, attempt = heappop(coming)
            if not attempt:
                events.append(asked[number].event(number, now))
            elif running.get(number) == attempt:
                events.append(JobFinished(now, number, attempt))
                played.ended[number] = time
                del running[number]
        decision = scheduler.handle(now, events or [WakeUp(now)])
        for place, number in enumerate(decision.job.tolist()):
            running.pop(number, None)
            if decision.gpus[place] > 0.0:
                running[number] = int(decision.attempt[place])
                heappush(coming, (now + asked[number].takes, number, running[number]))
            else:
                played.stopped.append(number)
        for told in decision.promises:
            if told.finish_by is not None:
                played.made[told.number] = told.finish_by
            elif told.number in played.made:
                played.revoked[told.number] = told.reason, set(running)
        wake = decision.wake_at
    return played


def test_a_job_that_comes_while_another_is_overdue_does_not_take_the_gpus_of_a_guarantee() -> None:
    """The second job takes longer than it says. The last one would begin to run beside it, with as much work
    left as the third, and with less of it when the second ends."""
    asked = [Asked(0, 4, 15, 15), Asked(1.5, 4, 12, 14.5), Asked(3, 8, 15, 15, 37)]
    for policy in POLICIES:
        played = play(policy, [*asked, Asked(4, 4, 30, 30, 120)], 0.001)
        assert played.made.keys() == {2, 3}
        assert not played.broken()


def test_a_job_without_a_guarantee_is_stopped_where_it_would_break_one_and_goes_on_later() -> None:
    """It is over long ago as believed, and is stopped in time to keep the guarantee of the second."""
    for policy in ("fifo", "easy"):
        played = play(policy, [Asked(0, 8, 10, 40), Asked(1, 8, 10, 10, 30)], 0.05)
        assert played.stopped == [0]
        assert 29 < played.ended[1] <= played.made[1] == pytest.approx(31, abs=0.1)
        assert played.ended[0] == pytest.approx(played.ended[1] + 40, abs=0.1)


def test_a_job_that_takes_longer_than_it_said_loses_its_guarantee_to_a_later_one() -> None:
    for policy in POLICIES:
        played = play(policy, [Asked(0, 8, 10, 40, 45), Asked(1, 8, 10, 10, 30)], 0.05)
        assert played.made.keys() == {0, 1}
        assert played.broken() == {0}
        assert played.revoked[0][0] == OVERRAN
        assert played.ended[1] <= played.made[1]


def test_a_guaranteed_job_that_was_stopped_for_an_earlier_one_comes_back_in_time() -> None:
    """The second job takes 28 s, not 12; the first is due then, so that the fifth has to wait. It would break
    the guarantee of the third after that, if the fourth, which has none, did not wait."""
    asked = [Asked(2.5, 8, 16, 16, 52), Asked(3.5, 8, 12, 28), Asked(3.5, 8, 32, 32, 116)]
    asked += [Asked(4.5, 4, 32, 32, 35), Asked(4.5, 8, 13, 13, 60), Asked(4.5, 8, 12, 12)]
    played = play("srsf", asked, 0.01)
    assert played.made.keys() == {0, 2, 4}
    assert not played.broken()


def test_a_guarantee_to_a_job_that_is_over_is_not_revoked() -> None:
    """The second ends long before, the first a hair later than what was guaranteed to the second."""
    asked = [Asked(0, 4, 30.0015, 30.0015), Asked(0, 4, 10, 10, 30)]
    assert not play("fifo", asked, 0.0).broken()


def jobs() -> st.SearchStrategy[list[Asked]]:
    """A few jobs, told as they are."""

    @st.composite
    def some(draw: st.DrawFn) -> list[Asked]:
        time, asked = 0.0, []
        for _ in range(draw(st.integers(3, 6))):
            time += draw(st.sampled_from([0.0, 1.0, 2.5, 5.0]))
            seconds = draw(st.integers(5, 40))
            gpus = draw(st.sampled_from([1, 2, 4, 8]))
            due = draw(st.one_of(st.just(0), st.integers(seconds, 4 * seconds + 20)))
            asked.append(Asked(time, gpus, seconds, seconds, due))
        return asked

    return some()


@settings(max_examples=30)
@given(asked=jobs(), policy=st.sampled_from(POLICIES), seed=st.integers(0, 99))
def test_late_wake_ups_break_no_guarantee(asked: list[Asked], policy: str, seed: int) -> None:
    assert not play(policy, asked, 0.05, seed).broken()


@settings(max_examples=30)
@given(
    asked=jobs(),
    policy=st.sampled_from(POLICIES),
    overrun=st.floats(1.02, 2.5),
    place=st.integers(0, 5),
)
def test_a_guarantee_is_revoked_only_where_no_stop_could_keep_it(
    asked: list[Asked], policy: str, overrun: float, place: int
) -> None:
    """Beside jobs with earlier guarantees that took no longer than they said there is no room for it."""
    wrong = place % len(asked)
    asked[wrong] = asked[wrong]._replace(takes=asked[wrong].estimate * overrun)
    played = play(policy, asked, 0.05)
    for number in played.broken() - {wrong}:
        _, running = played.revoked[number]
        before = [one for one in running - {wrong} if one in played.made and one < number]
        assert number not in running
        assert sum(asked[one].gpus for one in before) + asked[number].gpus > GPUS
