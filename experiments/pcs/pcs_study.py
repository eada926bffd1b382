"""What the experiments after PCS (OSDI'24) share: its baselines, its objectives, searches, runs, results.

GPUs are counted and divided, starts and stops are free, beliefs are true unless an experiment says
otherwise, and every job's completion time is predicted at its submission: the paper's simulator. Baselines
are elastic as there. A prediction's error is over the predicted completion time.

The paper does not say how its three configurations were picked from a front. Ours are told by the price
that its own have: of the points whose mean JCT, on the samples of the search, is at most so many times the
fastest's, the one with the least error.

Every experiment is one command, ``python experiments/pcs/NAME.py``; it prints what it writes to
``experiments/pcs/results``. ``--jobs``, ``--seeds``, ``--candidates``, ``--refine`` and ``--sample-jobs``
make it smaller.
"""

import argparse
import csv
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import fairness, per_job
from volvelle.metrics.catalogue import Objective, read_objective
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.report.charts import Axis, Dots, Drawing, Plot, Series, cdf, line_chart, scatter
from volvelle.report.charts.palette import series_color
from volvelle.simulate.run import Setting
from volvelle.simulate.sources import generated
from volvelle.simulate.workers import START_METHOD, usable_cpus
from volvelle.tune.evaluate import outcomes_for
from volvelle.tune.front import Candidate, Front
from volvelle.tune.search import Search, tune
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED as SHARED
from findings import Claim as Claim
from findings import Report as Report
from findings import command_line as command_line

RESULTS = Path(__file__).parent / "results"
GOLDEN = SHARED / "golden" / "pcs"

JCT = read_objective("jct:avg")
ERROR = read_objective("pred_error:avg")
TAIL_ERROR = read_objective("pred_error:p99")
UNFAIRNESS = read_objective("unfairness:avg")

BASELINES = {
    "AFS": "afs-l:ties=later",
    "Tiresias": "srsf:elastic=true",
    "Themis": "themis",
    "FIFO": "fifo:preemptive=true,elastic=true",
}
"""As section 5.1 has them: Tiresias knows sizes and serves the shortest remaining service first."""

CONFIGURATIONS = ("PCS-JCT", "PCS-bal", "PCS-pred")
NAMES = (*BASELINES, *CONFIGURATIONS)
"""The bars of figure 7."""

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Options:
    """What the command line said.

    candidates: configurations that a search tries, on samples of ``sample_jobs`` jobs; refine: so many more
    beside those that no other beats.
    """

    jobs: int
    seeds: tuple[int, ...]
    candidates: int
    refine: int
    sample_jobs: int
    workers: int
    out: Path
    measured: str

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return self.measured.format(
            jobs=f"{self.jobs:,}",
            seeds=", ".join(map(str, self.seeds)),
            candidates=f"{self.candidates:,}",
            refine=f"{self.refine:,}",
            sample_jobs=f"{self.sample_jobs:,}",
        )


