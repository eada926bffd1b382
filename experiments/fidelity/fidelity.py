"""Is the simulation what really happens? Short real jobs, live on 16 made-up GPUs, and again in simulation.

Blox (section 6), PCS (section 5.1) and Shockwave (section 8) ran jobs on real clusters beside their
simulators: JCTs differed by 6.1, 5 and 5 %. Here the cluster is this machine: jobs sleep or train a very
small network, each iteration as long as it says, with true checkpoints written by `volvelle.client`. What a
start, a stop and a resume cost is measured first, on other jobs; the simulation is told these costs and when
jobs were submitted.

    python experiments/fidelity/fidelity.py [--jobs 72] [--executor local] [--executor ray]
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from live_run import CLUSTER, Live, Planned, made_ready, run_live
from msgspec.structs import replace

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobFailed, JobHeld, JobStopped, JobSubmitted
from volvelle.core.journal import read_journal
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Truth
from volvelle.model.overheads import Overheads
from volvelle.report.charts import Axis, Drawing, Plot, Series, line_chart
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import Claim, Report

RESULTS = Path(__file__).parent / "results"
POLICIES = {
    "FIFO": "fifo",
    "LAS": "las:round=10",
    "PCS": "pcs:thresholds=20,whole=true,turn=10",
}
_MEAN_SECONDS = 14.0
_WIDTHS, _SHARES = (1, 2, 4), (0.55, 0.3, 0.15)
_LOAD = 1.1
"""Of the GPUs, so that jobs wait."""
_PROBES = 6


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    jobs: int
    executors: tuple[str, ...]
    out: Path

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return (
            f"{self.jobs} jobs on {CLUSTER} made-up GPUs of this machine, executors "
            + ", ".join(self.executors)
        )


def options() -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=72, help="how many, each under every policy")
    parser.add_argument("--executor", action="append", help="local (default), ray; may be repeated")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    return Options(given.jobs, tuple(given.executor or ["local"]), given.out)


def planned(count: int, seed: int = 1) -> list[Planned]:
    """Jobs of a quarter of a minute or so, as a Poisson process; some train with PyTorch where it is."""
    rng = np.random.default_rng(seed)
    seconds = np.clip(rng.lognormal(np.log(_MEAN_SECONDS) - 0.3, 0.75, count), 4.0, 60.0)
    gpus = rng.choice(_WIDTHS, size=count, p=_SHARES)
    every = float((seconds * gpus).mean()) / (_LOAD * parse_cluster(CLUSTER).gpus)
    times = np.cumsum(rng.exponential(every, count))
    trains = find_spec("torch") is not None
    return [
        Planned(float(at), int(width), round(length / 0.1), 0.1, torch=trains and n % 12 == 5)
        for n, (at, width, length) in enumerate(zip(times, gpus, seconds, strict=True))
    ]


@dataclass(frozen=True)
class Costs:
    """Seconds, measured: of a start, of a stop until the GPUs are free, of a resume."""

    start: float
    checkpoint: float
    restore: float


def measure(written: str, *, torch: bool) -> Costs:
    """On this executor, the mean costs of probes that are held and released once, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(
            Path(folder),
            written,
            WrittenComposition("fifo", "consolidated-strict", estimator="declared"),
        )
        probe = Planned(0.0, 1, 40, 0.1, torch=torch)
        for _ in range(_PROBES):
            live.submit(probe.request(probe.work_seconds))
            live.drain()
        for _ in range(_PROBES):
            number = live.submit(probe.request(probe.work_seconds))
            live.wait_for_iterations(number, 10)
            live.hold(number)
            live.release(number)
            live.drain()
        header, entries = read_journal(live.end())
        kept = list(entries)
    outcomes = outcomes_of(header, kept)
    starts = (outcomes.run_seconds[:_PROBES] - probe.work_seconds).tolist()
    held = {e.number: e.time for entry in kept for e in entry.events if isinstance(e, JobHeld)}
    stops = [
        event.time - held[event.number]
        for entry in kept
        for event in entry.events
        if isinstance(event, JobStopped)
    ]
    whole = outcomes.run_seconds[_PROBES:] - probe.work_seconds
    start, stop = statistics.fmean(starts), statistics.fmean(stops)
    resumes = [float(extra) - start - stop for extra in whole]
    return Costs(max(start, 0.0), max(stop, 0.0), max(statistics.fmean(resumes), 0.0))


