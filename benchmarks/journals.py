"""Whether two checkouts decide alike: digests of journals of every policy on a fixed set of scenarios.

    python benchmarks/journals.py                      # digests of this checkout, as JSON
    python benchmarks/journals.py --against REVISION   # what differs from another revision or folder

A refactoring that is to change no decision leaves no difference. The scenarios are small enough for every
policy, solvers included: jobs counted and by name, on several GPU types, in pools, with dependencies,
failures and changes of nodes, and a crowd, interpreted and in machine code.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import encode_array
from volvelle.core.journal import Entry
from volvelle.core.policy import policies
from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, Pool
from volvelle.model.job import Dependency, Job, JobSpec, Regime, Reward, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import (
    Amdahl,
    AnyThroughput,
    Linear,
    PerBatchSize,
    PerType,
    Table,
)
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

VARIANTS = [
    "fifo:preemptive=true",
    "srtf:round=20",
    "las:round=25,service=seconds,strict=true",
    "easy:round=30",
    "afs-p:turn=30",
    "tiresias-pollux:limits=200/600,promote=2",
    "themis:filter=0.5,lease=20,contention=time",
    "drf:by=job,round=30",
    "gavel-las:space_sharing=true,round=30",
    "gavel-cost:prices=a:2/b:1,round=30",
    "pcs:thresholds=20/100,disparity=1,efficiency=0.8",
    "pcs:own_queues=true,disparity=0.5,turn=30",
    "anticipatory-vc:locality=true",
    "fcfs-pools:locality=true",
    "chronus:lease=40",
    "shockwave:round=15,window=4,makespan=1",
]
"""Parameters other than the defaults, in which policies decide by other code."""

_OVERHEADS = Overheads(start=0.5, restore=2.0, checkpoint=1.0, checkpoint_every=25.0)


class Scenario(NamedTuple):
    """Jobs and where they run. compiled: by machine code."""

    workload: Workload
    cluster: Cluster
    placement: str = "none"
    overheads: Overheads = _OVERHEADS
    compiled: bool = False
    estimator: str = "declared"


def _nodes(*kinds: str) -> tuple[Node, ...]:
    return tuple(
        Node(f"node-{i}", 4, kind, cpus=12.0, memory_gb=80.0) for i, kind in enumerate(kinds)
    )


def _throughput(rng: np.random.Generator, kinds: Sequence[str]) -> AnyThroughput:
    speed = float(rng.choice([0.7, 1.0, 3.0]))
    if len(kinds) > 1:
        return PerType({kind: Linear(speed * (1.0 + 0.5 * i)) for i, kind in enumerate(kinds)})
    models = (Linear(speed), Amdahl(speed, 0.9), Table((speed, 1.7 * speed, 2.1 * speed)))
    return models[int(rng.integers(3))]


def _beside(throughput: AnyThroughput, gpus: int, kinds: Sequence[str]) -> dict[str, AnyThroughput]:
    """Rates of a job beside one called vision: seven tenths of what it does alone."""
    alone = {
        kind: Table((0.0,) * (gpus - 1) + (0.7 * throughput.rate(gpus, kind),)) for kind in kinds
    }
    return {"vision": PerType(dict(alone)) if len(kinds) > 1 else alone[kinds[0]]}


def _jobs(
    count: int,
    seed: int,
    *,
    gap: float,
    kinds: Sequence[str] = ("",),
    pools: Sequence[str] = (),
    elastic: float = 0.3,
    crashing: float = 0.0,
    adapting: float = 0.0,
    waiting: float = 0.0,
    due: float = 0.2,
) -> Workload:
    """Random jobs of up to some minutes. Shares: of jobs with the feature of that name."""
    rng = np.random.default_rng(seed)
    jobs: list[Job] = []
    submit = 0.0
    for number in range(count):
        submit += float(np.round(rng.exponential(gap), 1))
        gpus = float(rng.choice([1, 1, 1, 2, 4]))
        throughput = _throughput(rng, kinds)
        seconds = float(np.round(rng.lognormal(3.7, 1.0), 1))
        work = seconds * throughput.rate(gpus, kinds[0])
        limits = (1.0, gpus + 2.0) if rng.random() < elastic else (None, None)
        failures = (0.4 * work,) if rng.random() < crashing else ()
        adapts = rng.random() < adapting
        regimes = (Regime(0.0, 32, 1.0), Regime(0.5 * work, 64, 1.5)) if adapts else ()
        after = (
            (Dependency(jobs[int(rng.integers(number))].spec.id, bool(rng.integers(2)), 3.0),)
            if number and rng.random() < waiting
            else ()
        )
        spec = JobSpec(
            id=f"job-{number}",
            submit_time=submit,
            gpus=gpus,
            min_gpus=limits[0],
            max_gpus=limits[1],
            cpus=float(rng.choice([0.0, 1.0, 5.0])),
            pool=str(rng.choice(pools)) if len(pools) else "",
            user=str(rng.choice(["ada", "bo", "cy"])),
            name=str(rng.choice(["lm", "vision"])),
            preemptible=bool(rng.random() > 0.1),
            estimate_seconds=float(np.round(seconds * rng.lognormal(0.0, 0.4), 1)) + 1.0,
            throughput=PerBatchSize({32: Linear(1.0), 64: Linear(1.5)}, 32)
            if adapts
            else throughput,
            adaptation=Adaptation(rule=ScalingRule.GNS, epochs=work, sizes=(32, 64), regimes=2)
            if adapts
            else None,
            rewards=(Reward(4.0 * seconds + 30.0, 100.0),) if rng.random() < due else (),
            after=after,
            priority=int(rng.integers(-1, 2)),
        )
        truth = Truth(
            work=work,
            throughput=Linear(1.0) if adapts else throughput,
            failures=failures,
            regimes=regimes,
            beside={} if adapts else _beside(throughput, int(gpus), kinds),
        )
        jobs.append(Job(spec, truth))
    return Workload(tuple(jobs))


def scenarios() -> dict[str, Scenario]:
    """The fixed set: changing one makes earlier revisions incomparable, so add others instead."""
    four = Cluster(_nodes("", "", "", ""))
    changing = msgspec.structs.replace(
        four,
        changes=(
            NodeChange(100.0, "node-1", NodeState.DRAINING),
            NodeChange(260.0, "node-1", NodeState.UP),
            NodeChange(300.0, "node-2", NodeState.DOWN),
            NodeChange(480.0, "node-2", NodeState.UP),
        ),
    )
    typed = Cluster(_nodes("a", "a", "b", "b"))
    pools = msgspec.structs.replace(four, pools=(Pool("red", 10.0, True), Pool("blue", 6.0, True)))
    crowd = Cluster(tuple(Node(f"node-{i}", 8) for i in range(4)))
    many = _jobs(600, 7, gap=3.2)
    return {
        "counted": Scenario(_jobs(70, 1, gap=9.0), four),
        "by name": Scenario(_jobs(70, 2, gap=9.0, crashing=0.2), four, "consolidated"),
        "nodes change": Scenario(_jobs(50, 3, gap=9.0, crashing=0.1), changing, "first-free"),
        "typed": Scenario(_jobs(50, 4, gap=9.0, kinds=("a", "b")), typed),
        "pools": Scenario(_jobs(70, 5, gap=9.0, pools=("red", "blue")), pools),
        "pools by name": Scenario(
            _jobs(50, 6, gap=9.0, pools=("red", "blue"), crashing=0.1), pools, "consolidated"
        ),
        "dependencies": Scenario(_jobs(50, 8, gap=7.0, waiting=0.3), four),
        "batch sizes": Scenario(_jobs(40, 9, gap=9.0, adapting=0.4), four),
        "known beside others": Scenario(
            _jobs(50, 11, gap=6.0, elastic=0.0), four, estimator="oracle"
        ),
        "crowd": Scenario(many, crowd),
        "crowd in machine code": Scenario(many, crowd, compiled=True),
        "crowd by name in machine code": Scenario(many, crowd, "consolidated", compiled=True),
        "CPUs by name in machine code": Scenario(
            many, Cluster(_nodes(*[""] * 8)), "consolidated", compiled=True
        ),
        "crowded pools in machine code": Scenario(
            _jobs(300, 10, gap=3.2, pools=("red", "blue"), elastic=0.0),
            msgspec.structs.replace(
                crowd, pools=(Pool("red", 20.0, True), Pool("blue", 12.0, True))
            ),
            compiled=True,
        ),
    }


def digest(scenario: Scenario, policy: str, admission: str) -> str:
    """A digest of the journal of ``policy``, or why there is none."""
    setting = Setting(
        cluster=scenario.cluster,
        composition=WrittenComposition(policy, scenario.placement, admission, scenario.estimator),
        overheads=scenario.overheads,
        until=1e5,
    )
    try:
        run = simulate(scenario.workload, setting, journal=True, compiled=scenario.compiled)
    except Problem as problem:
        return f"refused: {problem}"
    except Exception as error:  # a fault of this revision, which the other may not have
        return (
            f"crashed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
    assert run.journal is not None
    return hashlib.sha256(b"\n".join(map(_decided, run.journal.entries))).hexdigest()


def _decided(entry: Entry) -> bytes:
    """An entry without reasons and without attributes of jobs and nodes, of which one side may have more."""
    said = msgspec.json.decode(msgspec.json.encode(entry, enc_hook=encode_array))
    decision = said["decision"]
    for one in (*decision["rejected"], *decision["concluded"], *decision["promises"]):
        one.pop("reason")
    del decision["notices"]
    for event in said["events"]:
        event.pop("spec", None)
        event.pop("node", None)
    return msgspec.json.encode(said)


def digests(
    wanted: Sequence[str], within: Sequence[str], admission: str, tell: Callable[[str], None]
) -> dict[str, str]:
    """Digests by scenario and policy. wanted: policies; within: scenarios; all where empty."""
    known = policies.all()
    found = {}
    for name, scenario in scenarios().items():
        if within and name not in within:
            continue
        tell(name)
        for policy in wanted or [*known, *VARIANTS]:
            found[f"{name} / {policy}"] = digest(scenario, policy, admission)
    return found


@contextmanager
def _checkout(where: str) -> Iterator[Path]:
    """The folder ``where``, or a temporary worktree of the revision of that name."""
    if Path(where).is_dir():
        yield Path(where).resolve()
        return
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--detach", "-f", str(tree), where], check=True, stdout=2)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _digests_of(checkout: Path, options: Sequence[str]) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, *options]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=-1).stdout)


def main() -> int:
    """Print digests, or what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", help="a revision or a folder with another checkout")
    parser.add_argument("--policy", action="append", default=[], help="only this; repeatable")
    parser.add_argument("--scenario", action="append", default=[], help="only this; repeatable")
    parser.add_argument("--admission", default="accept-all")
    chosen = parser.parse_args()
    ours = digests(
        chosen.policy,
        chosen.scenario,
        chosen.admission,
        lambda name: print(name, file=sys.stderr, flush=True),
    )
    if chosen.against is None:
        print(json.dumps(ours, indent=1))
        return 0
    options = [f"--policy={one}" for one in chosen.policy]
    options += [f"--scenario={one}" for one in chosen.scenario]
    options.append(f"--admission={chosen.admission}")
    with _checkout(chosen.against) as other:
        theirs = _digests_of(other, options)
    differ = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    for key in sorted(differ):
        print(f"{key}\n  here  {ours.get(key)}\n  there {theirs.get(key)}")
    refused = sum(value.startswith("refused") for value in ours.values())
    crashed = sum(value.startswith("crashed") for value in ours.values())
    print(
        f"{len(ours)} journals, of which {refused} refused and {crashed} crashed here; "
        f"{len(differ)} differ from {chosen.against}"
    )
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
