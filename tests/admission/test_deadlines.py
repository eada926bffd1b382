"""Deadlines promised by a look ahead: what is promised is kept, or revoked with a reason."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from systems_here import of

from volvelle.core import paying
from volvelle.core.decision import Promise
from volvelle.core.forecast import Forecast
from volvelle.core.fork import Fork
from volvelle.core.journal import follow, read_journal, replay
from volvelle.core.parts import admissions
from volvelle.core.promises import LATENESS, LEAST_SLACK
from volvelle.core.snapshot import Snapshot, read_snapshot
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Reward
from volvelle.model.problems import Problem
from volvelle.testing.scenario import Run, Scenario, happen, linear_job, state_of
from volvelle.testing.strategies import KNOWN, scenarios

STEADY = replace(KNOWN, regimes=False, sharing=False, amounts=False, deadlines=True)
"""What a look ahead foresees: jobs that go on as fast as they start."""
DUST = 2e-3
"""Seconds."""


def due_in(job: Job, *seconds: float, accept_later: bool = False) -> Job:
    """The same job with these deadlines, each worth less than the one before."""
    rewards = tuple(Reward(each, 100.0 - step) for step, each in enumerate(seconds))
    spec = msgspec.structs.replace(job.spec, rewards=rewards, accept_later=accept_later)
    return msgspec.structs.replace(job, spec=spec)


def promises(run: Run) -> list[tuple[float, Promise]]:
    """All promises of a run, and when they were made."""
    return [(entry.time, one) for entry in run.journal.entries for one in entry.decision.promises]


POLICIES = [
    *("fifo", "srtf", "srsf", "las", "easy", "las:round=30"),
    *(of("tiresias", "tiresias"), of("afs", "afs-l"), of("pcs", "pcs")),
]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=10)
@given(scenario=scenarios(STEADY))
def test_with_true_estimates_every_promise_is_kept(policy: str, scenario: Scenario) -> None:
    run = happen(scenario.under(policy, admission="deadlines"))
    made = promises(run)
    guaranteed = {one.number: one.finish_by for _, one in made if one.finish_by is not None}
    last = {one.number: one.finish_by for _, one in made}
    for number, finish_by in guaranteed.items():
        assert last[number] == finish_by
        assert run.outcomes.finish[number] <= finish_by + DUST
    rewarded = {n for n, job in enumerate(scenario.jobs) if job.spec.rewards}
    assert set(last) <= rewarded


@pytest.mark.parametrize("policy", ["srtf", "las", of("afs", "afs-l")])
@settings(max_examples=10)
@given(scenario=scenarios(replace(STEADY, regimes=True, failures=True, nodes=True)))
def test_a_promise_that_is_not_kept_is_revoked_with_its_reason(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy, estimator="noisy:error=0.6", admission="deadlines")
    run = happen(scenario)
    last = {one.number: one for _, one in promises(run)}
    for number, one in last.items():
        if one.finish_by is None:
            assert one.reason
        elif not np.isnan(run.outcomes.finish[number]):  # it crashed too often
            assert run.outcomes.finish[number] <= one.finish_by + DUST


@pytest.mark.parametrize("policy", ["srtf", "las:round=30", "max-min"])
@settings(max_examples=10)
@given(scenario=scenarios(replace(STEADY, regimes=True, failures=True)))
def test_machine_code_replay_and_following_lead_to_the_same_promises(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy, estimator="noisy:error=0.6", admission="deadlines")
    run = happen(scenario)
    assert happen(scenario, compiled=True).journal_bytes == run.journal_bytes
    header, entries = run.journal.header, run.journal.entries
    for moments in (len(entries) // 2, len(entries)):
        replayed = replay(header, entries[:moments]).ahead.promises
        assert follow(header, entries[:moments]).ahead.promises == replayed


def test_a_promise_is_revoked_when_it_becomes_impossible_and_not_before() -> None:
    """The first job, which may not be stopped, is believed to take 10 s; 20 s are left of the second."""
    second = due_in(linear_job(1, 1.0, 1.0, 20.0), 49.0)

    def told(takes: float) -> list[tuple[float, Promise]]:
        first = linear_job(0, 0.0, 1.0, takes)
        spec = msgspec.structs.replace(first.spec, estimate_seconds=10.0, preemptible=False)
        jobs = [msgspec.structs.replace(first, spec=spec), second]
        spec = msgspec.structs.replace(second.spec, estimate_seconds=20.0)
        jobs[1] = msgspec.structs.replace(second, spec=spec)
        scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="fifo", estimator="declared")
        return promises(happen(scenario.under(admission="deadlines")))

    assert told(30.0) == [(1.0, Promise(1, 50.0, 0))]
    made, (revoked_at, revoked) = told(60.0)
    assert made == (1.0, Promise(1, 50.0, 0))
    assert revoked_at == pytest.approx(30.0, abs=2 * DUST)
    assert revoked.finish_by is None
    assert revoked.earliest == pytest.approx(50.0, abs=2 * DUST)
    assert (
        revoked.reason
        == "20 s of work are left at least, 0.1 s more than until the guaranteed time"
    )


def test_a_promise_to_a_job_that_loses_its_work_is_revoked_at_once() -> None:
    """It crashes after 20 s of 60, and begins anew at once: 60 s are left, and 50 until its deadline."""
    job = due_in(linear_job(0, 0.0, 1.0, 60.0), 70.0)
    job = msgspec.structs.replace(job, truth=msgspec.structs.replace(job.truth, failures=(20.0,)))
    scenario = Scenario.of(parse_cluster("1x1"), [job], policy="fifo")
    made, (revoked_at, revoked) = promises(happen(scenario.under(admission="deadlines")))
    assert made == (0.0, Promise(0, 70.0, 0))
    assert revoked_at == 20.0
    assert revoked.earliest == 80.0
    assert (
        revoked.reason == "60 s of work are left at least, 10 s more than until the guaranteed time"
    )


def test_a_job_that_would_break_a_promise_waits_and_its_user_is_told() -> None:
    jobs = [
        linear_job(0, 0.0, 4.0, 100.0),
        due_in(linear_job(1, 0.0, 4.0, 50.0), 160.0),  # under srtf before 0: done at 50
        linear_job(2, 10.0, 4.0, 20.0),  # would go first, and 1 would still be done at 70
        due_in(linear_job(3, 20.0, 4.0, 45.0), 60.0, 200.0),  # after 2 and 1, at 115
        linear_job(4, 21.0, 4.0, 30.0),  # before 1 and 3, at 60: these at 100 and 145
        linear_job(5, 22.0, 4.0, 90.0),
    ]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="srtf")
    run = happen(scenario.under(admission="deadlines"))
    assert promises(run) == [
        (0.0, Promise(1, 160.0, 0)),
        (20.0, Promise(3, 220.0, 1)),
    ]
    assert run.outcomes.finish.tolist() == [335.0, 100.0, 30.0, 145.0, 60.0, 235.0]
    tight = [*jobs[:2], linear_job(2, 10.0, 4.0, 20.0), due_in(linear_job(3, 20.0, 4.0, 30.0), 40)]
    tight[1] = due_in(linear_job(1, 0.0, 4.0, 50.0), 71.0)
    waits = (
        "at once it would break the guarantee of job 1: it waits, and may be guaranteed a finish "
    )
    waits += "when it is admitted"
    run = happen(Scenario.of(parse_cluster("1x4"), tight).under("srtf", admission="deadlines"))
    assert promises(run) == [
        (0.0, Promise(1, 71.0, 0)),
        (20.0, Promise(3, earliest=70.0 + 30.0 + LATENESS, reason=waits)),
        (70.0, Promise(3, None, -1, 70.0 + 30.0 * 1.05, "it would finish 40s after its deadline")),
    ]


def test_jobs_that_wait_share_what_happens_without_them_and_are_counted_as_played_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three jobs that would break a promise are judged at 20 s, beside two that are there."""
    jobs = [linear_job(0, 0.0, 4.0, 100.0), due_in(linear_job(1, 0.0, 4.0, 50.0), 71.0)]
    jobs += [linear_job(2, 10.0, 4.0, 20.0), *(linear_job(n, 20.0, 4.0, 30.0) for n in (3, 4, 5))]
    without: list[float] = []
    played: list[float] = []
    until = Fork.until

    def counted(fork: Fork, jobs: int | Collection[int] | None = None) -> Forecast:
        if not fork.admitted:
            without.append(fork.scheduler.now)
        return until(fork, jobs)

    def pays(jobs: float, *_: object, **__: object) -> bool:
        played.append(jobs)
        return False

    monkeypatch.setattr(Fork, "until", counted)
    monkeypatch.setattr(paying, "machine_code_pays", pays)
    happen(Scenario.of(parse_cluster("1x4"), jobs).under("srtf", admission="deadlines"))
    assert without.count(20.0) == 1
    assert max(played) == (3 + 3) * (1 + 3)


