"""What the experiments after Blox (EuroSys'24) share: its workload, its cluster, runs in parallel, results.

The paper's Philly trace is not public in the form it used (durations and GPUs of Philly's jobs, one of eight
models each). Blox' own simulator draws durations as Gavel's artifact does, 80 % 10^U(1.5, 3) and 20 %
10^U(3, 4) minutes on one GPU, and so do we: the mean is 16.8 hours, and 128 GPUs are full at 7.6 jobs an
hour. Submissions are Poisson. Measured are the jobs with numbers 3000 to 4000, while others keep coming:
as many again as there were up to then, twice over. At more than 7.6 jobs an hour a preemptive policy
starves its longest jobs for as long as others come, so that number is part of the result; the paper does
not tell its own.

Every experiment is one command, ``python experiments/blox/NAME.py``; it prints what it writes to
``experiments/blox/results``. ``--jobs`` makes it smaller, ``--seeds`` more certain.
"""

import argparse
import csv
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.units import HOUR
from volvelle.report.charts import Axis, Drawing, Plot, Series, line_chart, write_png
from volvelle.simulate.compare import START_METHOD, usable_cpus
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.workload.workload import Workload

RESULTS = Path(__file__).parent / "results"
ROUND = "round=300"
"""A round of Blox is five minutes."""
CLUSTER = "32x4"
"""32 p3.8xlarge: 128 V100."""

_JOBS = 4000


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

    @property
    def tracked(self) -> tuple[int, int]:
        """First and last job that are measured."""
        return int(self.jobs * self.before), self.jobs

    @property
    def submitted(self) -> int:
        """Jobs in all."""
        return int(self.jobs * self.coming)

    @property
    def setting(self) -> str:
        """In words, for the results."""
        seeds = ", ".join(map(str, self.seeds))
        first, last = self.tracked
        return f"jobs {first:,} to {last:,} of {self.submitted:,}, seeds {seeds}"


def options(
    doc: str | None, *, jobs: int = _JOBS, seeds: int = 3, traces: str | None = None
) -> Options:
    """The options of the command line; ``doc`` is the experiment's docstring.

    ``traces`` says what the files are that the command must name, where there are any.
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
    given = parser.parse_args()
    if given.jobs < 20 or given.seeds < 1 or given.workers < 1:
        parser.error("--jobs is at least 20, --seeds and --workers at least 1")
    return Options(
        given.jobs,
        tuple(range(1, given.seeds + 1)),
        given.workers,
        given.out,
        tuple(given.traces) if traces is not None else (),
    )


def philly(jobs: int, seed: int, rate: float, extra: str = "") -> Workload:
    """Jobs on one GPU with the durations of Blox' simulator, ``rate`` an hour."""
    written = f"gavel:jobs={jobs},multi_gpu=false{extra}"
    return generated(written, seed, None, rate).workload


def each_job(workload: Workload, change: Callable[[int, Job], Job]) -> Workload:
    """The workload with every job changed, in order of submission."""
    return Workload.of((change(n, job) for n, job in enumerate(workload.jobs)), workload.name)


class Measured(NamedTuple):
    """The tracked jobs of one run, seconds; NaN where a job has none."""

    jct: np.ndarray[tuple[int], np.dtype[np.float64]]
    wait: np.ndarray[tuple[int], np.dtype[np.float64]]

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


def run(
    cases: Sequence[Case], workers: int, *, slots: bool = False
) -> dict[tuple[str, ...], Outcomes]:
    """The outcomes of all cases by key, made in parallel processes; with who held which GPU or without."""
    global _cases  # noqa: PLW0603 - forked workers find their cases here
    _cases = cases
    simulate_one = partial(_simulate, slots=slots)
    if workers == 1 or START_METHOD != "fork":
        return {case.key: simulate_one(index) for index, case in enumerate(cases)}
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context) as pool:
        outcomes = pool.map(simulate_one, range(len(cases)))
        return {case.key: one for case, one in zip(cases, outcomes, strict=True)}


def _simulate(index: int, *, slots: bool) -> Outcomes:
    case = _cases[index]
    outcomes = simulate(case.workload(), case.setting).outcomes
    if slots:
        return outcomes
    nothing = np.zeros(0, dtype=np.int64)
    return replace(outcomes, segments=replace(outcomes.segments, slots=nothing))


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


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we see, and whether that is so here."""

    paper: str
    seen: str
    holds: bool


class Report:
    """Results of an experiment: a page, a table of all runs and pictures, written as they come."""

    def __init__(self, name: str, title: str, given: Options) -> None:
        self._name = name
        self._out = given.out
        self._began = time.monotonic()
        self._lines = [f"# {title}", "", f"Measured: {given.setting}.", ""]
        given.out.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """A paragraph."""
        self._lines += [text, ""]

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        self._lines.append(f"| {' | '.join(heads)} |")
        self._lines.append(f"|{'|'.join('---' for _ in heads)}|")
        self._lines += [f"| {' | '.join(row)} |" for row in rows]
        self._lines.append("")

    def claims(self, claims: Sequence[Claim]) -> None:
        """What the paper says beside what we see."""
        rows = [(c.paper, c.seen, "yes" if c.holds else "**no**") for c in claims]
        self.table(("the paper", "here", "agrees"), rows)

    def picture(self, drawing: Drawing, name: str = "") -> None:
        """A picture in the page."""
        file = f"{self._name}{'-' + name if name else ''}.png"
        write_png(drawing, self._out / file)
        self._lines += [f"![{drawing.title}]({file})", ""]

    def runs(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """The CSV with a row for each run."""
        with (self._out / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(heads)
            writer.writerows(rows)

    def close(self) -> None:
        """Write the page, and print it."""
        text = "\n".join(self._lines).rstrip() + "\n"
        (self._out / f"{self._name}.md").write_text(text, encoding="utf-8")
        print(text)
        print(f"{time.monotonic() - self._began:.0f} s; written to {self._out}/{self._name}.md")


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
