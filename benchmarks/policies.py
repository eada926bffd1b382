"""What an event costs under every policy: python benchmarks/policies.py [POLICY ...] [--against CHECKOUT]

Every registered policy, as compiled runs have it, on one workload of 20,000 jobs on 128 GPUs at a load of
0.9: CPU microseconds of the simulation proper for each event, the least of several runs, those inside its
solver (HiGHS, or Pollux' genetic search), the peak memory of its process, and the limit: 5 times the time
inside, or 15 us. A policy that would take longer than --seconds a run, by what 1,000 jobs take, gets fewer
jobs, which the row says; policies that miss their limit are listed below with why, and with how often Python
decided and what that cost. Nodes have CPUs and memory
where a policy divides them. --pools: the GPUs belong to so many pools that lend, of which each has as many
jobs; without policies named, anticipatory is run once more in 8 of them, and kueue on a described site, which
the policy ``kueue:site=...`` names as well: a cohort of four queues that preempt. --against runs another
checkout (a folder with ``src/volvelle`` or a revision) on the same jobs, turn about (A B A B), each run in a
process of its own.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from highspy import Highs
from house import unpacked
from measure import peak_megabytes
from msgspec.structs import replace

from volvelle.core import answers, state
from volvelle.core.policy import policies
from volvelle.incumbents.kueue.plain import GPU
from volvelle.model.cluster import Pool, parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.pollux.search import search
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

JOBS, FEWER, PILOT = 20_000, 5_000, 1_000
GPUS, LOAD = 128, 0.9
GOAL, TIMES_INSIDE = 15.0, 5.0
"""Microseconds an event that a policy without a solver may take; with one, times the time inside it."""
PATIENCE = 20
"""A process is given up after so many times --seconds."""
DECIDES = {
    "ORDER": "a kept order",
    "KERNEL": "a kernel",
    "ASKED": "Python, asked for all jobs",
}
"""By the names in `volvelle.core.state`, as far as a checkout has them."""
MUST = {
    "slurm": "enters each job in the controller's queue and books, runs a main pass after every event and a "
    "backfill pass every bf_interval in which something changed, in which it plans all jobs that wait",
    "chronus": "reserves anew for guaranteed jobs whenever a best-effort lease ends, and tells each job with "
    "deadlines what is guaranteed to it",
}
"""Work beyond one decision in O(1) that a policy is defined by."""
DESCRIBED = "kueue:site=..."
"""Kueue on a site that `site` describes."""
QUEUES = 4
Measured = dict[str, Any]


def site() -> dict[str, Any]:
    """Objects of a site with Kueue: a cohort of queues with equal quotas, which reclaim what they lent."""
    quotas = [{"name": "gpus", "resources": [{"name": GPU, "nominalQuota": GPUS // QUEUES}]}]
    spec = {
        "cohortName": "all",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": quotas}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }
    named: list[tuple[str, str, Any]] = [("ResourceFlavor", "gpus", {})]
    named += [("ClusterQueue", f"queue-{number}", spec) for number in range(QUEUES)]
    version = "kueue.x-k8s.io/v1beta2"
    items = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in named
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def measure(policy: str, options: Any) -> Measured:
    """One run in this process; ``jobs`` 0: as many as ``seconds`` are enough for, by the pilot's pace."""
    jobs, seconds = options.jobs, options.seconds
    made = make_generator(options.generate, {"jobs": JOBS, "gpus": GPUS, "load": LOAD})
    workload = made.generate(np.random.default_rng(0))
    written = f"kueue:site={options.site}" if policy == DESCRIBED else policy
    composition = typing.get_type_hints(Setting)["composition"](
        written, placement=options.placement
    )
    cluster = parse_cluster(f"{GPUS // 8}x8")
    if options.pools:
        names = [f"pool-{number}" for number in range(options.pools)]
        pools = tuple(Pool(name, GPUS / len(names), lends=True) for name in names)
        cluster = replace(cluster, pools=pools)
        pooled = [
            replace(job, spec=replace(job.spec, pool=names[number % len(names)]))
            for number, job in enumerate(workload.jobs)
        ]
        workload = Workload(tuple(pooled), workload.name)
    if policy == DESCRIBED:
        queued = [
            replace(job, spec=replace(job.spec, queues=(f"queue-{number % QUEUES}",)))
            for number, job in enumerate(workload.jobs)
        ]
        workload = Workload(tuple(queued), workload.name)
    if policies.make(policy.partition(":")[0]).divides:
        nodes = [replace(node, cpus=24.0, memory_gb=500.0) for node in cluster.nodes]
        cluster = replace(cluster, nodes=tuple(nodes))
    setting = Setting(cluster=cluster, composition=composition)
    pilot = Workload(workload.jobs[: min(PILOT, jobs or PILOT)], workload.name)
    for _ in range(2):  # the first compiles what was never compiled
        run = simulate(pilot, setting, compiled=True)
    if not jobs:
        cost = run.cpu_seconds / PILOT
        jobs = next((each for each in (JOBS, FEWER) if cost * each <= seconds), PILOT)
    with solving() as solver, asking() as asked:
        run = simulate(Workload(workload.jobs[:jobs], workload.name), setting, compiled=True)
    rules = run.scheduler.rules
    why = [text for name, text in DECIDES.items() if getattr(state, name, None) == rules.decides]
    why += ["Python is told of every end"] * rules.learns
    why += ["Python divides CPUs and memory"] * rules.divides
    if asked[0]:
        share, each = asked[0] / run.events, 1e6 * asked[1] / asked[0]
        why.append(f"Python decides at {share:.2f} of the events, {each:.0f} us each")
    why += [MUST[policy]] if policy in MUST else []
    return {
        "jobs": jobs,
        "events": run.events,
        "cost": 1e6 * run.cpu_seconds / run.events,
        "inside": 1e6 * solver[1] / run.events,
        "why": "; ".join(why),
        "peak": peak_megabytes(),
        "mean_finish": float(np.nanmean(run.outcomes.finish)),
    }


