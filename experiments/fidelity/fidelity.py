"""Is the simulation what really happens? Short real jobs, live on this machine, and again in simulation.

Blox (section 6), PCS (section 5.1) and Shockwave (section 8) ran jobs on real clusters beside their
simulators: JCTs differed by 6.1, 5 and 5 %. Here the cluster is this machine, with true checkpoints written
by `volvelle.client`. What a start, a stop and a resume cost is measured first, on other jobs; the simulation
is told these costs and when jobs were submitted.

    python experiments/fidelity/fidelity.py [--jobs 72] [--executor ray]
    python experiments/fidelity/fidelity.py --gpu h100
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from live_run import GPU_SCRIPT, LiveCluster, Nodes, PlannedJob, provide_nodes, run_live
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


@dataclass(frozen=True)
class Setup:
    """A cluster, its jobs, and policies whose rounds are as long beside these as on the papers' clusters.

    what: the jobs do, for the page. seconds: the typical, the shortest and the longest length of a job, long
    beside what a start costs. widths: the share of jobs by GPUs. load: of the GPUs, so that jobs wait.
    probe: seconds that a probe works.
    """

    what: str
    cluster: str
    jobs: int
    policies: Mapping[str, str]
    seconds: tuple[float, float, float]
    widths: Mapping[int, float]
    load: float
    probe: float


MADE_UP = Setup(
    what="Jobs sleep or train a very small network, each iteration as long as it says, on made-up GPUs.",
    cluster="2x8",  # few nodes, so that placement hardly depends on which job happens to end first
    jobs=72,
    policies={
        "FIFO": "fifo",
        "LAS": "las:round=5",
        "PCS": "pcs:thresholds=40,whole=true,turn=10",
    },
    seconds=(40.0, 4.0, 160.0),
    widths={1: 0.55, 2: 0.3, 4: 0.15},
    load=1.0,
    probe=4.0,
)
ONE_GPU = Setup(
    what="Jobs train a transformer in bfloat16 (examples/train_transformer.py). How long an iteration is "
    "was measured first, on a run without a scheduler.",
    cluster="1x1",
    jobs=8,
    policies={
        "FIFO": "fifo",
        "LAS": "las:round=10",
        "PCS": "pcs:thresholds=15,whole=true,turn=10",
    },
    seconds=(15.0, 6.0, 40.0),
    widths={1: 1.0},
    load=1.6,
    probe=2.0,
)
_KINDS = {"sleep": "sleeping", "torch": "PyTorch", "gpu": "PyTorch, on the GPU"}
_PROBES = 6
_EPOCH = 25
"""Iterations of an epoch of `GPU_SCRIPT`, which trains whole ones."""
_SHAKEN = 8
"""Simulations whose starts cost what single probes' did, beside the one with their mean."""


@dataclass(frozen=True)
class Options:
    """What the command line said. gpu: what the GPU of this machine is called; empty: GPUs are made up."""

    jobs: int
    executor: str
    gpu: str
    out: Path

    @property
    def setup(self) -> Setup:
        """Of these GPUs."""
        return ONE_GPU if self.gpu else MADE_UP

    @cached_property
    def setting(self) -> str:
        """In words, for the results."""
        gpus = f"{self.setup.cluster} made-up GPUs of this machine"
        if self.gpu:
            command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
            listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            name, driver = listed.splitlines()[0].split(", ")
            gpus = f"one {name}, driver {driver}"
        return f"{self.jobs} jobs on {gpus}, executor {self.executor}"


def options() -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, help="how many, each under every policy")
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--gpu", default="", help="train on this machine's GPU, as in h100")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    jobs = given.jobs or (ONE_GPU if given.gpu else MADE_UP).jobs
    return Options(jobs, given.executor, given.gpu, given.out)


