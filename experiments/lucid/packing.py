"""Lucid beside FIFO, QSSF and Tiresias: a week of Philly's jobs, with Gavel's measured interference.

Lucid's table of interference (RTX 3090) is not part of this repository. Jobs are given the types of Gavel's
table (V100) instead: one for each user and model of the trace, drawn. So that what packing could do at best
and what the order alone does are seen too, the week is run without interference and without packing.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Profiling, parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import AnyThroughput, Linear
from volvelle.model.units import DAY, HOUR
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.gavel.reader import Rates, read_throughputs
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED, Claim, Report, command_line

GPUS = 8
PROFILING = Profiling(nodes=2, seconds=80.0)
"""What the artifact has for Philly."""
RESTORE = 40.0
"""Seconds of a resume in the artifact's Tiresias, of jobs within a node (60 beyond)."""
PLAIN: Mapping[str, tuple[str, str]] = {
    "FIFO": ("fifo", "oracle"),
    "Tiresias": ("tiresias:limits=18000,round=60", "oracle"),
    "QSSF": ("qssf", "similar-names"),
}
LUCID = (
    ("Lucid, nobody packed", "lucid:widest=0.5", False),
    ("Lucid", "lucid", False),
    ("Lucid, no interference", "lucid", True),
)
"""The policy, and whether jobs are as fast beside others as alone."""
TYPE = "v100"


class Given(NamedTuple):
    """What is measured, and where the page goes."""

    out: Path
    setting: str


class Run(NamedTuple):
    """One run: hours, and the share of its jobs that shared GPUs."""

    name: str
    nodes: int
    draw: int
    jct: float
    delay: float
    worst: float
    shared: float

    @classmethod
    def of(cls, name: str, nodes: int, draw: int, outcomes: Outcomes) -> "Run":
        """What is to be seen of it."""
        delay = outcomes.jct - outcomes.exclusive_seconds
        halved = outcomes.gpu_seconds < outcomes.gpus * outcomes.run_seconds * (1.0 - 1e-9)
        return cls(
            name,
            nodes,
            draw,
            float(outcomes.jct.mean()) / HOUR,
            float(delay.mean()) / HOUR,
            float(np.quantile(delay, 0.999)) / HOUR,
            float(halved.mean()),
        )


def main() -> None:
    options = command_line(
        __doc__,
        Path(__file__).parent / "results",
        {
            "days": (7.0, "of the trace, from its begin on"),
            "nodes": ("136/144/160", f"of {GPUS} GPUs each, one cluster after another"),
            "draws": (2, "of job types"),
        },
    )
    trace = SHARED / "data/philly-chronus/trace_job_Philly_MIX2.csv"
    table = SHARED / "data/gavel/simulation_throughputs.json"
    if not (trace.is_file() and table.is_file()):
        print(
            "skipped: this experiment needs ../shared/data/philly-chronus and ../shared/data/gavel"
        )
        raise SystemExit(1)
    jobs = [
        job
        for job in read_trace(trace, "chronus").jobs
        if job.spec.submit_time < options.days * DAY
    ]
    rates = read_throughputs(table, sharing=True)
    setting = (
        f"{len(jobs)} jobs of {options.days:g} days of Philly, nodes of {GPUS} GPUs, of which "
        f"Lucid profiles on {PROFILING.nodes} for up to {PROFILING.seconds:g} s; job types drawn "
        f"{options.draws} times; a resume costs {RESTORE:g} s"
    )
    report = Report("packing", "Jobs that share GPUs", Given(options.out, setting))
    runs = [
        run
        for nodes in options.nodes.split("/")
        for run in _runs(jobs, rates, int(nodes), options.draws)
    ]
    _write(report, runs)


def _runs(jobs: list[Job], rates: Rates, nodes: int, draws: int) -> Iterator[Run]:
    """All runs on one cluster. Schedulers that let no job share GPUs need one draw."""
    typed = _typed(jobs, rates, 1, free=False)
    for name, (policy, estimator) in PLAIN.items():
        yield Run.of(name, nodes, 1, _run(typed, nodes, policy, estimator))
    for draw in range(1, draws + 1):
        for name, policy, free in LUCID:
            typed = _typed(jobs, rates, draw, free=free)
            yield Run.of(name, nodes, draw, _run(typed, nodes, policy, "profiled-sharing"))