def timed(function: Any, spent: list[float]) -> Any:
    """``function``, whose calls and CPU seconds are added to ``spent``."""

    def call(*given: Any) -> Any:
        began = time.process_time()
        try:
            return function(*given)
        finally:
            spent[0] += 1
            spent[1] += time.process_time() - began

    return call


@contextmanager
def solving() -> Iterator[list[float]]:
    """Calls of solvers, and CPU seconds inside, so far."""
    spent = [0.0, 0.0]
    with (
        patch.object(Highs, "run", timed(Highs.run, spent)),
        patch("volvelle.systems.pollux.policy.search", timed(search, spent)),
    ):
        yield spent


@contextmanager
def asking() -> Iterator[list[float]]:
    """Decisions in Python, and CPU seconds in them, so far; none of a checkout that asks otherwise."""
    spent, asked = [0.0, 0.0], getattr(answers, "ANSWERS", {})
    now = {key: timed(answer, spent) for key, answer in asked.items() if key == state.ASK_POLICY}
    with patch.dict(asked, now):
        yield spent


def in_a_process(source: Path | None, policy: str, jobs: int, options: Any) -> Measured:
    """`measure` in a new process, of the checkout with this source (None: the one that is installed)."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    words = [policy, "--placement", options.placement, "--generate", options.generate]
    command = [sys.executable, __file__, *words, "--jobs", str(jobs), "--here"]
    command += ["--seconds", str(options.seconds), "--pools", str(options.pools)]
    try:
        ended = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE * options.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"not over after {PATIENCE * options.seconds:g} s"}
    if ended.returncode:
        said = re.findall(r"^[\w.]*(?:Error|Exception|Problem)\b.*", ended.stderr, re.MULTILINE)
        return {"problem": [f"exit code {ended.returncode}", *said][-1]}
    return typing.cast(Measured, json.loads(ended.stdout.splitlines()[-1]))


def row(policy: str, sources: Sequence[Path | None], options: Any) -> list[Measured]:
    """The least of several runs under ``policy`` of each checkout, in turns."""
    best: list[Measured] = [{} for _ in sources]
    jobs = options.jobs
    for _ in range(options.times):
        for place, source in enumerate(sources):
            one = in_a_process(source, policy, jobs, options)
            jobs = one.get("jobs", jobs)
            if not best[place] or one.get("cost", np.inf) < best[place].get("cost", np.inf):
                best[place] = one
    return best


@contextmanager
def sources_of(against: str | None) -> Iterator[list[Path | None]]:
    """Where the checkouts' packages are; this one's is None, as it is installed."""
    with tempfile.TemporaryDirectory() as scratch:
        yield [None] if against is None else [None, unpacked(against, Path(scratch))]


def printed(one: Measured) -> str:
    """A checkout's columns."""
    if "problem" in one:
        return str(one["problem"])
    ratio = one["cost"] / max(one["inside"], 1e-9)
    inside = f"{one['inside']:9.1f} inside ({ratio:5.1f}x)"
    solver = inside if one["inside"] else " " * len(inside)
    return f"{one['cost']:9.1f} us {solver} {one['peak']:5.0f} MB"


