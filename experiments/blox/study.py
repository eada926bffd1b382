"""What the experiments after Blox (EuroSys'24) share: its workload, its cluster, runs in parallel, results.

The paper's Philly trace is not public in the form it used (durations and GPUs of Philly's jobs, one of eight
models each). Blox' own simulator draws durations as Gavel's artifact does, 80 % 10^U(1.5, 3) and 20 %
10^U(3, 4) minutes on one GPU, and so do we: the mean is 16.8 hours, and 128 GPUs are full at 7.6 jobs an
hour. Submissions are Poisson. Measured are the jobs with numbers 3000 to 4000, while others keep coming:
as many again as there were up to then, twice over. At more than 7.6 jobs an hour a preemptive policy
starves its longest jobs for as long as others come, so that number is part of the result; the paper does
not tell its own.

Every experiment is one command, ``python experiments/blox/NAME.py``; it prints what it writes to
``experiments/blox/results``. ``--jobs`` makes it smaller, ``--seeds`` more certain. Long ones keep what is
measured in the folder that ``--keep`` names, and go on from there.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.units import HOUR
from volvelle.report.charts import Axis, Drawing, Plot, Series, line_chart
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.simulate.workers import START_METHOD, usable_cpus
from volvelle.workload.generators.mixes import GAVEL_WIDTHS
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED as SHARED  # what all experiments share
from findings import Claim as Claim
from findings import Report as Report

RESULTS = Path(__file__).parent / "results"
ROUND = "round=300"
"""A round of Blox is five minutes."""
CLUSTER = "32x4"
"""32 p3.8xlarge: 128 V100."""

_JOBS = 4000

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, int], Floats]
"""The hours that so many jobs last."""
Jobs = Callable[[int, int, float], Workload]
"""So many jobs, from a seed, at so many an hour."""


@dataclass(frozen=True)
class Options:
    """What the command line said. ``jobs``: the last that is measured.

    ``before``: the share of them that come before the first that is; ``coming``: jobs in all, over ``jobs``.
    """

    jobs: int
    seeds: tuple[int, ...]
    workers: int
    out: Path
    traces: tuple[Path, ...] = ()
    before: float = 0.75
    coming: float = 3.0
    keep: Path | None = None

    @property
    def tracked(self) -> tuple[int, int]:
        """First and last job that are measured."""
        return int(self.jobs * self.before), self.jobs

    @property
    def submitted(self) -> int:
        """Jobs in all."""
        return max(int(self.jobs * self.coming), self.jobs + 1)

    @property
    def setting(self) -> str:
        """In words, for the results."""
        seeds = ", ".join(map(str, self.seeds))
        first, last = self.tracked
        return f"jobs {first:,} to {last:,} of {self.submitted:,}, seeds {seeds}"


def options(
    doc: str | None,
    *,
    jobs: int = _JOBS,
    seeds: int = 3,
    traces: str | None = None,
    keeps: bool = False,
) -> Options:
    """The options of the command line; ``doc`` is the experiment's docstring.

    ``traces`` says what the files are that the command must name, where there are any; ``keeps``, whether
    what is measured can be kept (`measure`).
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if traces is not None:
        parser.add_argument("traces", type=Path, nargs="+", metavar="TRACE", help=traces)
    parser.add_argument("--jobs", type=int, default=jobs, help="the last job that is measured")
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--workers", type=int, default=usable_cpus(), help="parallel processes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    if keeps:
        told = "folder where what is measured is kept, from which another run goes on"
        parser.add_argument("--keep", type=Path, help=told)
    given = parser.parse_args()
    if given.jobs < 20 or given.seeds < 1 or given.workers < 1:
        parser.error("--jobs is at least 20, --seeds and --workers at least 1")
    return Options(
        given.jobs,
        tuple(range(1, given.seeds + 1)),
        given.workers,
        given.out,
        tuple(given.traces) if traces is not None else (),
        keep=given.keep if keeps else None,
    )


def philly(jobs: int, seed: int, rate: float, extra: str = "") -> Workload:
    """Jobs on one GPU with the durations of Blox' simulator, ``rate`` an hour."""
    written = f"gavel:jobs={jobs},multi_gpu=false{extra}"
    return generated(written, seed, None, rate).workload


def wide(jobs: int, seed: int, rate: float) -> Workload:
    """The same on 1, 2, 4 or 8 GPUs (70, 10, 15 and 5 %, as in Gavel's artifact), as much work in all."""
    mean_width = sum(gpus * share for gpus, share in GAVEL_WIDTHS.items())
    workload = generated(f"gavel:jobs={jobs}", seed, None, rate).workload
    return each_job(workload, lambda _, job: working(job, job.truth.work / mean_width))


def lasting(draw: Draw, jobs: int, seed: int, rate: float) -> Workload:
    """Jobs on one GPU, submitted as by `philly`, that last as many hours as ``draw`` says."""
    seconds = draw(np.random.default_rng([seed, 1]), jobs) * HOUR
    return each_job(philly(jobs, seed, rate), lambda n, job: working(job, float(seconds[n])))


