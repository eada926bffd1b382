"""What the experiments after Shockwave (NSDI'23) share: its jobs, its baselines, runs, rho, claims.

Rounds are 120 s and a start or restore costs 20 s, as in the authors' simulator. Jobs are their traces of 120
and 220 jobs, beside the repository, and jobs of the generator (section 8.1). Batch sizes to come are
predicted (estimator `regimes`); baselines expect none (``rule=greedy``), as those of the paper, unless a page
says otherwise. Rho is what the authors' files call static: completion time over the time alone times
jobs per GPU of the whole trace. The other definitions are metrics of every report (`rho`, by a job's
share of the GPUs while it was there; `rho_contention`, by jobs per GPU meanwhile).

Every experiment is one command, ``python experiments/shockwave/NAME.py``; it prints what it writes to
``experiments/shockwave/results``. ``--jobs`` makes workloads smaller. No baseline has the throttle of 1000 s
that the authors' simulator gives it, and that flatters Shockwave.
"""

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED as SHARED  # what all experiments share
from findings import Claim as Claim
from findings import Report as Report

Column = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
SEEDS = (1, 2, 3)

BASELINES = {
    "OSSP": "gavel-makespan:round=120",
    "Themis": "gavel-ftf:round=120",
    "Gavel": "gavel-las:round=120",
    "AlloX": "allox:round=120",
    "MST": "gavel-throughput:round=120,steps=true",
    "Gandiva-Fair": "gandiva-fair:round=120",
}
"""Section 8.2; Themis is Gavel's program for its metric, as in the authors' simulator."""
FAIR = ("Themis", "Gavel", "AlloX")
PROACTIVE, REACTIVE = "regimes", "regimes:rule=greedy"


@dataclass(frozen=True)
class Options:
    """What the command line said. ``jobs``: the first of each trace, 0 for all."""

    jobs: int
    out: Path
    measured: str

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return self.measured + (f"; the first {self.jobs} jobs" if self.jobs else "")


def options(doc: str | None, measured: str) -> Options:
    """The options of the command line; ``doc`` is the experiment's docstring.

    Ends the command where the traces are absent.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=0, help="the first of each trace; 0: all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    if not (SHARED / "data" / "shockwave").is_dir():
        parser.exit(1, "skipped: this experiment needs the traces of ../shared/data/shockwave\n")
    return Options(given.jobs, given.out, measured)


class Case(NamedTuple):
    """Jobs and how many GPUs they share."""

    name: str
    workload: Workload
    gpus: int
    node: int = 1
    """GPUs of a node."""


def traces(given: Options) -> list[Case]:
    """The authors' two."""
    return [small(given), large(given)]


def small(given: Options) -> Case:
    """120 jobs on 32 GPUs."""
    folder = SHARED / "data" / "shockwave"
    path = folder / "120_jobs_32_gpus.trace"
    return first(given, "120/32", _read(path, folder / "tacc_throughputs.json"), 32)


def large(given: Options) -> Case:
    """220 jobs on 64 GPUs, with throughputs of the artifact, or the same beside the reference results."""
    folder = SHARED / "data" / "shockwave"
    path, published = folder / "220_jobs_64_gpus.trace", folder / "wisr_throughputs.json"
    if published.is_file():
        return first(given, "220/64", _read(path, published), 64)
    table: dict[str, dict[str, float]] = {}
    source = SHARED / "golden" / "shockwave" / "throughputs_v100.csv"
    with source.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["file"].startswith("wisr"):
                key = str((row["job_type"], int(row["scale_factor"])))
                table[key] = {"null": float(row["steps_per_s"])}
    with tempfile.TemporaryDirectory() as made:
        throughputs = Path(made) / "throughputs.json"
        throughputs.write_text(json.dumps({"v100": table}))
        return first(given, "220/64", _read(path, throughputs), 64)


def drawn(given: Options, seed: int, jobs: int = 120, gpus: int = 32) -> Case:
    """Jobs of the generator that come within 80 minutes, as those of the traces do."""
    generator = make_generator("shockwave", {"jobs": jobs, "jobs_per_hour": jobs / 1.35})
    workload = generator.generate(np.random.default_rng(seed))
    return first(given, f"drawn, seed {seed}", workload, gpus)


def _read(path: Path, throughputs: Path) -> Workload:
    return read_trace(path, options={"throughputs": throughputs, "gpu_type": "v100"})