def limit_of(one: Measured) -> float:
    """Microseconds an event that are to be enough."""
    return max(GOAL, TIMES_INSIDE * float(one.get("inside", 0.0)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", help="as they are written; all that are registered")
    parser.add_argument("--against", metavar="CHECKOUT")
    parser.add_argument("--placement", default="consolidated")
    parser.add_argument("--generate", default="demo", help="the jobs' generator")
    parser.add_argument("--pools", type=int, default=0, help="that lend their GPUs; 0: none")
    parser.add_argument("--jobs", type=int, default=0, help="as many as --seconds are enough for")
    parser.add_argument("--seconds", type=float, default=30.0, help="of CPU, about, for one run")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="one policy, in this process, as JSON")
    options = parser.parse_args()
    if options.here:
        (policy,) = options.policies
        with tempfile.NamedTemporaryFile("w", suffix=".json") as described:
            json.dump(site(), described)
            described.flush()
            options.site = described.name
            try:
                one = measure(policy, options)
            except Problem as problem:
                one = {"problem": f"refused: {problem}"}
        print(json.dumps(one))
        return
    print(f"{options.generate}: {JOBS:,} jobs, {GPUS} GPUs, load {LOAD}, {options.placement}")
    slow: list[str] = []
    with sources_of(options.against) as sources:
        rows = [(policy, options.pools) for policy in options.policies or policies.all()]
        rows += [] if options.policies else [("anticipatory", 8), (DESCRIBED, 0)]
        for policy, options.pools in rows:
            here, *others = row(policy, sources, options)
            name = f"{policy}, {options.pools} pools" if options.pools else policy
            line = f"{name:22}{printed(here)}"
            for other in others:
                line += f"  against {printed(other)}"
                if "cost" in here and "cost" in other:
                    same = here["mean_finish"] == other["mean_finish"]
                    line += f" {here['cost'] / other['cost']:5.2f}x"
                    line += "" if same else ", other outcomes"
            if here.get("jobs", JOBS) != JOBS:
                line += f"  ({here['jobs']:,} jobs)"
            missed = here.get("cost", np.inf) > limit_of(here)
            print(f"{line}  (limit {limit_of(here):.0f}){'  MISSED' * missed}", flush=True)
            if missed:
                slow.append(f"{name:22}{printed(here)}: {here.get('why', 'no figure')}")
    print(f"\nthat miss their limit: {len(slow)}")
    print("\n".join(slow))


if __name__ == "__main__":
    main()