@dataclass(frozen=True)
class Pair:
    """A run that was live and its simulation, job by job."""

    policy: str
    executor: str
    live: Outcomes
    simulated: Outcomes
    failures: tuple[str, ...]
    """Why attempts failed, live, that were tried again."""

    @property
    def differences(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of each job's JCT, relative to the simulated one."""
        return np.abs(self.live.jct - self.simulated.jct) / self.simulated.jct

    @property
    def mean_jct_difference(self) -> float:
        """Of the mean JCT."""
        return abs(float(self.live.jct.mean() / self.simulated.jct.mean()) - 1.0)


def pair(
    policy: str,
    executor: str,
    written: str,
    jobs: Sequence[Planned],
    costs: Costs,
    with_torch: Costs,
) -> Pair:
    """Run ``jobs`` live on ``executor``, as it is ``written`` now; then simulate them.

    In simulation they are submitted when they really were.
    """
    composition = WrittenComposition(POLICIES[policy], "consolidated-strict", estimator="declared")
    estimates = [job.work_seconds for job in jobs]
    with tempfile.TemporaryDirectory() as folder:
        header, stream = read_journal(run_live(Path(folder), written, composition, jobs, estimates))
        entries = list(stream)
    specs = [e.spec for entry in entries for e in entry.events if isinstance(e, JobSubmitted)]
    workload = []
    for spec, job in zip(specs, jobs, strict=True):
        own = with_torch if job.torch else costs
        declared = {"checkpoint_seconds": own.checkpoint, "restore_seconds": own.restore}
        seconds = job.work_seconds + own.start - costs.start
        workload.append(Job(replace(spec, **declared), Truth(work=seconds * spec.gpus)))
    setting = Setting(
        cluster=header.cluster,
        composition=composition,
        overheads=Overheads(start=costs.start, restore=costs.restore, checkpoint=costs.checkpoint),
    )
    simulated = simulate(Workload(workload), setting).outcomes
    failures = tuple(
        event.reason for e in entries for event in e.events if isinstance(event, JobFailed)
    )
    return Pair(policy, executor, outcomes_of(header, entries), simulated, failures)


def cdfs(pairs: Sequence[Pair], executor: str) -> Drawing:
    """JCTs, live and simulated, a panel for each policy."""
    plots = []
    for one in pairs:
        if one.executor != executor:
            continue
        series = []
        for index, (name, outcomes) in enumerate(
            (("live", one.live), ("simulated", one.simulated))
        ):
            jct = np.sort(outcomes.jct)
            share = np.arange(1, len(jct) + 1) / len(jct)
            series.append(Series.numbered(index, name, jct, share))
        plots.append(Plot(tuple(series), Axis("share of jobs", low=0.0), one.policy))
    return line_chart(
        f"JCT, live ({executor}) and simulated",
        plots,
        Axis("JCT", "duration", low=0.0),
        columns=3,
        height=260,
        legend=True,
    )


def main() -> None:
    given = options()
    report = Report("fidelity", "Live runs beside their simulations", given)
    jobs = planned(given.jobs)
    pairs: list[Pair] = []
    told: list[list[str]] = []
    for executor in given.executors:
        with made_ready(executor) as written:
            costs = measure(written, torch=False)
            trains = any(job.torch for job in jobs)
            with_torch = measure(written, torch=True) if trains else costs
            pairs += [
                pair(policy, executor, written, jobs, costs, with_torch) for policy in POLICIES
            ]
        for name, one in (("sleeping", costs), *((("PyTorch", with_torch),) if trains else ())):
            figures = (one.start, one.checkpoint, one.restore)
            told.append([executor, name, *(f"{seconds:.2f} s" for seconds in figures)])
    report.say(__doc__.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " "))
    report.table(("executor", "jobs", "a start", "a stop", "a resume"), told)
    report.table(
        (
            "executor",
            "policy",
            "preemptions",
            "failures",
            "mean JCT, live",
            "simulated",
            "per job: mean",
            "p50",
            "p90",
        ),
        [
            [
                one.executor,
                one.policy,
                str(int(one.live.preemptions.sum())),
                str(len(one.failures)),
                f"{one.live.jct.mean():.1f} s",
                f"{one.simulated.jct.mean():.1f} s",
                f"{100 * one.differences.mean():.1f} %",
                *(f"{100 * np.quantile(one.differences, q):.1f} %" for q in (0.5, 0.9)),
            ]
            for one in pairs
        ],
    )
    for reason in sorted({reason for one in pairs for reason in one.failures}):
        report.say(f"An attempt failed, and was tried again: {reason}.")
    report.claims(
        [
            Claim(
                "per-job JCT differs by 5 to 6 % on average (Blox 6.1, PCS 5, Shockwave 5 %)",
                f"{one.policy}, {one.executor}: {100 * one.differences.mean():.1f} %",
                bool(one.differences.mean() <= 0.05),
            )
            for one in pairs
        ]
    )
    for executor in given.executors:
        report.picture(cdfs(pairs, executor), executor)
    report.runs(
        ("executor", "policy", "job", "gpus", "torch", "submitted", "live_jct", "simulated_jct"),
        [
            (
                one.executor,
                one.policy,
                number,
                job.gpus,
                job.torch,
                *(repr(float(c[number])) for c in (one.live.submit_time, one.live.jct)),
                repr(float(one.simulated.jct[number])),
            )
            for one in pairs
            for number, job in enumerate(jobs)
        ],
    )
    report.close()


if __name__ == "__main__":
    main()