def _run(jobs: list[Job], nodes: int, policy: str, estimator: str) -> Outcomes:
    cluster = parse_cluster(f"{nodes}x{GPUS}:{TYPE}")
    if policy.startswith("lucid"):
        cluster = msgspec.structs.replace(cluster, profiling=PROFILING)
    setting = Setting(
        cluster=cluster,
        composition=WrittenComposition(policy, placement="none", estimator=estimator),
        overheads=Overheads(restore=RESTORE),
    )
    return simulate(Workload(jobs), setting).outcomes


def _typed(jobs: list[Job], rates: Rates, draw: int, *, free: bool) -> list[Job]:
    """The jobs with a type of Gavel's table as name, and how fast they are beside each type.

    free: as fast as alone, beside any. The share of the rate alone is that on one GPU, as in the artifact.
    """
    rng, types = np.random.default_rng(draw), list(rates.beside)
    alone = {name: rates.alone[name].rate(1.0, TYPE) for name in types}
    beside: dict[str, dict[str, AnyThroughput]] = {
        name: {
            other: Linear(1.0 if free else model.rate(1.0, TYPE) / alone[name])
            for other, model in others.items()
        }
        for name, others in rates.beside.items()
    }
    drawn: dict[tuple[str, str], str] = {}
    typed = []
    for job in jobs:
        alike = job.spec.user, job.spec.name
        if alike not in drawn:
            drawn[alike] = types[rng.integers(len(types))]
        name = drawn[alike]
        typed.append(
            msgspec.structs.replace(
                job,
                spec=msgspec.structs.replace(job.spec, name=name),
                truth=msgspec.structs.replace(job.truth, beside=beside[name]),
            )
        )
    return typed


def _write(report: Report, runs: list[Run]) -> None:
    of: dict[tuple[int, str], list[Run]] = {}
    for run in runs:
        of.setdefault((run.nodes, run.name), []).append(run)
    jct = {key: float(np.mean([run.jct for run in same])) for key, same in of.items()}
    report.say(
        "In hours the mean JCT, and the delay, mean and 99.9 %: JCT without the time that the job takes "
        "alone. Then the share of the jobs that shared GPUs. All are means over the draws."
    )
    report.table(
        ("nodes", "", "mean JCT", "Tiresias' over it", "delay", "99.9 %", "shared"),
        [
            (
                str(nodes),
                name,
                f"{jct[nodes, name]:.2f}",
                f"{jct[nodes, 'Tiresias'] / jct[nodes, name]:.2f}",
                f"{np.mean([run.delay for run in same]):.2f}",
                f"{np.mean([run.worst for run in same]):.2f}",
                f"{np.mean([run.shared for run in same]):.0%}",
            )
            for (nodes, name), same in of.items()
        ],
    )
    report.say(
        "What packing could do at best is in the rows without interference, what the order alone does in "
        "those of nobody packed. No job of this trace is as short as a profile, so that none ends in the "
        "partition, and each is late by it."
    )

    def over(name: str) -> list[float]:
        return [jct[run.nodes, "Tiresias"] / run.jct for run in runs if run.name == name]

    seen, best = over("Lucid"), over("Lucid, no interference")
    report.claims(
        [
            Claim(
                "abstract: mean JCT up to 1.3 times shorter than Tiresias'",
                f"{min(seen):.2f} to {max(seen):.2f}; without interference {min(best):.2f} to "
                f"{max(best):.2f}",
                max(seen) >= 1.25,
            ),
        ]
    )
    report.runs(
        ("scheduler", "nodes", "draw", "mean JCT, h", "delay, h", "99.9 % of delays, h", "shared"),
        [(*run[:3], *(round(value, 4) for value in run[3:])) for run in runs],
    )
    report.close()


if __name__ == "__main__":
    main()