def test_what_is_offered_later_can_be_accepted_and_best_effort_refused() -> None:
    first, late = linear_job(0, 0.0, 4.0, 100.0), due_in(linear_job(1, 0.0, 4.0, 50.0), 60.0)
    cluster = parse_cluster("1x4")

    def told(job: Job, admission: str = "deadlines") -> Run:
        return happen(Scenario.of(cluster, [first, job]).under("fifo", admission=admission))

    [(_, offer)] = promises(told(late))
    assert offer == Promise(
        1, earliest=150.0 * 1.05, reason="it would finish 1m 30s after its deadline"
    )
    [(_, taken)] = promises(told(due_in(late, 60.0, accept_later=True)))
    assert taken.finish_by == pytest.approx(157.5)
    [(_, wider)] = promises(told(due_in(late, 60.0, accept_later=True), "deadlines:margin=0.1"))
    assert wider.finish_by == pytest.approx(165.0)
    for margin, due in ((0.1, 160.0), (1.0, 200.0)):
        [(_, near)] = promises(told(due_in(late, due), f"deadlines:margin={margin}"))
        longer = f"{margin:.0%} longer, the margin of guarantees here"
        assert near.reason == f"its deadline is kept as forecast, but not if jobs take {longer}"
    run = told(late, "deadlines:otherwise=reject")
    [rejection] = [one for entry in run.journal.entries for one in entry.decision.rejected]
    assert (rejection.number, rejection.reason) == (1, "it would finish 1m 30s after its deadline")


