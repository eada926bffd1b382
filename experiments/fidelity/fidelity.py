"""Is the simulation what really happens? Short real jobs, live on 16 made-up GPUs, and again in simulation.

Blox (section 6), PCS (section 5.1) and Shockwave (section 8) ran jobs on real clusters beside their
simulators: JCTs differed by 6.1, 5 and 5 %. Here the cluster is this machine: jobs sleep or train a very
small network, each iteration as long as it says, with true checkpoints written by `volvelle.client`. What a
start, a stop and a resume cost is measured first, on other jobs; the simulation is told these costs and when
jobs were submitted.

    python experiments/fidelity/fidelity.py [--jobs 72] [--executor ray]
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from live_run import CLUSTER, LiveCluster, PlannedJob, provide_executor, run_live
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
    "LAS": "las:round=5",
    "PCS": "pcs:thresholds=40,whole=true,turn=10",
}
_TYPICAL_SECONDS, _SHORTEST, _LONGEST = 40.0, 4.0, 160.0
"""Long beside what a start costs, as on the papers' clusters."""
_WIDTHS, _SHARES = (1, 2, 4), (0.55, 0.3, 0.15)
_LOAD = 1.0
"""Of the GPUs, so that jobs wait."""
_PROBES = 6
_SHAKEN = 8
"""Simulations whose starts cost what single probes' did, beside the one with their mean."""


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    jobs: int
    executor: str
    out: Path

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return (
            f"{self.jobs} jobs on {CLUSTER} made-up GPUs of this machine, executor {self.executor}"
        )


def options() -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=72, help="how many, each under every policy")
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    return Options(given.jobs, given.executor, given.out)


def planned(count: int, seed: int = 1) -> list[PlannedJob]:
    """Jobs of half a minute or so, as a Poisson process; some train with PyTorch where it is."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(_TYPICAL_SECONDS) - 0.3, 0.75, count)
    seconds = np.clip(lengths, _SHORTEST, _LONGEST)
    gpus = rng.choice(_WIDTHS, size=count, p=_SHARES)
    every = float((seconds * gpus).mean()) / (_LOAD * parse_cluster(CLUSTER).gpus)
    times = np.cumsum(rng.exponential(every, count))
    trains = find_spec("torch") is not None
    return [
        PlannedJob(float(at), int(width), round(length / 0.1), 0.1, torch=trains and n % 12 == 5)
        for n, (at, width, length) in enumerate(zip(times, gpus, seconds, strict=True))
    ]


@dataclass(frozen=True)
class Costs:
    """Seconds, measured: of each probe's start; means of a stop until the GPUs are free, of a resume."""

    starts: tuple[float, ...]
    checkpoint: float
    restore: float

    @property
    def start(self) -> float:
        """The mean."""
        return statistics.fmean(self.starts)


