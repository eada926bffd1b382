"""Promises of policies."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import strategies as st

from volvelle.core.fork import Fork
from volvelle.core.journal import follow, read_journal, replay
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.pruning import Survey, pruned, says_nothing
from volvelle.core.reasons import reasons_to_wait
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot, read_snapshot
from volvelle.core.state import KNOWN_COLUMNS, NODES_NAMED, Jobs, Reason
from volvelle.metrics.outcomes import JobStatus
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import Cluster
from volvelle.simulate.world import World
from volvelle.testing.audit import Audit, audited
from volvelle.testing.machine_code import (
    COUNTED_AND_BY_NAME,
    check_journals,
    check_predictions,
    check_search,
    check_synthesis,
    small_setting,
)
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.scenario import Run, Scenario, happen, linear_job, state_of
from volvelle.testing.strategies import (
    CROWDED,
    EVERYTHING,
    GANGS,
    KNOWN,
    WITH_PARTS,
    Features,
    clusters,
    scenarios,
)
from volvelle.testing.user_changes import Act, acts, check_user_changes

RELATED = replace(EVERYTHING, dependencies=True, limits=True, labels=True)
"""Jobs that wait for others, with time limits, priorities and constraints."""

policy_promises: Promises[Policy] = Promises(policies.make)


@policy_promises.promise()
def runs_are_sound(policy: str) -> None:
    """GPUs are given once, all work is done, and journals, replays, snapshots and forks agree."""

    def check(scenario: Scenario, moment: int, strict: bool) -> None:
        if strict and scenario.setting.composition.placement == "consolidated":
            scenario = scenario.under(placement="consolidated-strict")
        _check_run(scenario.under(policy), moment)

    drawn = {"moment": st.integers(0, 30), "strict": st.booleans()}
    on_random(7, check, scenario=scenarios(WITH_PARTS), **drawn)


def runs_of_related_jobs_are_sound(policy: str) -> None:
    """As `runs_are_sound` with dependencies, limits and constraints; no policy has to promise it."""

    def check(scenario: Scenario) -> None:
        _check_run(scenario.under(policy))

    on_random(15, check, scenario=scenarios(RELATED))


def _check_run(scenario: Scenario, moment: int | None = None) -> None:
    """One run feeds all checks, which are below, in this order."""
    audit = Audit(scenario)

    def look(world: World) -> None:
        _every_job_that_waits_can_say_why(world)
        if world.moments == moment:
            _a_fork_that_runs_to_the_end_leaves_its_parent_alone(world)

    run = happen(scenario, audit, on_moment=look)
    _nothing_is_given_twice_and_all_work_is_done(audit, run)
    _the_same_seed_leaves_the_same_journal(scenario, run)
    with TemporaryDirectory() as folder:
        _replaying_the_written_journal_rebuilds_the_state(run, Path(folder))
        _following_without_asking_the_policy_leads_to_the_same_holdings(run)
        _without_jobs_that_are_over_the_others_are_where_they_were(run)
        _jobs_that_could_never_run_are_turned_away_with_the_reason(scenario, run)


def _every_job_that_waits_can_say_why(world: World) -> None:
    jobs = world.scheduler.view().jobs
    reasons = reasons_to_wait(world.scheduler)
    waiting = {int(number) for number in jobs.number[jobs.held == 0.0]}
    assert set(reasons) == waiting
    assert Reason.NONE not in reasons.values()


def _a_fork_that_runs_to_the_end_leaves_its_parent_alone(world: World) -> None:
    before = state_of(world.scheduler)
    Fork(world.scheduler).until()
    assert state_of(world.scheduler) == before


def _nothing_is_given_twice_and_all_work_is_done(audit: Audit, run: Run) -> None:
    audit.close(run.outcomes)
    chooses = run.scheduler.composition.policy.chooses_nodes
    assert chooses or run.scheduler.state.count[NODES_NAMED] == 0


def _the_same_seed_leaves_the_same_journal(scenario: Scenario, run: Run) -> None:
    """Journals are equal also where no watcher looked and no fork was taken."""
    assert happen(scenario).journal_bytes == run.journal_bytes


def _replaying_the_written_journal_rebuilds_the_state(run: Run, folder: Path) -> None:
    """Also where it goes on from a snapshot taken half way, with all that the parts remember."""
    run.journal.write(folder / "journal.jsonl")
    header, written = read_journal(folder / "journal.jsonl")
    entries = list(written)
    half = len(entries) // 2
    there = replay(header, entries[:half])
    (folder / "now.json").write_bytes(Snapshot.of(there, header.volvelle).encode())
    snapshot = read_snapshot(folder / "now.json")
    scheduler, forgetful = snapshot.resume(header.composition.build())
    assert state_of(scheduler) == state_of(there)
    assert not forgetful
    for entry in entries[half:]:
        assert scheduler.handle(entry.time, entry.events) == entry.decision
    assert state_of(scheduler) == state_of(run.scheduler)


def _following_without_asking_the_policy_leads_to_the_same_holdings(run: Run) -> None:
    followed = follow(run.journal.header, run.journal.entries)
    left_behind = ["table", "curve", "reason"]  # by a policy that is asked
    if run.scheduler.composition.policy.divides:
        left_behind += ["rate", "done", "progress_from", "cpus", "memory"]
    ours, theirs = followed.view().jobs, run.scheduler.view().jobs
    for name in Jobs.float_columns[:KNOWN_COLUMNS]:
        if name not in left_behind and not name.startswith("tru"):
            np.testing.assert_array_equal(ours.column(name), theirs.column(name), name)
    np.testing.assert_array_equal(followed.resources.owner, run.scheduler.resources.owner)


def _without_jobs_that_are_over_the_others_are_where_they_were(run: Run) -> None:
    header, entries = run.journal.header, run.journal.entries
    half, survey = len(entries) // 2, Survey()
    for entry in entries[: half // 2]:
        survey.take(entry)
    later = {getattr(event, "number", -1) for one in entries[half // 2 :] for event in one.events}
    gone = {number: name for number, name in survey.over().items() if number not in later}
    kept = [one for entry in entries[:half] if not says_nothing(one := pruned(entry, gone))]
    ours, theirs = follow(header, kept), follow(header, entries[:half])
    assert _holdings(ours) == _holdings(theirs)
    rest, whole = outcomes_of(header, [*kept, *entries[half:]]), outcomes_of(header, entries)
    row_of = {spec.id: row for row, spec in enumerate(whole.specs)}
    same = [row_of[spec.id] for spec in rest.specs]
    for name in ("first_start", "finish", "gpu_seconds", "preemptions", "restarts", "status"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name)[same], name)


def _holdings(scheduler: Scheduler) -> dict[int, tuple[object, ...]]:
    """By number of each job its GPUs, how long it has held any, and how often it started and failed."""
    jobs = scheduler.state.jobs
    counted = (jobs.held, jobs.type, jobs.attained, jobs.attempt, jobs.failures)
    return {
        number: (tuple(scheduler.slots_of(row)), *(float(column[row]) for column in counted))
        for number, row in scheduler.known.rows.items()
    }


def _jobs_that_could_never_run_are_turned_away_with_the_reason(
    scenario: Scenario, run: Run
) -> None:
    outcomes = run.outcomes
    for spec, status, reason in zip(outcomes.specs, outcomes.status, outcomes.reason, strict=True):
        if spec.least_gpus > scenario.cluster.gpus:
            assert status == JobStatus.REJECTED
            wide = reason.startswith(f"wants {spec.least_gpus:g} GPUs, the cluster has ")
            assert wide or (reason and (spec.exclusive or spec.constraints))


@policy_promises.promise()
def what_users_change_is_replayed(policy: str) -> None:
    """Holds, releases, new declarations and requeues lead to the same from journals and snapshots."""

    def check(done: list[Act]) -> None:
        check_user_changes(policy, done)

    on_random(6, check, done=acts)


@policy_promises.promise(lambda policy: policy.shares_gpus)
def two_that_share_gpus_hold_one_half_each(policy: str) -> None:
    """The audit holds where many jobs alike come to few GPUs."""

    def check(scenario: Scenario) -> None:
        audited(scenario.under(policy))

    on_random(8, check, scenario=scenarios(CROWDED))


@policy_promises.promise()
def the_forecast_is_the_outcome_once_all_have_arrived(policy: str) -> None:
    """Forecasts, made where all beliefs are true, are what happens."""

    def check(scenario: Scenario) -> None:
        scenario = scenario.under(policy)
        forecasts: list[dict[int, float]] = []

        def look_ahead(world: World) -> None:
            if world.now >= scenario.last_arrival and world.settled:
                forecasts.append(Fork(world.scheduler).until().finish)

        outcomes = happen(scenario, on_moment=look_ahead).outcomes
        for foreseen in forecasts:
            for number, finish in foreseen.items():
                if outcomes.status[number] == JobStatus.FAILED:  # its time limit was over
                    ended = outcomes.segments.end[outcomes.segments.job == number].max()
                    assert finish <= ended + 1e-6
                else:
                    assert outcomes.finish[number] == pytest.approx(finish, rel=1e-9)

    related = replace(KNOWN, dependencies=True, limits=True, labels=True)
    on_random(6, check, scenario=scenarios(related))


@policy_promises.promise(lambda policy: not policy.needs_durations)
def durations_do_not_matter(policy: str) -> None:
    """A policy that needs no durations decides alike by wrong ones."""

    def check(scenario: Scenario) -> None:
        scenario = scenario.under(policy)
        wrong = scenario.under(estimator="noisy:error=0.9")
        finish = happen(scenario).outcomes.finish
        np.testing.assert_array_equal(finish, happen(wrong).outcomes.finish)

    on_random(7, check, scenario=scenarios(EVERYTHING))


@policy_promises.promise(lambda policy: policy.work_conserving)
def no_gpu_idles_while_a_job_that_fits_it_waits(policy: str) -> None:
    """At its decisions, on GPUs of one type without pools, where nothing fails."""

    def check(scenario: Scenario) -> None:
        scenario = scenario.under(policy)
        period = scenario.scheduler().composition.policy.round

        def look(world: World) -> None:
            if period is not None and world.now % period:
                return
            jobs = world.scheduler.view().jobs
            idle = scenario.cluster.gpus - jobs.held.sum()
            assert np.all(jobs.min_gpus[jobs.held == 0.0] > idle)

        happen(scenario, on_moment=look)

    alike = Features(types=False, pools=False, slots=False, nodes=False, amounts=False)
    on_random(9, check, scenario=scenarios(alike))


@policy_promises.promise(lambda policy: policy.starvation_free)
def a_wide_job_is_served_while_narrow_jobs_keep_arriving(policy: str) -> None:
    """More work arrives than the cluster can do, for long; the widest possible job is not passed over."""

    def check(cluster: Cluster, seconds: int, load: float) -> None:
        gap = seconds / cluster.gpus / load
        narrow = [linear_job(n, n * gap, 1.0, seconds) for n in range(200)]
        wide = linear_job(20, 20 * gap, float(cluster.gpus), seconds)
        jobs = [*narrow[:20], wide, *narrow[20:]]
        run = happen(Scenario.of(cluster, jobs, policy=policy))
        ahead = sum(job.truth.work for job in jobs[:20]) / cluster.gpus
        assert run.outcomes.first_start[20] <= ahead + seconds + 20 * gap
        assert set(run.outcomes.status) == {JobStatus.FINISHED}

    drawn = {"cluster": clusters(GANGS), "seconds": st.integers(1, 6), "load": st.floats(1.0, 1.5)}
    on_random(7, check, **drawn)


def _serves_all(policy: Policy) -> bool:
    kernel = policy.kernel(named=False)
    return kernel is not None and kernel.serves_all


@policy_promises.promise(_serves_all)
def a_kernel_that_serves_all_is_not_missed(policy: str) -> None:
    """Journals are the same where the kernel is asked although there are GPUs for all."""
    part = type(policies.make(policy))
    kernel = part.kernel

    def asked(self: Policy, *, named: bool) -> Kernel | None:
        made = kernel(self, named=named)
        return made and made._replace(serves_all=False)

    def check(scenario: Scenario) -> None:
        scenario = scenario.under(policy)
        unasked = happen(scenario).journal_bytes
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(part, "kernel", asked)
            assert happen(scenario).journal_bytes == unasked

    alike = replace(EVERYTHING, types=False, pools=False)
    on_random(7, check, scenario=scenarios(alike))


@policy_promises.promise()
def machine_code_leaves_the_same_journal(policy: str) -> None:
    """Runs of random scenarios, compiled and interpreted, with GPUs counted and with names."""
    check_journals(policy)


@policy_promises.promise()
def machine_code_predicts_the_same(policy: str) -> None:
    """Predictions at submission and their quantiles, compiled and interpreted."""
    for placement in COUNTED_AND_BY_NAME:
        check_predictions(small_setting(policy=policy, placement=placement))


@policy_promises.promise()
def a_synthesizer_chooses_the_same_by_machine_code(policy: str) -> None:
    """A synthesizer that may choose the policy does so, compiled and interpreted."""
    for placement in COUNTED_AND_BY_NAME:
        check_synthesis(small_setting(placement=placement), policy, "accept-all")


@policy_promises.promise()
def a_search_measures_what_a_run_shows(policy: str) -> None:
    """Figures of `volvelle tune`, without predictions and with."""
    for placement in COUNTED_AND_BY_NAME:
        check_search(small_setting(policy=policy, placement=placement))