def test_the_margin_grows_with_a_broken_promise_and_shrinks_with_a_kept_one() -> None:
    def job(number: int, submit: float, seconds: float, believed: float, due: float) -> Job:
        made = due_in(linear_job(number, submit, 4.0, seconds), due, accept_later=True)
        spec = msgspec.structs.replace(made.spec, estimate_seconds=believed)
        return msgspec.structs.replace(made, spec=spec)

    jobs = [job(0, 0.0, 100.0, 50.0, 60.0), job(1, 110.0, 20.0, 20.0, 40.0)]
    jobs.append(job(2, 200.0, 20.0, 20.0, 1.0))
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="fifo")
    run = happen(scenario.under(estimator="declared", admission="deadlines:broken=0.1"))
    told = [one for _, one in promises(run)]
    assert told[0].finish_by == 60.0
    assert told[1].finish_by is None  # revoked
    assert [one.finish_by for one in told[2:]] == pytest.approx([150.0, 238.0])


def test_the_slack_of_later_finishes_learns_from_these_alone() -> None:
    """A later finish that is broken widens the next one, and no deadline is refused for it."""

    def job(number: int, submit: float, seconds: float, due: float) -> Job:
        made = due_in(linear_job(number, submit, 4.0, seconds), due, accept_later=True)
        spec = msgspec.structs.replace(made.spec, estimate_seconds=20.0)
        return msgspec.structs.replace(made, spec=spec)

    jobs = [job(0, 0.0, 60.0, 1.0), job(1, 100.0, 20.0, 21.0), job(2, 200.0, 20.0, 1.0)]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="fifo")
    run = happen(scenario.under(estimator="declared", admission="deadlines:broken=0.1"))
    told = [one for _, one in promises(run) if one.finish_by is not None]
    widened = 1.0 + LEAST_SLACK + 2.0 * 0.95
    assert [one.finish_by for one in told] == pytest.approx([21.0, 121.0, 200.0 + 20.0 * widened])


