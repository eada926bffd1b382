"""How often P50 and P90 hold: python benchmarks/interval_coverage.py FOLDER --speedups TABLES [--only WORD]

FOLDER has the traces of the PCS simulator (trace_ee9e8c.csv and others), TABLES their speed-ups. Prints
for each run how many of the finished jobs had P50 and P90, how many of these were through by then, and what
lies between the two over the time predicted. Then how many ended to the microsecond as predicted, which
every P90 from the prediction on covers, and how many of the others were through by their P90.

First come complete traces: the last is the one on which defaults were chosen. Then generated workloads,
and windows of 700 jobs, each of which begins with nobody in the system and ends with nobody coming any more;
the last of them from where a burst makes up half of the jobs.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import per_job
from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated, read_source
from volvelle.workload.workload import Workload

PCS = "pcs:thresholds=1627/969473,weights=95/4.8/0.2"
POLICIES = {"srsf": "srsf", "pcs": PCS, "las": "las"}
BELIEFS = {"true": "oracle", "off by 30 %": "noisy:error=0.3"}
TRACES = {"ee9e8c": "1x64", "2869ce": "1x64", "103959": "1x16", "0e4a51": "1x64"}
WINDOWS = (
    *((trace, 0) for trace in TRACES),
    *(("ee9e8c", first) for first in (1_000, 2_000, 2_500, 4_000)),
    *(("103959", first) for first in (1_000, 1_900)),
    ("0e4a51", 900),
)
"""Traces, and from which job on."""
JOBS = 700


@dataclass(frozen=True)
class Run:
    """One line. workload: a trace or a generator. first: the job that a window begins with; None: all."""

    workload: str
    cluster: str
    policy: str
    beliefs: str
    first: int | None = None

    @property
    def name(self) -> str:
        """As printed."""
        start = "" if self.first is None else f" from {self.first}"
        return f"{self.policy:5} {self.workload + start:22} {self.beliefs:12}"


def runs() -> Iterator[Run]:
    """All of them, in order."""
    for trace, cluster in TRACES.items():
        for policy, beliefs in product(POLICIES, BELIEFS):
            yield Run(trace, cluster, policy, beliefs)
    for generator, policy in product(("gavel", "anticipatory"), ("srsf", "las")):
        yield Run(generator, "4x8", policy, "off by 30 %", 0)
    for trace, first in WINDOWS:
        for policy, beliefs in product(POLICIES, BELIEFS):
            yield Run(trace, TRACES[trace], policy, beliefs, first)


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--speedups", type=Path, required=True)
    arguments.add_argument(
        "--only", action="append", default=[], help="runs with this in their name"
    )
    given = arguments.parse_args()
    print(f"{'run':41} jobs    P50    P90    width   as predicted, P90 of the others")
    for run in runs():
        if all(word in run.name for word in given.only):
            print(
                f"{run.name:41} {_line(outcomes_of(run, given.folder, given.speedups))}", flush=True
            )


def outcomes_of(run: Run, folder: Path, speedups: Path) -> Outcomes:
    """What becomes of the jobs of the run's workload, each predicted."""
    cluster = parse_cluster(run.cluster)
    if (trace := folder / f"trace_{run.workload}.csv").exists():
        workload = read_source(trace, f"pcs:speedups={speedups}", {}, strict=False).workload
    else:
        workload = generated(run.workload, 1, cluster.gpus).workload
    jobs = workload.jobs
    if run.first is not None:
        jobs = jobs[run.first : run.first + JOBS]
    setting = Setting(
        cluster=cluster,
        composition=WrittenComposition(POLICIES[run.policy], estimator=BELIEFS[run.beliefs]),
        predict=True,
    )
    return simulate(Workload(jobs, run.workload), setting).outcomes


def _line(outcomes: Outcomes) -> str:
    held, error = per_job.within_p90(outcomes), per_job.prediction_error(outcomes)
    known = ~np.isnan(held)
    exact = known & (error * per_job.jct(outcomes) <= 100.0 * SAME_MOMENT)
    others = known & ~exact
    held_of_others = f"{held[others].mean():5.1f} %" if others.any() else "    -"
    return (
        f"{known.sum():4} {measure(outcomes, 'eta_p50_coverage'):4.1f} % "
        f"{held[known].mean():4.1f} % {measure(outcomes, 'eta_p90_width'):6.1f} %   "
        f"{100 * exact.sum() / known.sum():5.1f} % {held_of_others}"
    )


if __name__ == "__main__":
    main()
