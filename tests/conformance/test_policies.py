"""What every policy promises by being registered, on random small workloads."""

import hashlib
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audit import Audit
from documented import documented_policies
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    CROWDED,
    EVERYTHING,
    GANGS,
    KNOWN,
    Features,
    Run,
    Scenario,
    clusters,
    happen,
    linear_job,
    scenarios,
    state_of,
)

from volvelle.core.fork import Fork
from volvelle.core.image import Image, read_image
from volvelle.core.journal import follow, read_journal, replay
from volvelle.core.policy import policies
from volvelle.core.pruning import Survey, pruned, says_nothing
from volvelle.core.reasons import reasons_to_wait
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot, read_snapshot
from volvelle.core.state import KNOWN_COLUMNS, Jobs, Reason
from volvelle.metrics.outcomes import JobStatus
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.world import World

SHARING = [
    "gavel-las:space_sharing=true,round=30",
    "gavel-las:space_sharing=true,round=45,reallocate=100,by_type=true",
    "gavel-hierarchical:space_sharing=true,round=30",
    "gavel-ftf:space_sharing=true,round=60",
    "gavel-makespan:space_sharing=true,round=30",
    "gavel-throughput:space_sharing=true,round=30",
    "gavel-cost:space_sharing=true,prices=a:2/b:1,round=30",
    "gavel-fifo:space_sharing=true,round=30",
    "pcs-gavel:thresholds=20/100,disparity=1,aware=false,round=30",
]
"""Policies that let two jobs run on the same GPUs."""

VARIANTS = [
    "fifo:elastic=false",
    "fifo:preemptive=true",
    "fifo:round=30",
    "fifo-skip:round=7.5",
    "sjf:preemptive=true,strict=true",
    "srtf:round=20",
    "srtf:elastic=false",
    "srsf:preemptive=false",
    "las:round=30",
    "las:round=25,service=seconds,strict=true",
    "max-min:round=30",
    "max-min:weighted=true",
    "easy:round=30",
    "conservative:round=30",
    "ssf:strict=false",
    "mmfs:strict=false",
    "anticipatory-vc:round=30",
    "anticipatory-vc:locality=true",
    "fcfs-pools:locality=true",
    "afs-l:ties=later,round=30",
    "afs-p:turn=30",
    "optimus:round=30",
    "optimus:remaining=reported",
    "tiresias-pollux:limits=20,round=30",
    "tiresias-pollux:limits=200/600,promote=2",  # a turn is longer than a restore
    "themis:lease=20",
    "themis:round=30",
    "themis:preemptive=false",
    "hived-nonpreemptive:round=30",
    "themis:filter=0.5,lease=20,contention=time",
    "themis:filter=0.3,by=share,ties=turns,lease=20",
    "themis:filter=0.8,payments=true,ties=later,lease=20",
    "drf:by=job,round=30",
    "gavel-las:aware=false,round=30",
    "gavel-hierarchical:within=fifo,round=30",
    "gavel-ftf:aware=false,round=30",
    "gavel-fifo:aware=false,reallocate=100,round=30",
    "pcs:thresholds=20/100,disparity=1,efficiency=0.8",
    "pcs:thresholds=20/100,disparity=1,efficiency=0.8,whole=true,turn=20",
    "pcs:thresholds=60,delta=0.1,efficiency=0.9",
    "pcs:own_queues=true,disparity=0.5,turn=30",
    "pcs:thresholds=60,weights=3/1,round=30",
    "synergy-tune:order=srtf,leftovers=true",
    "synergy-tune:order=las,round=30",
    "synergy-opt:order=afs-l,round=30",
    "allox:round=30",
    "gandiva-fair:round=30",
    "gavel-throughput:steps=true,round=30",
    "shockwave:round=15,window=4,makespan=1",
    "shockwave:round=30,window=8,power=0,pieces=0,reactive=false,elastic=true",
    "chronus:lease=40",
    "chronus:lease=12,parts=3,margin=0.2",
    *SHARING,
]
"""Parameters other than the defaults, in which policies differ most."""

OURS = list(policies.all())
DOCUMENTED = documented_policies()
every_policy = pytest.mark.parametrize(
    "policy",
    [*OURS, *VARIANTS, *(pytest.param(path, id=name) for name, path in DOCUMENTED.items())],
)