def planned(count: int, setup: Setup, step: float = 0.0, seed: int = 1) -> list[PlannedJob]:
    """Jobs of the setup's lengths, as a Poisson process.

    step: seconds of an iteration on the GPU; 0: GPUs are made up, some jobs train with PyTorch where it is.
    """
    rng = np.random.default_rng(seed)
    typical, shortest, longest = setup.seconds
    lengths = rng.lognormal(np.log(typical) - 0.3, 0.75, count)
    seconds = np.clip(lengths, shortest, longest)
    gpus = rng.choice(list(setup.widths), size=count, p=list(setup.widths.values()))
    every = float((seconds * gpus).mean()) / (setup.load * parse_cluster(setup.cluster).gpus)
    times = np.cumsum(rng.exponential(every, count))
    trains = find_spec("torch") is not None

    def job(n: int, after: float, width: int, length: float) -> PlannedJob:
        if step:
            epochs = max(round(length / (step * _EPOCH)), 1)
            return PlannedJob(after, width, epochs * _EPOCH, step, "gpu")
        kind = "torch" if trains and n % 12 == 5 else "sleep"
        return PlannedJob(after, width, round(length / 0.1), 0.1, kind)

    rows = enumerate(zip(times, gpus, seconds, strict=True))
    return [job(n, float(at), int(width), float(length)) for n, (at, width, length) in rows]


def step_seconds() -> float:
    """Seconds of an iteration on the GPU, of a run without a scheduler."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(GPU_SCRIPT), "250"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"([0-9.]+) s an iteration", ran.stdout)
    assert found is not None, ran.stdout
    return float(found[1])


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


def measure(nodes: Nodes, probe: PlannedJob) -> Costs:
    """On these nodes, the mean costs of probes that are held and released once, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        live = LiveCluster(
            Path(folder),
            nodes,
            WrittenComposition("fifo", "consolidated-strict", estimator="declared"),
        )
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
    name: str,
    policy: str,
    nodes: Nodes,
    jobs: Sequence[PlannedJob],
    costs: Mapping[str, Costs],
) -> Pair:
    """Run ``jobs`` live on ``nodes``, then simulate them, submitted when they really were.

    costs: by the kind of jobs.
    """
    usual = costs[jobs[0].kind]
    composition = WrittenComposition(policy, "consolidated-strict", estimator="declared")
    estimates = [job.work_seconds for job in jobs]
    with tempfile.TemporaryDirectory() as folder:
        header, stream = read_journal(run_live(Path(folder), nodes, composition, jobs, estimates))
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
            own = costs[job.kind]
            declared = {"checkpoint_seconds": own.checkpoint, "restore_seconds": own.restore}
            seconds = job.work_seconds + start(own) - usual.start
            workload.append(Job(replace(spec, **declared), Truth(work=seconds * spec.gpus)))
        return simulate(Workload(workload), setting).outcomes

    rng = np.random.default_rng(0)
    return Pair(
        name,
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
    setup = given.setup
    jobs = planned(given.jobs, setup, step_seconds() if given.gpu else 0.0)
    with provide_nodes(setup.cluster, given.executor, pretend=not given.gpu) as nodes:
        costs = {}
        for kind, seconds in {job.kind: job.seconds for job in jobs}.items():
            iterations = round(setup.probe / (seconds * _EPOCH)) * _EPOCH if given.gpu else 40
            costs[kind] = measure(nodes, PlannedJob(0.0, 1, iterations, seconds, kind))
        pairs: list[Pair] = []
        for policy in setup.policies.items():
            pairs.append(pair(*policy, nodes, jobs, costs))
            write_page(given, jobs, costs, pairs)  # a run that is cut off leaves what it has


def write_page(
    given: Options, jobs: Sequence[PlannedJob], costs: Mapping[str, Costs], pairs: Sequence[Pair]
) -> None:
    """The page, the table and the picture of the policies that have run."""
    name = f"fidelity-{given.gpu or given.executor}"
    report = Report(name, "Live runs beside their simulations", given)
    report.say(__doc__.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " "))
    report.say(given.setup.what)
    report.table(
        ("jobs", "a start", "a stop", "a resume"),
        [
            [
                _KINDS[kind],
                *(f"{seconds:.2f} s" for seconds in (one.start, one.checkpoint, one.restore)),
            ]
            for kind, one in costs.items()
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
                job.kind != "sleep",
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