def working(job: Job, work: float) -> Job:
    """The job with so much work, seconds on one GPU."""
    return Job(job.spec, msgspec.structs.replace(job.truth, work=work))


def each_job(workload: Workload, change: Callable[[int, Job], Job]) -> Workload:
    """The workload with every job changed, in order of submission."""
    return Workload.of((change(n, job) for n, job in enumerate(workload.jobs)), workload.name)


class Measured(NamedTuple):
    """The tracked jobs of one run, seconds; NaN where a job has none."""

    jct: Floats
    wait: Floats

    @classmethod
    def of(cls, outcomes: Outcomes) -> "Measured":
        """From the outcomes of a run."""
        tracked = outcomes.tracked
        return cls(outcomes.jct[tracked], outcomes.responsiveness[tracked])

    @property
    def hours(self) -> float:
        """Mean completion time of those that finished."""
        return float(np.nanmean(self.jct)) / HOUR

    @property
    def wait_hours(self) -> float:
        """Mean responsiveness: submission to the first GPU."""
        return float(np.nanmean(self.wait)) / HOUR


@dataclass(frozen=True)
class Case:
    """One run: what varies, by name, and how to make it. ``workload`` is made where it runs."""

    key: tuple[str, ...]
    workload: Callable[[], Workload]
    setting: Setting


_cases: Sequence[Case] = ()
Seen = dict[str, float]
"""What is measured of a run, by name."""
Found = TypeVar("Found")


def run(
    cases: Sequence[Case], workers: int, *, slots: bool = False
) -> dict[tuple[str, ...], Outcomes]:
    """The outcomes of all cases by key, made in parallel processes; with who held which GPU or without."""
    return _each(partial(_simulate, slots=slots), cases, workers)


def measure(
    cases: Sequence[Case], given: Options, see: Callable[[Outcomes], Seen]
) -> dict[tuple[str, ...], Seen]:
    """What ``see`` measures of each case, by key; a case that was kept is not run again."""
    return _each(partial(_measure, see=see, keep=given.keep), cases, given.workers)


def _simulate(index: int, *, slots: bool) -> Outcomes:
    case = _cases[index]
    outcomes = simulate(case.workload(), case.setting).outcomes
    if slots:
        return outcomes
    nothing = np.zeros(0, dtype=np.int64)
    return replace(outcomes, segments=replace(outcomes.segments, slots=nothing))


def _measure(index: int, *, see: Callable[[Outcomes], Seen], keep: Path | None) -> Seen:
    case = _cases[index]
    if keep is None:
        return see(_simulate(index, slots=False))
    first, last = case.setting.tracked or (0, 0)
    file = keep / f"{'-'.join(case.key)}-{first}-{last}.json".replace("/", " per ")
    if file.is_file():
        kept: Seen = json.loads(file.read_text(encoding="utf-8"))
        return kept
    found = see(_simulate(index, slots=False))
    keep.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(found), encoding="utf-8")
    unfinished.replace(file)
    return found


def _each(
    one: Callable[[int], Found], cases: Sequence[Case], workers: int
) -> dict[tuple[str, ...], Found]:
    """What ``one`` makes of each case, given its index, by key; in parallel processes."""
    global _cases  # noqa: PLW0603 - forked workers find their cases here
    _cases = cases
    if workers == 1 or START_METHOD != "fork":
        return {case.key: one(index) for index, case in enumerate(cases)}
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context) as pool:
        found = pool.map(one, range(len(cases)))
        return {case.key: each for case, each in zip(cases, found, strict=True)}


def setting(
    given: Options,
    policy: str,
    *,
    admission: str = "accept-all",
    placement: str = "none",
    termination: str = "completion",
    cluster: Cluster | None = None,
    overheads: Overheads | None = None,
) -> Setting:
    """How a case goes: beliefs are true; if not told, starts and stops are free, as in Blox' simulator."""
    return Setting(
        cluster=cluster or parse_cluster(CLUSTER),
        composition=WrittenComposition(
            policy, placement, admission, "oracle", termination=termination
        ),
        overheads=overheads or Overheads(),
        tracked=given.tracked,
    )


def mean(values: Sequence[float]) -> float:
    """Over seeds."""
    return statistics.fmean(values)


def hours(values: Sequence[float], digits: int = 1) -> str:
    """Mean over seeds and their standard deviation, for a table."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f} h"
    return f"{mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f} h"


def lines(
    title: str,
    x: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    x_title: str,
) -> Drawing:
    """A panel for each quantity in hours, with a line for each name."""
    at = np.array(x, dtype=np.float64)
    plots = [
        Plot(
            tuple(
                Series.numbered(index, name, at, np.array(values) * HOUR)
                for index, (name, values) in enumerate(named.items())
            ),
            Axis(quantity, "duration", low=0.0),
            quantity,
        )
        for quantity, named in panels.items()
    ]
    return line_chart(
        title, plots, Axis(x_title), columns=min(2, len(plots)), height=260, legend=True
    )