@pytest.mark.parametrize(("believed", "finish_by"), [(15.0, 1120.0), (10.0, None)])
def test_the_margin_is_no_less_than_the_usual_error(
    believed: float, finish_by: float | None
) -> None:
    """Jobs that took half as long again as believed say so before any guarantee has come due."""

    def job(number: int, submit: float, seconds: float, believed: float) -> Job:
        made = linear_job(number, submit, 4.0, seconds)
        spec = msgspec.structs.replace(made.spec, estimate_seconds=believed)
        return msgspec.structs.replace(made, spec=spec)

    jobs = [job(n, 20.0 * n, 15.0, believed) for n in range(20)]
    jobs += [job(20, 1000.0, 100.0, 100.0), due_in(job(21, 1000.0, 10.0, 10.0), 120.0)]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="fifo")
    run = happen(scenario.under(estimator="declared", admission="deadlines"))
    assert [one.finish_by for _, one in promises(run)] == [finish_by]


def test_a_promise_that_only_a_grown_margin_doubts_is_not_given_up() -> None:
    """Job 1 is promised 135 s without a margin; after job 0 broke its own, nobody may delay job 1."""
    jobs = [
        due_in(linear_job(0, 0.0, 4.0, 70.0), 35.0),
        due_in(linear_job(1, 0.0, 4.0, 60.0), 135.0),
        linear_job(2, 45.0, 4.0, 20.0),
    ]
    believed = (30.0, 60.0, 20.0)
    jobs = [
        msgspec.structs.replace(
            job, spec=msgspec.structs.replace(job.spec, estimate_seconds=seconds)
        )
        for job, seconds in zip(jobs, believed, strict=True)
    ]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="srtf")
    run = happen(scenario.under(estimator="declared", admission="deadlines"))
    assert run.outcomes.finish.tolist() == [70.0, 130.0, 150.0]
    assert [one.finish_by for _, one in promises(run)] == [35.0, 135.0, None]


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_a_share_of_promises_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(Problem, match="broken"):
        admissions.make(f"deadlines:broken={share}")


def test_promised_jobs_of_one_user_or_pool_request_a_share_at_most() -> None:
    def job(number: int, gpus: float, user: str, pool: str = "") -> Job:
        made = due_in(linear_job(number, 0.0, gpus, 50.0), 500.0)
        spec = msgspec.structs.replace(made.spec, user=user, pool=pool)
        return msgspec.structs.replace(made, spec=spec)

    jobs = [job(0, 3.0, "ada", "x"), job(1, 2.0, "ada"), job(2, 4.0, "bo", "x"), job(3, 1.0, "ada")]
    scenario = Scenario.of(parse_cluster("1x8"), jobs)
    run = happen(scenario.under("fifo", admission="deadlines:user_share=0.5,pool_share=0.75"))
    assert [one.finish_by for _, one in promises(run)] == [500.0, None, None, 500.0]
    assert [one.reason for _, one in promises(run)][1:3] == [
        "guaranteed jobs of user 'ada' request 3 GPUs already, this one 2 more; together they may request 4",
        "guaranteed jobs of pool 'x' request 3 GPUs already, this one 4 more; together they may request 6",
    ]


def test_promises_survive_journal_file_and_snapshot(tmp_path: Path) -> None:
    jobs = [linear_job(0, 0.0, 4.0, 100.0), due_in(linear_job(1, 0.0, 4.0, 50.0), 200.0)]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs).under("fifo", admission="deadlines"))
    run.journal.write(tmp_path / "journal.jsonl")
    header, entries = read_journal(tmp_path / "journal.jsonl")
    early = list(entries)[:1]
    scheduler = replay(header, early)
    assert scheduler.promises == {1: Promise(1, 200.0, 0)}
    assert scheduler.wake_at() is not None
    (tmp_path / "snapshot.json").write_bytes(Snapshot.of(scheduler, "0").encode())
    again = read_snapshot(tmp_path / "snapshot.json").scheduler()
    assert again.promises == scheduler.promises
    assert again.wake_at() == scheduler.wake_at()
    before = state_of(scheduler)
    assert scheduler.ahead.until().finish == {0: 100.0, 1: 150.0}
    assert state_of(scheduler) == before
