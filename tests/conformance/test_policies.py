"""What every policy promises by being registered (`volvelle.testing`), on random small workloads."""

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from documented import documented_policies
from hypothesis import given, settings
from systems_here import here

from volvelle.core.fork import Fork
from volvelle.core.policy import Policy, policies
from volvelle.core.state import KERNEL
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Dependency
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import simulate
from volvelle.simulate.world import World
from volvelle.testing.audit import Audit
from volvelle.testing.machine_code import WORKLOAD, check_predictions, small_setting
from volvelle.testing.policies import policy_promises, runs_of_related_jobs_are_sound
from volvelle.testing.promises import Promise
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import KNOWN, scenarios

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
    "gavel-ftf:aware=false,steps=true,round=30",
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
    "gavel-throughput:steps=true,ties=alike,round=30",
    "shockwave:round=15,window=4,makespan=1",
    "shockwave:round=30,window=8,power=0,pieces=0,reactive=false,elastic=true",
    "chronus:lease=40",
    "chronus:lease=12,parts=3,margin=0.2",
    *SHARING,
]
"""Parameters other than the defaults, in which policies differ most."""

WITH_DEFAULTS = (
    "no_gpu_idles_while_a_job_that_fits_it_waits",
    "a_wide_job_is_served_while_narrow_jobs_keep_arriving",
    "durations_do_not_matter",
    "machine_code_predicts_the_same",
    "a_synthesizer_chooses_the_same_by_machine_code",
    "a_search_measures_what_a_run_shows",
)
"""Promises that are checked of policies with their default parameters alone."""


def _promises() -> Iterator[Any]:
    """Each policy with each of its promises; those of the documentation by the names of their files."""
    for name in policies.all():
        for promise in policy_promises.of(name):
            yield pytest.param(name, promise, id=f"{name}-{promise}")
    changed = {name: name for name in here(policies, VARIANTS)} | documented_policies()
    for name, written in changed.items():
        for promise in policy_promises.of(written):
            if str(promise) not in WITH_DEFAULTS:
                yield pytest.param(written, promise, id=f"{name}-{promise}")


@pytest.mark.parametrize(("policy", "promise"), list(_promises()))
def test_a_policy_keeps_its_promises(policy: str, promise: Promise[Policy]) -> None:
    promise.check(policy)


@pytest.mark.parametrize("policy", ["fifo", "easy", "srsf", "las:round=30", "max-min"])
def test_a_run_with_dependencies_limits_and_constraints_is_sound(policy: str) -> None:
    runs_of_related_jobs_are_sound(policy)


@settings(max_examples=8)
@given(scenarios(replace(KNOWN, elastic=False, dependencies=True)))
def test_the_forecast_at_submission_is_the_outcome_under_fifo(scenario: Scenario) -> None:
    foreseen: dict[int, float] = {}

    def look_ahead(world: World) -> None:
        for number, finish in Fork(world.scheduler).until().finish.items():
            foreseen.setdefault(number, finish)

    outcomes = happen(scenario.under("fifo"), on_moment=look_ahead).outcomes
    assert outcomes.finish.tolist() == pytest.approx([foreseen[n] for n in sorted(foreseen)])


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
        for policy in [*ours, *here(policies, VARIANTS)]
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
            max_gpus=6.0 if n % 3 == 0 else None,
            gpu_types=("a", "b") if n % 2 else ("b",),
        )
        for n in range(16)
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


def test_two_decisions_of_one_time_are_audited_one_after_the_other() -> None:
    """The time limit of a job that starts over is reached where a round begins."""
    crashes = linear_job(
        0, 0.0, 1.0, 100.0, failures=(10.0,), max_retries=1, time_limit_seconds=15.0
    )
    behind = linear_job(1, 0.0, 2.0, 1.0, after=(Dependency("job-0", any_end=True),))
    shrinks = linear_job(2, 0.1, 1.0, 1.0, min_gpus=1.0, max_gpus=2.0)
    jobs, overheads = (crashes, behind, shrinks), Overheads(start=5.0)
    cluster = parse_cluster("3x1")
    scenario = Scenario.of(
        cluster, jobs, policy="max-min:round=30", placement="first-free", overheads=overheads
    )
    audit = Audit(scenario)
    run = happen(scenario, audit)
    times = [entry.time for entry in run.journal.entries if len(entry.decision.job)]
    assert times.count(30.0) == 2
    audit.close(run.outcomes)


def test_a_compiled_decision_with_a_memory_is_predicted_the_same() -> None:
    """That of the documentation, which decides by its memory alone."""
    path = documented_policies()["patient.py"]
    finishes = []
    for patience in ("20", "1e9"):
        where = small_setting(policy=f"{path}:patience={patience}")
        run = simulate(WORKLOAD, where, compiled=True)
        assert run.scheduler.rules.decides == KERNEL
        finishes.append(run.outcomes.finish.tolist())
        check_predictions(where)
    assert finishes[0] != finishes[1]