def options(
    doc: str | None,
    measured: str,
    *,
    jobs: int = 0,
    seeds: int = 1,
    candidates: int = 0,
    refine: int = 0,
    sample_jobs: int = 1000,
) -> Options:
    """The options of the command line; ``doc`` is the experiment's docstring.

    measured: in words, with {jobs}, {seeds}, {candidates}, {refine}, {sample_jobs}. jobs, candidates,
    refine: 0 where there are none to choose.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if jobs:
        parser.add_argument("--jobs", type=int, default=jobs, help="of a workload")
    if candidates:
        parser.add_argument("--candidates", type=int, default=candidates, help="of a search")
        parser.add_argument("--sample-jobs", type=int, default=sample_jobs)
    if refine:
        parser.add_argument(
            "--refine", type=int, default=refine, help="beside the front of a search"
        )
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--workers", type=int, default=usable_cpus(), help="parallel processes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    if given.seeds < 1 or given.workers < 1:
        parser.error("--seeds and --workers are at least 1")
    return Options(
        getattr(given, "jobs", 0),
        tuple(range(1, given.seeds + 1)),
        getattr(given, "candidates", 0),
        getattr(given, "refine", 0),
        getattr(given, "sample_jobs", 0),
        given.workers,
        given.out,
        measured,
    )


# ---------------------------------------------------------------------- workloads


def generate(written: str, seed: int) -> Workload:
    """The jobs of a generator of ours."""
    return generated(written, seed).workload


def philly(trace: str) -> Workload:
    """A Philly trace of PCS' artifact, its jobs sub-linear; ends the program where it is absent."""
    path = SHARED / "data" / "philly-pcs" / f"trace_{trace}.csv"
    speedups = GOLDEN / "speedup_tables.csv"
    for needed in (path, speedups):
        if not needed.is_file():
            raise SystemExit(
                f"skipped: this experiment needs {needed.name} of PCS' artifact in {needed.parent}"
            )
    return read_trace(path, options={"speedups": speedups})


