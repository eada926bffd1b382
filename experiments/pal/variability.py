"""PAL's figures 10 and 12: Sia-Philly workloads on 64 GPUs that differ, FIFO, by placement and locality.

Jobs, their GPUs and step times are those of Sia's artifact. The slowdowns of the GPUs are drawn, since the
measurements of Longhorn that PAL's artifact has are not part of this repository: by their look, one GPU in
33 is 2 to 3.5 times slower for class A and the others differ by 5 %, by 2 % in class B, and hardly in class
C. Classes of applications are ours: image networks A, language models B, the others C.
"""

import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job
from volvelle.model.units import HOUR
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED, Claim, Report, command_line

NODES, GPUS = 16, 4
PLACEMENTS = {"packed, sticky": "consolidated", "PM-First": "pm-first", "PAL": "pal"}
BASELINE = 1.5
"""The factor of a gang on several nodes that could stand on one, in figure 10."""
CLASSES = {"cifar10": "A", "imagenet": "A", "yolov3": "A", "bert": "B", "gpt_pmp": "B"}


class Given(NamedTuple):
    """What is measured, and where the page goes."""

    out: Path
    setting: str


def main() -> None:
    options = command_line(
        __doc__,
        Path(__file__).parent / "results",
        {
            "workloads": (8, "how many, from the first on"),
            "jobs": (160, "of each workload, from the first on"),
            "factors": ("1/1.5/2/2.5/3", "of a gang on several nodes; 1.5 among them"),
        },
    )
    factors = tuple(map(float, options.factors.split("/")))
    folder = SHARED / "data/sia"
    if not folder.is_dir():
        print("skipped: this experiment needs ../shared/data/sia")
        raise SystemExit(1)
    setting = (
        f"Sia-Philly workloads 1 to {options.workloads}, {NODES * GPUS} GPUs in nodes of {GPUS}, FIFO, "
        "moves cost nothing"
    )
    report = Report("variability", "Variability-aware placement", Given(options.out, setting))
    jct = {
        (factor, name, number): _mean_jct(folder, number, placement, factor, options.jobs)
        for factor in factors
        for name, placement in PLACEMENTS.items()
        for number in range(1, options.workloads + 1)
    }
    numbers = range(1, options.workloads + 1)
    less = {
        (factor, name): [
            100.0 * (1.0 - jct[factor, name, n] / jct[factor, "packed, sticky", n]) for n in numbers
        ]
        for factor in factors
        for name in ("PM-First", "PAL")
    }
    report.say(
        f"Mean JCT in hours where several nodes cost a factor of {BASELINE:g}, and how much less it is "
        "than packed."
    )
    report.table(
        ("workload", *PLACEMENTS, "PM-First, less", "PAL, less"),
        [
            (
                str(n),
                *(f"{jct[BASELINE, name, n]:.2f}" for name in PLACEMENTS),
                *(f"{less[BASELINE, name][n - 1]:.0f} %" for name in ("PM-First", "PAL")),
            )
            for n in numbers
        ],
    )
    report.say("Geometric means over the workloads, by that factor.")
    report.table(
        ("factor", "PM-First, less", "PAL, less"),
        [
            (
                f"{factor:g}",
                *(f"{_geomean(less[factor, name]):.0f} %" for name in ("PM-First", "PAL")),
            )
            for factor in factors
        ],
    )
    report.say(
        "Gangs of more than four GPUs pay the factor under every placement in the artifact, and under none "
        "here. The paper's durations and slowdowns are other ones, so that only signs and orders can agree."
    )
    pal, first = less[BASELINE, "PAL"], less[BASELINE, "PM-First"]
    by_factor = [_geomean(less[factor, "PAL"]) for factor in factors]
    first_by_factor = [_geomean(less[factor, "PM-First"]) for factor in factors]
    report.claims(
        [
            Claim(
                "artifact, figure 10: PAL's mean JCT is 43 % less (21 to 59)",
                f"{_geomean(pal):.0f} % ({min(pal):.0f} to {max(pal):.0f})",
                21.0 <= _geomean(pal) <= 59.0,
            ),
            Claim(
                "artifact, figure 10: PM-First's is 40 % less (5 to 59)",
                f"{_geomean(first):.0f} % ({min(first):.0f} to {max(first):.0f})",
                5.0 <= _geomean(first) <= 59.0,
            ),
            Claim(
                "artifact, figure 12: PM-First loses from 30 to 9 % as the factor grows from 1 to 3",
                f"{first_by_factor[0]:.0f} to {first_by_factor[-1]:.0f} %",
                first_by_factor[-1] < first_by_factor[0] - 5.0,
            ),
            Claim(
                "artifact, figure 12: PAL loses less, from 30 to 20 %",
                f"{by_factor[0]:.0f} to {by_factor[-1]:.0f} %",
                first_by_factor[-1] < by_factor[-1] <= by_factor[0] + 1.0,
            ),
        ]
    )
    report.runs(
        ("factor", "placement", "workload", "mean JCT, h"),
        [(factor, name, n, round(hours, 4)) for (factor, name, n), hours in jct.items()],
    )
    report.close()


def _geomean(less: list[float]) -> float:
    """The reduction whose remainder is the geometric mean of the remainders."""
    return 100.0 * (1.0 - statistics.geometric_mean([1.0 - each / 100.0 for each in less]))


def _cluster(seed: int) -> Cluster:
    rng = np.random.default_rng(seed)
    shape = (NODES, GPUS)
    slow = rng.random(shape) < 1 / 33
    slowdowns = {
        "A": np.where(slow, rng.uniform(2.0, 3.5, shape), rng.normal(1.0, 0.05, shape)),
        "B": rng.normal(1.0, 0.02, shape),
        "C": rng.normal(1.0, 0.003, shape),
    }
    nodes = parse_cluster(f"{NODES}x{GPUS}:aws").nodes
    return Cluster(
        tuple(
            msgspec.structs.replace(
                node,
                slowdowns=tuple((name, tuple(of[n].tolist())) for name, of in slowdowns.items()),
            )
            for n, node in enumerate(nodes)
        )
    )


def _mean_jct(folder: Path, number: int, placement: str, factor: float, most: int) -> float:
    trace = read_trace(
        folder / f"workloads/philly/workload-{number}.csv",
        "sia",
        options={"applications": folder / "traces"},
    )
    setting = Setting(
        cluster=_cluster(number), composition=WrittenComposition("fifo", placement=placement)
    )
    jobs = Workload([_of_class(job, factor) for job in trace.jobs[:most]])
    return float(simulate(jobs, setting).outcomes.jct.mean()) / HOUR


def _of_class(job: Job, factor: float) -> Job:
    application = job.spec.name.partition(" ")[0]
    several = factor - 1.0 if 1 < job.spec.gpus <= GPUS else 0.0
    return msgspec.structs.replace(
        job,
        spec=msgspec.structs.replace(job.spec, variability=CLASSES.get(application, "C")),
        truth=msgspec.structs.replace(job.truth, spread_slowdown=several),
    )


if __name__ == "__main__":
    main()