@every_policy
@settings(max_examples=10)
@given(scenario=scenarios(EVERYTHING), moment=st.integers(0, 30))
def test_a_run_keeps_what_every_policy_promises(
    policy: str, scenario: Scenario, moment: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One run feeds all checks, which are below, in this order."""
    scenario = scenario.under(policy)
    audit = Audit(scenario)
    taken: list[tuple[bytes, Scheduler]] = []

    def look(world: World) -> None:
        _every_job_that_waits_can_say_why(world)
        if world.moments == moment:
            taken.append((Snapshot.of(world.scheduler, "0").encode(), world.scheduler.fork()))
            _a_fork_that_runs_to_the_end_leaves_its_parent_alone(world)

    run = happen(scenario, audit, on_moment=look)
    _nothing_is_given_twice_and_all_work_is_done(audit, run)
    _the_same_seed_leaves_the_same_journal(scenario, run)
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    _replaying_the_written_journal_rebuilds_the_state(run, path)
    _following_without_asking_the_policy_leads_to_the_same_holdings(run)
    _without_jobs_that_are_over_the_others_are_where_they_were(run)
    _jobs_that_could_never_run_are_turned_away_with_the_reason(scenario, run)
    for encoded, original in taken:
        _a_snapshot_read_back_stands_where_it_was_taken(encoded, original, path)


@pytest.mark.parametrize("policy", ["fifo", "easy", "srsf", "las:round=30", "max-min"])
@settings(max_examples=15)
@given(scenario=scenarios(replace(EVERYTHING, dependencies=True, limits=True, labels=True)))
def test_a_run_with_dependencies_limits_and_constraints_keeps_it_too(
    policy: str, scenario: Scenario, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = scenario.under(policy)
    audit = Audit(scenario)
    run = happen(scenario, audit)
    _nothing_is_given_twice_and_all_work_is_done(audit, run)
    _the_same_seed_leaves_the_same_journal(scenario, run)
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    _replaying_the_written_journal_rebuilds_the_state(run, path)
    _following_without_asking_the_policy_leads_to_the_same_holdings(run)
    _without_jobs_that_are_over_the_others_are_where_they_were(run)


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
    assert chooses or not run.scheduler.nodes_wanted


def _the_same_seed_leaves_the_same_journal(scenario: Scenario, run: Run) -> None:
    """Also where nobody looked and no fork was taken."""
    assert happen(scenario).journal_bytes == run.journal_bytes


def _replaying_the_written_journal_rebuilds_the_state(run: Run, path: Path) -> None:
    """Also where it goes on from an image taken half way, with all that the parts remember."""
    run.journal.write(path)
    header, written = read_journal(path)
    entries = list(written)
    half = len(entries) // 2
    image = read_image(Image.of(replay(header, entries[:half])).encode())
    scheduler, forgetful = image.scheduler(header, header.composition.build())
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
            assert reason.startswith(f"wants {spec.least_gpus:g} GPUs, the cluster has ")


def _a_snapshot_read_back_stands_where_it_was_taken(
    encoded: bytes, original: Scheduler, path: Path
) -> None:
    path.write_bytes(encoded)
    snapshot = read_snapshot(path)
    assert Snapshot.of(snapshot.scheduler(), "0").encode() == encoded
    again = snapshot.scheduler()
    assert again.known == original.known
    np.testing.assert_array_equal(again.resources.owner, original.resources.owner)
    np.testing.assert_array_equal(again.resources.schedulable, original.resources.schedulable)
    free_at = (np.maximum(each.state.slots.free_at, each.now) for each in (again, original))
    np.testing.assert_array_equal(*free_at)


@pytest.mark.parametrize("policy", SHARING)
@settings(max_examples=8)
@given(scenarios(CROWDED))
def test_two_that_share_gpus_hold_one_half_each_and_all_work_is_done(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy)
    audit = Audit(scenario)
    run = happen(scenario, audit)
    audit.close(run.outcomes)


@every_policy
@settings(max_examples=6)
@given(scenarios(replace(KNOWN, dependencies=True, limits=True, labels=True)))
def test_the_forecast_is_the_outcome_once_everybody_has_arrived(
    policy: str, scenario: Scenario
) -> None:
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


@pytest.mark.parametrize(
    "policy", [name for name, kind in policies.all().items() if not kind.needs_durations]
)
@settings(max_examples=9)
@given(scenarios(EVERYTHING))
def test_a_policy_that_needs_no_durations_does_not_look_at_them(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy)
    wrong = scenario.under(estimator="noisy:error=0.9")
    np.testing.assert_array_equal(happen(scenario).outcomes.finish, happen(wrong).outcomes.finish)


@settings(max_examples=8)
@given(scenarios(replace(KNOWN, elastic=False, dependencies=True)))
def test_the_forecast_at_submission_is_the_outcome_under_fifo(scenario: Scenario) -> None:
    foreseen: dict[int, float] = {}

    def look_ahead(world: World) -> None:
        for number, finish in Fork(world.scheduler).until().finish.items():
            foreseen.setdefault(number, finish)

    outcomes = happen(scenario.under("fifo"), on_moment=look_ahead).outcomes
    assert outcomes.finish.tolist() == pytest.approx([foreseen[n] for n in sorted(foreseen)])


@pytest.mark.parametrize(
    "policy", [name for name, part in policies.all().items() if part.work_conserving]
)
@settings(max_examples=9)
@given(scenarios(Features(types=False, pools=False, slots=False, nodes=False, amounts=False)))
def test_no_gpu_idles_while_a_job_that_fits_it_waits(policy: str, scenario: Scenario) -> None:
    scenario = scenario.under(policy)
    period = scenario.scheduler().composition.policy.round

    def check(world: World) -> None:
        if period is not None and world.now % period:
            return
        jobs = world.scheduler.view().jobs
        idle = scenario.cluster.gpus - jobs.held.sum()
        assert np.all(jobs.min_gpus[jobs.held == 0.0] > idle)

    happen(scenario, on_moment=check)


PATIENT = [name for name, part in policies.all().items() if part.starvation_free]


@pytest.mark.parametrize("policy", PATIENT)
@settings(max_examples=7)
@given(clusters(GANGS), st.integers(1, 6), st.floats(1.0, 1.5))
def test_a_wide_job_is_served_while_narrow_jobs_keep_arriving(
    policy: str, cluster: object, seconds: int, load: float
) -> None:
    """More work arrives than the cluster can do, for long; the widest possible job is not passed over."""
    cluster = parse_cluster(str(cluster))
    gap = seconds / cluster.gpus / load
    narrow = [linear_job(n, n * gap, 1.0, seconds) for n in range(200)]
    wide = linear_job(20, 20 * gap, float(cluster.gpus), seconds)
    jobs = [*narrow[:20], wide, *narrow[20:]]
    run = happen(Scenario.of(cluster, jobs, policy=policy))
    ahead = sum(job.truth.work for job in jobs[:20]) / cluster.gpus
    assert run.outcomes.first_start[20] <= ahead + seconds + 20 * gap
    assert set(run.outcomes.status) == {JobStatus.FINISHED}


ONE_OF_EACH = """
import hashlib, sys
sys.path[:0] = {paths!r}
from test_policies import journal_digests
print(journal_digests())
"""


def journal_digests() -> str:
    """Digests of one fixed scenario's journals, under every policy of ours (tests may plug in more)."""
    ours = [
        name for name, part in policies.all().items() if part.__module__.startswith("volvelle.")
    ]
    digests = {
        policy: hashlib.sha256(_mixed(policy).journal_bytes).hexdigest()
        for policy in [*ours, *VARIANTS]
    }
    return repr(digests)


def _mixed(policy: str) -> Run:
    widths = itertools.cycle([1.0, 4.0, 2.0, 3.0])
    jobs = [
        linear_job(
            n,
            submit=7.0 * n,
            gpus=next(widths),
            seconds=20.0 + 13 * (n % 5),
            most=6.0 if n % 3 == 0 else None,
            types=("a", "b") if n % 2 else ("b",),
        )
        for n in range(30)
    ]
    cluster = parse_cluster("2x4:a,2x4:b")
    return happen(Scenario.of(cluster, jobs, placement="consolidated").under(policy))


def test_another_process_with_other_hashes_writes_the_same_journals() -> None:
    here = Path(__file__).parent
    script = ONE_OF_EACH.format(paths=[str(here), str(here.parent)])
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert there.stdout.strip() == journal_digests()
