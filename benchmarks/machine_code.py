"""What machine code costs before it runs: to load the loop, to compile it once, in a process of its own each.

    python benchmarks/machine_code.py [--times 3]

CPU seconds, the least of several processes, with their limits: 20 jobs in machine code after 20 interpreted
ones, so that nothing but machine code is measured.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from measure import limited

LIMITS = {
    "srsf, compiled once": 9.0,
    "srsf, loaded": 0.06,
    "afs-l, loaded": 0.1,
    "easy, loaded": 0.1,
    "pcs, loaded": 0.1,
}
PROGRAM = """
import sys, time
from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload
jobs = [
    Job(JobSpec(id=str(i), submit_time=60.0 * i, gpus=4.0), Truth(work=2400.0)) for i in range(20)
]
setting = Setting(cluster=parse_cluster("2x8"), composition=WrittenComposition(sys.argv[1]))
simulate(Workload(jobs), setting, compiled=False)
began = time.process_time()
simulate(Workload(jobs), setting, compiled=True)
print(time.process_time() - began)
"""


def seconds(policy: str, folder: str) -> float:
    """CPU seconds that a new process takes for its first run in machine code, kept in ``folder``."""
    environment = {**os.environ, "VOLVELLE_MACHINE_CODE": folder}
    command = [sys.executable, "-c", PROGRAM, policy]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(found.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as folder:
        for label, limit in LIMITS.items():
            policy, _, how = label.partition(", ")
            if how == "loaded":
                seconds(policy, folder)  # compiles what is not kept
                least = min(seconds(policy, folder) for _ in range(times))
            else:
                least = seconds(policy, folder)
            print(f"{label:24}{limited(least, limit, 's CPU')}")


if __name__ == "__main__":
    main()
