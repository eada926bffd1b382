"""PCS' own configurations beside a front: benchmarks/pcs_fronts.py CONFIGS TRACE... --speedups TABLES

CONFIGS is the table of the configurations that came with PCS' simulator, TRACE the traces they were found
for (``trace_0e4a51.csv``: the name picks them) or generators (``pcs-themis1:jobs=2000``), TABLES its
speed-ups. Each is simulated on the whole trace as its authors did, with their steps of caps (``delta``).
Then a search is made on that same trace, with steps as theirs was, and refined, and of each configuration is
said how the nearest point of the front compares: mean JCT and mean prediction error over its own. Two factors
below 1 are a point that is better in both; a ten-thousandth more is as good.
"""

import argparse
import csv
from fractions import Fraction
from pathlib import Path

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting
from volvelle.simulate.sources import Source, generated, read_source
from volvelle.tune.evaluate import evaluate
from volvelle.tune.front import Front
from volvelle.tune.search import Search, tune
from volvelle.workload.workload import Workload

OBJECTIVES = (read_objective("jct:mean"), read_objective("pred_error:mean"))
AS_GOOD = 1.0001
KINDS = ("jct", "bal", "pred")


def main() -> None:
    """Print a line for each configuration."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("configs", type=Path)
    arguments.add_argument("traces", metavar="TRACE", nargs="+")
    arguments.add_argument("--speedups", type=Path, required=True)
    arguments.add_argument("--policy", default="pcs:delta=0.5", help="of which a front is made")
    arguments.add_argument("--gpus", type=int, default=64)
    arguments.add_argument("--jobs", type=int, help="only the first so many of each trace")
    arguments.add_argument("--candidates", type=int, default=320)
    arguments.add_argument("--refine", type=int, default=960)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    with given.configs.open(encoding="utf-8", newline="") as file:
        configs = {row["config"]: row for row in csv.DictReader(file)}
    search = Search(
        objectives=OBJECTIVES,
        candidates=given.candidates,
        refine=given.refine,
        samples=0,
        test=0.0,
        seed=given.seed,
    )
    for trace in given.traces:
        name, source = read(trace, given)
        workload = Workload(source.workload.jobs[: given.jobs], source.workload.name)
        front = tune(workload, setting(given.gpus, given.policy), search)
        print(f"{trace}, {len(workload):,} jobs, {len(front.evaluated)} configurations tried")
        for kind in KINDS:
            row = configs[f"PCS_config_{name}_{kind}"]
            theirs = evaluate(workload, setting(given.gpus, written(row)), OBJECTIVES)
            print(
                f"  {kind:5} mean JCT {theirs[0]:9.0f} s  error {theirs[1]:6.3f} %  {beside(front, theirs)}"
            )


def read(trace: str, given: argparse.Namespace) -> tuple[str, Source]:
    """What its configurations are called, and the jobs."""
    path = Path(trace)
    if path.is_file():
        speedups = f"pcs:speedups={given.speedups}"
        return path.stem.removeprefix("trace_"), read_source(path, speedups, {}, strict=False)
    name = trace.partition(":")[0].removeprefix("pcs-")
    return name, generated(trace, given.seed, given.gpus)


def setting(gpus: int, policy: str) -> Setting:
    """So many GPUs, only counted."""
    return Setting(cluster=parse_cluster(f"1x{gpus}"), composition=WrittenComposition(policy))


def written(row: dict[str, str]) -> str:
    """A configuration of the table as a policy of ours."""
    thresholds = "/".join(row["thresholds"].split()[:-1])
    weights = "/".join(repr(float(Fraction(weight))) for weight in row["weights"].split())
    efficiency, delta = row["clip_demand_factor"], row["delta"]
    return f"pcs:thresholds={thresholds},weights={weights},efficiency={efficiency},delta={delta}"


def beside(front: Front, theirs: tuple[float, ...]) -> str:
    """The point whose worse figure, over theirs, is least."""
    ratios = [
        tuple(ours / other for ours, other in zip(point.mean, theirs, strict=True))
        for point in front.points
    ]
    nearest = min(ratios, key=max)
    verdict = (
        "better" if max(nearest) < 1 else "as good" if max(nearest) <= AS_GOOD else "not reached"
    )
    return f"ours {nearest[0]:.4f} x, {nearest[1]:.4f} x: {verdict}"


if __name__ == "__main__":
    main()