def first(given: Options, name: str, workload: Workload, gpus: int) -> Case:
    """The first jobs of a workload, and as many GPUs less."""
    if not given.jobs:
        return Case(name, workload, gpus)
    return Case(name, Workload.of(workload.jobs[: given.jobs]), max(gpus * given.jobs // 120, 8))


class Measured(NamedTuple):
    """One run. makespan, jct: seconds. unfair: percent of jobs with a rho above 1."""

    makespan: float
    jct: float
    worst: float
    unfair: float
    utilisation: float
    rho: Column
    outcomes: Outcomes

    @property
    def objectives(self) -> Column:
        """Makespan, worst rho, mean completion time: less is better."""
        return np.array([self.makespan, self.worst, self.jct])


def setting(case: Case, policy: str, estimator: str = PROACTIVE) -> Setting:
    """``case`` under a policy."""
    return Setting(
        cluster=parse_cluster(f"{case.gpus // case.node}x{case.node}"),
        composition=WrittenComposition(policy, estimator=estimator),
        overheads=Overheads(start=20.0, restore=20.0),
    )


def run(
    case: Case, policy: str, estimator: str = PROACTIVE, rigid: Workload | None = None
) -> Measured:
    """The jobs of ``case`` under a policy.

    rigid: the same jobs as they would be alone, where that cannot be told from those of ``case``.
    """
    outcomes = simulate(case.workload, setting(case, policy, estimator)).outcomes
    jobs = case.workload.jobs if rigid is None else rigid.jobs
    alone = {job.spec.id: job.seconds_on(job.spec.gpus) for job in jobs}
    return measured(case, outcomes, alone)


def measured(case: Case, outcomes: Outcomes, alone: Mapping[str, float]) -> Measured:
    """A run of ``case``. alone: seconds that each job would take, by its id."""
    seconds = np.array([alone[spec.id] for spec in outcomes.specs])
    gpus = np.array([spec.gpus for spec in outcomes.specs])
    rho = outcomes.jct / (seconds * max(1.0, len(seconds) / case.gpus))
    makespan = float(outcomes.finish.max())
    return Measured(
        makespan,
        float(outcomes.jct.mean()),
        float(rho.max()),
        float(100.0 * (rho > 1.0).mean()),
        float(100.0 * (seconds @ gpus) / (makespan * case.gpus)),
        rho,
        outcomes,
    )


def compared(case: Case, names: Sequence[str] = tuple(BASELINES)) -> dict[str, Measured]:
    """Shockwave and baselines, which do not expect batch sizes to change."""
    runs = {"Shockwave": run(case, "shockwave")}
    return runs | {name: run(case, BASELINES[name], REACTIVE) for name in names}


HEADS = ("jobs", "policy", "makespan", "worst rho", "mean JCT", "rho above 1", "utilisation")


def lines(case: str, runs: Mapping[str, Measured]) -> list[tuple[str, ...]]:
    """Rows of a table with `HEADS`."""
    return [
        (
            case,
            name,
            f"{one.makespan:,.0f} s",
            f"{one.worst:.2f}",
            f"{one.jct:,.0f} s",
            f"{one.unfair:.1f} %",
            f"{one.utilisation:.0f} %",
        )
        for name, one in runs.items()
    ]


CSV_HEADS = (
    "case",
    "policy",
    "makespan_seconds",
    "worst_rho",
    "mean_jct_seconds",
    "unfair_percent",
)


def records(case: str, runs: Mapping[str, Measured]) -> list[tuple[object, ...]]:
    """Rows of the CSV with `CSV_HEADS`."""
    return [
        (case, name, repr(one.makespan), repr(one.worst), repr(one.jct), repr(one.unfair))
        for name, one in runs.items()
    ]


DRAWS = 5


def draws(given: Options) -> range:
    """Seeds of as many draws as a study has, of two at a small size."""
    return range(1, 1 + (2 if given.jobs else DRAWS))


def mean(runs: Sequence[Mapping[str, Measured]]) -> dict[str, Measured]:
    """Figures of several draws on average, with the rho of all their jobs."""
    figures = Measured._fields[: Measured._fields.index("rho")]
    found = {}
    for name, first in runs[0].items():
        of_name = [one[name] for one in runs]
        means: dict[str, Any] = {
            each: float(np.mean([getattr(one, each) for one in of_name])) for each in figures
        }
        found[name] = first._replace(rho=np.concatenate([one.rho for one in of_name]), **means)
    return found


def variants(
    name: str, title: str, given: Options, cases: Sequence[Case]
) -> tuple[Report, list[dict[str, Measured]]]:
    """A page that begins with Shockwave and fair baselines on each of ``cases``, and these runs."""
    report = Report(name, title, given)
    runs = {case.name: compared(case, FAIR) for case in cases}
    report.table(HEADS, [line for case, some in runs.items() for line in lines(case, some)])
    report.runs(CSV_HEADS, [row for case, some in runs.items() for row in records(case, some)])
    return report, list(runs.values())


def over(runs: Mapping[str, Measured], quantity: str, names: Sequence[str] = FAIR) -> float:
    """Shockwave's baselines, on average, over Shockwave, in one of the fields of `Measured`."""
    own = getattr(runs["Shockwave"], quantity)
    return float(np.mean([getattr(runs[name], quantity) / own for name in names]))


def front(points: Mapping[str, Column]) -> list[str]:
    """Those of which no other is better in one objective and as good in all."""
    return [
        name
        for name, one in points.items()
        if not any((other <= one).all() and (other < one).any() for other in points.values())
    ]