def measure(written: str, *, torch: bool) -> Costs:
    """On this executor, the mean costs of probes that are held and released once, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        live = LiveCluster(
            Path(folder),
            written,
            WrittenComposition("fifo", "consolidated-strict", estimator="declared"),
        )
        probe = PlannedJob(0.0, 1, 40, 0.1, torch=torch)
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
    starts = outcomes.run_seconds[:_PROBES] - probe.work_seconds
    held = {e.number: e.time for entry in kept for e in entry.events if isinstance(e, JobHeld)}
    stops = [
        event.time - held[event.number]
        for entry in kept
        for event in entry.events
        if isinstance(event, JobStopped)
    ]
    whole = outcomes.run_seconds[_PROBES:] - probe.work_seconds
    stop = statistics.fmean(stops)
    resume = float(whole.mean() - starts.mean()) - stop
    return Costs(tuple(starts.tolist()), stop, max(resume, 0.0))


@dataclass(frozen=True)
class Pair:
    """A run that was live and its simulation, job by job."""

    policy: str
    live: Outcomes
    simulated: Outcomes
    shaken: tuple[Outcomes, ...]
    """Simulations whose starts cost as much as a probe's, drawn for each job, instead of the mean."""
    failures: tuple[str, ...]
    """Why attempts failed, live, that were tried again."""

    @property
    def differences(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of each job's JCT, relative to the simulated one."""
        return self._from_simulated(self.live)

    @property
    def floor(self) -> float:
        """How far simulations are apart that differ in the costs of starts alone: mean over jobs."""
        return float(np.mean([self._from_simulated(one) for one in self.shaken]))

    def _from_simulated(self, other: Outcomes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.abs(other.jct - self.simulated.jct) / self.simulated.jct


def pair(
    policy: str,
    written: str,
    jobs: Sequence[PlannedJob],
    costs: Mapping[str, Costs],
) -> Pair:
    """Run ``jobs`` live on an executor, as it is ``written`` now; then simulate them.

    In simulation they are submitted when they really were.
    costs: of jobs that sleep, and of those that train, by what they are called.
    """
    usual = costs["sleeping"]
    composition = WrittenComposition(POLICIES[policy], "consolidated-strict", estimator="declared")
    estimates = [job.work_seconds for job in jobs]
    with tempfile.TemporaryDirectory() as folder:
        header, stream = read_journal(run_live(Path(folder), written, composition, jobs, estimates))
        entries = list(stream)
    specs = [e.spec for entry in entries for e in entry.events if isinstance(e, JobSubmitted)]
    setting = Setting(
        cluster=header.cluster,
        composition=composition,
        overheads=Overheads(start=usual.start, restore=usual.restore, checkpoint=usual.checkpoint),
    )

    def simulated(start: Callable[[Costs], float]) -> Outcomes:
        workload = []
        for spec, job in zip(specs, jobs, strict=True):
            own = costs["PyTorch"] if job.torch else usual
            declared = {"checkpoint_seconds": own.checkpoint, "restore_seconds": own.restore}
            seconds = job.work_seconds + start(own) - usual.start
            workload.append(Job(replace(spec, **declared), Truth(work=seconds * spec.gpus)))
        return simulate(Workload(workload), setting).outcomes

    rng = np.random.default_rng(0)
    return Pair(
        policy,
        live=outcomes_of(header, entries),
        simulated=simulated(lambda own: own.start),
        shaken=tuple(simulated(lambda own: rng.choice(own.starts)) for _ in range(_SHAKEN)),
        failures=tuple(
            event.reason for e in entries for event in e.events if isinstance(event, JobFailed)
        ),
    )


def cdfs(pairs: Sequence[Pair]) -> Drawing:
    """JCTs, live and simulated, a panel for each policy."""
    plots = []
    for one in pairs:
        series = []
        for index, (name, outcomes) in enumerate(
            (("live", one.live), ("simulated", one.simulated))
        ):
            jct = np.sort(outcomes.jct)
            share = np.arange(1, len(jct) + 1) / len(jct)
            series.append(Series.numbered(index, name, jct, share))
        plots.append(Plot(tuple(series), Axis("share of jobs", low=0.0), one.policy))
    return line_chart(
        "JCT, live and simulated",
        plots,
        Axis("JCT", "duration", low=0.0),
        columns=3,
        height=260,
        legend=True,
    )


def main() -> None:
    given = options()
    report = Report(f"fidelity-{given.executor}", "Live runs beside their simulations", given)
    jobs = planned(given.jobs)
    with provide_executor(given.executor) as written:
        costs = {"sleeping": measure(written, torch=False)}
        if any(job.torch for job in jobs):
            costs["PyTorch"] = measure(written, torch=True)
        pairs = [pair(policy, written, jobs, costs) for policy in POLICIES]
    report.say(__doc__.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " "))
    report.table(
        ("jobs", "a start", "a stop", "a resume"),
        [
            [name, *(f"{seconds:.2f} s" for seconds in (one.start, one.checkpoint, one.restore))]
            for name, one in costs.items()
        ],
    )
    report.table(
        (
            "policy",
            "preemptions",
            "failures",
            "mean JCT, live",
            "simulated",
            "per job: mean",
            "p50",
            "p90",
            "simulations apart",
        ),
        [
            [
                one.policy,
                str(int(one.live.preemptions.sum())),
                str(len(one.failures)),
                f"{one.live.jct.mean():.1f} s",
                f"{one.simulated.jct.mean():.1f} s",
                f"{100 * one.differences.mean():.1f} %",
                *(f"{100 * np.quantile(one.differences, q):.1f} %" for q in (0.5, 0.9)),
                f"{100 * one.floor:.1f} %",
            ]
            for one in pairs
        ],
    )
    report.say(
        "The last column is the mean difference, job by job, between simulations whose starts cost what "
        "single probes' did: what a tenth of a second here or there comes to under this policy."
    )
    for reason in sorted({reason for one in pairs for reason in one.failures}):
        report.say(f"An attempt failed, and was tried again: {reason}.")
    report.claims(
        [
            Claim(
                "per-job JCT differs by 5 to 6 % on average (Blox 6.1, PCS 5, Shockwave 5 %)",
                f"{one.policy}: {100 * one.differences.mean():.1f} %",
                bool(one.differences.mean() <= 0.05),
            )
            for one in pairs
        ]
    )
    report.picture(cdfs(pairs))
    report.runs(
        ("policy", "job", "gpus", "torch", "submitted", "live_jct", "simulated_jct"),
        [
            (
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
