"""Lucid beside FIFO, QSSF and Tiresias: a week of Philly's jobs, with Gavel's measured interference.

Lucid's table of interference (RTX 3090) is not part of this repository. Jobs are given the types of Gavel's
table (V100) instead: one for each user and model of the trace, drawn. So that what packing could do at best
and what the order alone does are seen too, the week is run without interference and without packing.
"""

import sys
from collections.abc import Mapping
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
NARROW = "lucid:widest=0.5"
"""Packs nobody."""
PLAIN: Mapping[str, tuple[str, str]] = {
    "FIFO": ("fifo", "oracle"),
    "Tiresias": ("tiresias:limits=18000,round=60", "oracle"),
    "QSSF": ("qssf", "similar-names"),
}
TYPE = "v100"


class Given(NamedTuple):
    """What is measured, and where the page goes."""

    out: Path
    setting: str


class Run(NamedTuple):
    """One run: hours, and the share of its jobs that shared GPUs."""

    name: str
    draw: int
    jct: float
    delay: float
    worst: float
    shared: float

    @classmethod
    def of(cls, name: str, draw: int, outcomes: Outcomes) -> "Run":
        """What is to be seen of it."""
        delay = outcomes.jct - outcomes.exclusive_seconds
        halved = outcomes.gpu_seconds < outcomes.gpus * outcomes.run_seconds * (1.0 - 1e-9)
        return cls(
            name,
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
            "nodes": (144, f"of {GPUS} GPUs"),
            "draws": (3, "of job types"),
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
        f"{len(jobs)} jobs of {options.days:g} days of Philly, {options.nodes} nodes of {GPUS} GPUs, of "
        f"which Lucid profiles on {PROFILING.nodes} for up to {PROFILING.seconds:g} s; job types drawn "
        f"{options.draws} times; a resume costs {RESTORE:g} s"
    )
    report = Report("sharing", "Jobs that share GPUs", Given(options.out, setting))
    runs: list[Run] = []
    for name, (policy, estimator) in PLAIN.items():
        typed = _typed(jobs, rates, 1, free=False)
        runs.append(Run.of(name, 1, _run(typed, options.nodes, policy, estimator)))
    for draw in range(1, options.draws + 1):
        for name, policy, free in (
            ("Lucid, nobody packed", NARROW, False),
            ("Lucid", "lucid", False),
            ("Lucid, no interference", "lucid", True),
        ):
            typed = _typed(jobs, rates, draw, free=free)
            outcomes = _run(typed, options.nodes, policy, "profiled-sharing")
            runs.append(Run.of(name, draw, outcomes))
    _write(report, runs)


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
    names = list(dict.fromkeys(run.name for run in runs))
    of = {name: [run for run in runs if run.name == name] for name in names}
    means = {name: float(np.mean([run.jct for run in of[name]])) for name in names}
    report.say(
        "In hours the mean JCT, and the delay, mean and 99.9 %: JCT without the time that the job takes "
        "alone. Then the share of the jobs that shared GPUs. All are means over the draws."
    )
    report.table(
        ("", "mean JCT", "over Lucid's", "delay", "99.9 %", "shared"),
        [
            (
                name,
                f"{means[name]:.2f}",
                f"{means[name] / means['Lucid']:.2f}",
                *(
                    f"{np.mean([getattr(run, of_what) for run in of[name]]):.2f}"
                    for of_what in ("delay", "worst")
                ),
                f"{np.mean([run.shared for run in of[name]]):.0%}",
            )
            for name in names
        ],
    )
    report.say(
        "What packing could do at best is in the last row, what the order alone does in that of nobody "
        "packed. No job of this trace is as short as a profile, so that none ends in the partition, and each "
        "is late by it."
    )
    ratios = [means["Tiresias"] / run.jct for run in of["Lucid"]]
    report.claims(
        [
            Claim(
                "abstract: up to 1.3 times shorter mean JCT than Tiresias",
                f"{np.mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                max(ratios) >= 1.25,
            ),
        ]
    )
    report.runs(
        ("scheduler", "draw", "mean JCT, h", "delay, h", "99.9 % of delays, h", "shared"),
        [(run.name, run.draw, *(round(value, 4) for value in run[2:])) for run in runs],
    )
    report.close()


if __name__ == "__main__":
    main()