def shipped(trace: str) -> dict[str, str]:
    """The configurations that PCS' artifact has for a trace, by name; none where it has none."""
    with (GOLDEN / "pcs_configs.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["config"]: row for row in csv.DictReader(file)}
    named = {
        name: rows.get(f"PCS_config_{trace}_{kind}")
        for name, kind in zip(CONFIGURATIONS, ("jct", "bal", "pred"), strict=True)
    }
    return {name: _shipped(row) for name, row in named.items() if row is not None}


def compared(trace: str, *, themis: bool = False) -> dict[str, str]:
    """Baselines, and what is shipped for the trace, named so. Themis, which takes long, where wanted."""
    baselines = {name: one for name, one in BASELINES.items() if themis or name != "Themis"}
    return baselines | {f"{name}, shipped": policy for name, policy in shipped(trace).items()}


def _shipped(row: Mapping[str, str]) -> str:
    thresholds = "/".join(row["thresholds"].split()[:-1])
    weights = "/".join(f"{float(Fraction(w)):.12g}" for w in row["weights"].split())
    return (
        f"pcs:thresholds={thresholds},weights={weights},"
        f"efficiency={row['clip_demand_factor']},delta={row['delta']}"
    )


def part(workload: Workload, first: float, last: float = 1.0) -> Workload:
    """The jobs from share ``first`` to ``last`` of the workload, the first of them at 0."""
    count = len(workload)
    return Workload(workload.jobs[round(first * count) : round(last * count)]).rebased()


# ---------------------------------------------------------------------- runs


class Measured(NamedTuple):
    """By job: completion time in seconds, absolute error of its prediction and unfairness in percent."""

    jct: Column
    error: Column
    unfairness: Column

    @classmethod
    def of(cls, outcomes: Outcomes) -> "Measured":
        """From the outcomes of a run."""
        return cls(
            per_job.jct(outcomes),
            per_job.prediction_error(outcomes),
            fairness.unfairness(outcomes),
        )

    @property
    def mean_jct(self) -> float:
        """Seconds."""
        return float(np.nanmean(self.jct))

    @property
    def mean_error(self) -> float:
        """Percent."""
        return float(np.nanmean(self.error))

    @property
    def tail_error(self) -> float:
        """The 99th percentile, percent."""
        return float(np.nanpercentile(self.error, 99))


def setting(policy: str, gpus: int, estimator: str = "oracle") -> Setting:
    """How a run goes."""
    return Setting(
        cluster=parse_cluster(f"1x{gpus}"),
        composition=WrittenComposition(policy, placement="none", estimator=estimator),
    )


@dataclass(frozen=True)
class Case:
    """One run: what varies, by name, and how to make it. ``workload`` is made where it runs."""

    key: tuple[str, ...]
    workload: Callable[[], Workload]
    setting: Setting


def run(cases: Sequence[Case], workers: int) -> dict[tuple[str, ...], Measured]:
    """What was measured in all cases, by key; made in parallel processes."""
    if workers == 1:
        return {case.key: _measured(case) for case in cases}
    with ProcessPoolExecutor(workers, multiprocessing.get_context(START_METHOD)) as pool:
        found = pool.map(_measured, cases)
        return {case.key: one for case, one in zip(cases, found, strict=True)}


def _measured(case: Case) -> Measured:
    return Measured.of(outcomes_for(case.workload(), case.setting, (JCT, ERROR, UNFAIRNESS)))


# ---------------------------------------------------------------------- searches


def search(
    history: Workload,
    given: Options,
    gpus: int,
    objectives: Sequence[Objective] = (JCT, ERROR),
    test: float = 0.25,
) -> Front:
    """The front of PCS for workloads like ``history``: SPEA2, four samples for each candidate.

    test: the share of the history, its latest jobs, that the search does not see.
    """
    wanted = Search(
        objectives=tuple(objectives),
        candidates=given.candidates,
        refine=given.refine,
        jobs=given.sample_jobs,
        test=test,
    )
    return tune(history, setting("pcs", gpus), wanted, workers=given.workers)


def priced(points: Mapping[str, tuple[float, ...]], prices: Sequence[float]) -> dict[str, str]:
    """The policies of `CONFIGURATIONS`: the least error for at most ``prices`` times the fastest's JCT.

    ``points``: mean JCT and some error, by policy.
    """
    fastest = min(jct for jct, _ in points.values())
    return {
        name: min(
            (policy for policy, (jct, _) in points.items() if jct <= price * fastest),
            key=lambda policy: points[policy][::-1],
        )
        for name, price in zip(CONFIGURATIONS, prices, strict=True)
    }


def searched(front: Front) -> dict[str, tuple[float, ...]]:
    """The policies on a front, with their means over the samples of the search."""
    return {written(point): point.mean for point in front.points}


def undominated(points: Column) -> Column:
    """Those of (points, objectives) that no other beats; of equal ones the first."""
    kept: list[int] = []
    for row in np.lexsort(points.T[::-1]).tolist():
        if not (points[kept] <= points[row]).all(axis=1).any():
            kept.append(row)
    return points[kept]


def written(point: Candidate) -> str:
    """The policy at a point of a front of PCS."""
    return f"pcs:{point.parameters}"


# ---------------------------------------------------------------------- pictures and words


def distributions(title: str, what: str, columns: Mapping[str, Column], unit: str = "%") -> Drawing:
    """The share of jobs up to each figure, on a log scale; what is 0 stands at its left edge."""
    lines = []
    for index, (name, column) in enumerate(columns.items()):
        x, y = cdf(np.maximum(column, 0.1))
        lines.append(Series.numbered(index, name, x, y))
    plot = Plot(tuple(lines), Axis("share of jobs", "share", low=0.0, high=1.0))
    return line_chart(title, [plot], Axis(what, unit=unit, log=True), height=260, legend=True)


def trade_off(
    title: str,
    x: Axis,
    y: Axis,
    fronts: Mapping[str, Column],
    named: Mapping[str, tuple[float, float]] | None = None,
) -> Drawing:
    """Fronts by name, (points, 2) each, joined; with single policies by name beside them."""
    dots = [
        Dots(name, points[:, 0], points[:, 1], series_color(index), joined=True)
        for index, (name, points) in enumerate(fronts.items())
    ]
    if named:
        others = np.array(list(named.values()))
        color = series_color(len(fronts))
        dots.append(Dots("others", others[:, 0], others[:, 1], color, labels=list(named)))
    return scatter(title, dots, x, y)


def percent(value: float) -> str:
    """A percentage with three digits."""
    return f"{value:.3g} %" if value < 999.5 else f"{value:,.0f} %"


def times(value: float, digits: int = 2) -> str:
    """A factor."""
    return f"{value:.{digits}f}"
