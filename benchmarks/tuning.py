"""The search for a front: python benchmarks/tuning.py [TRACE [--speedups TABLES]] [--gpus N]

1,280 simulations of 1,000 jobs with a prediction for every job (320 configurations of PCS on four samples
each) in two processes, and the test of the front: seconds and memory. Without a trace of the PCS
simulator's, on its themis1 workload.
"""

import argparse
import resource
import time
from pathlib import Path

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting
from volvelle.simulate.sources import generated, read_source
from volvelle.tune.search import Search, tune

OBJECTIVES = ("jct:mean", "pred_error:mean")
WORKERS = 2


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("trace", type=Path, nargs="?")
    arguments.add_argument("--speedups", type=Path)
    arguments.add_argument("--gpus", type=int, default=64)
    given = arguments.parse_args()
    if given.trace is None:
        source = generated("pcs-themis1:jobs=3000", 0, given.gpus)
    else:
        written = f"pcs:speedups={given.speedups}" if given.speedups else None
        source = read_source(given.trace, written, {}, strict=False)
    setting = Setting(
        cluster=parse_cluster(f"1x{given.gpus}"), composition=WrittenComposition("pcs")
    )
    search = Search(objectives=tuple(map(read_objective, OBJECTIVES)))
    began = time.monotonic()
    front = tune(source.workload, setting, search, workers=WORKERS)
    seconds = time.monotonic() - began
    done = len(front.evaluated) * search.samples
    tested = len(front.points) * search.samples
    print(f"{done:,} simulations of {search.jobs:,} jobs, and {tested} to test: {seconds:.1f} s")
    peaks = [
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    print(
        f"memory: {peaks[0]:.0f} MiB, and {peaks[1]:.0f} MiB at most in each of {WORKERS} processes"
    )


if __name__ == "__main__":
    main()
