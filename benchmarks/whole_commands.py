"""Whole commands, as people run them: python benchmarks/whole_commands.py [--trace TRACE] [--times 5]

Prints processor seconds (of all processes together) and seconds on the clock of each command, least and
median of several runs, with the limit of the least, and how much of it was spent in simulations; of the
demo and of a comparison of 5,000 jobs also without machine code from earlier runs. With --trace also the run
of that trace under srsf with consolidated placement, a journal and a report; it is meant for Philly's. The
last line is the most memory that one of the processes held.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

from volvelle.core.paying import COMPILED_FROM

VOLVELLE = [sys.executable, "-m", "volvelle.cli.main"]
NOTHING_COMPILED = ", nothing compiled yet"
LIMITS = {
    "list policies": 0.35,
    "compare --demo": 1.0,
    "simulate 5,000 jobs under fifo": 0.6,
    "compare 5,000 jobs, nothing compiled yet": 10.0,
}
PHILLY_SECONDS = 1.8
"""CPU seconds that commands may take."""
COMPILES = ["compare", "--generate", f"lognormal:jobs={COMPILED_FROM}", "--cluster", "8x8"]
"""A command with enough jobs that the loops of all others are compiled, where no file has them."""
FIFO = ["simulate", "--generate", "lognormal:jobs=5000", "--cluster", "8x8", "--policy", "fifo"]


class Measured(NamedTuple):
    """One run of a command, in seconds; ``simulating`` is a part of ``cpu``."""

    cpu: float
    clock: float
    simulating: float


def run(command: Sequence[str], folder: Path, *, compiled: bool = True) -> Measured:
    """Run a command of ours, whose results go to ``out`` in ``folder``.

    compiled: it finds machine code of earlier runs.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its byte code
    if not compiled:
        environment["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)
        environment["VOLVELLE_MACHINE_CODE"] = tempfile.mkdtemp(dir=folder)
    before, began = getrusage(RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [*VOLVELLE, *command],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    clock, after = time.monotonic() - began, getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(cpu, clock, simulated(folder))


def simulated(folder: Path) -> float:
    """The processor seconds of the simulations whose results are in ``folder``."""
    records = [json.loads(path.read_text()) for path in folder.rglob("run.json")]
    return float(sum(record["cpu_seconds"] for record in records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--cluster", default="120x8", help="that of the trace")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    out = ["--out", "out", "--force"]
    commands = {
        "--help": ["--help"],
        "list policies": ["list", "policies"],
        "compare --demo": ["compare", "--demo", *out],
        f"compare --demo{NOTHING_COMPILED}": ["compare", "--demo", *out],
        f"compare 5,000 jobs{NOTHING_COMPILED}": ["compare", *FIFO[1:5], *out],
        "simulate 5,000 jobs under fifo": [*FIFO, *out],
    }
    if options.trace is not None:
        placed = ["--policy", "srsf", "--placement", "consolidated"]
        trace = [str(options.trace.resolve()), "--cluster", options.cluster]
        commands[f"simulate {options.trace.name}"] = ["simulate", *trace, *placed, *out]
    with tempfile.TemporaryDirectory() as folder:
        run([*COMPILES, *out], Path(folder))
    print(f"{'':42}{'CPU s':>8}{'median':>8}{'simulating':>12}{'clock s':>9}{'median':>8}")
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as folder:
            run(command, Path(folder))  # byte code is cached from here on
            compiled = NOTHING_COMPILED not in name
            runs = [run(command, Path(folder), compiled=compiled) for _ in range(options.times)]
        best = min(runs, key=lambda one: one.cpu)
        cpu = statistics.median(one.cpu for one in runs)
        clock = statistics.median(one.clock for one in runs)
        limit = LIMITS.get(
            name, PHILLY_SECONDS if options.trace and name.endswith(options.trace.name) else None
        )
        told = "" if limit is None else f"{'MISSED, ' * (best.cpu > limit)}limit {limit:g}"
        print(
            f"{name[:41]:42}{best.cpu:8.2f}{cpu:8.2f}{best.simulating:12.2f}"
            f"{min(one.clock for one in runs):9.2f}{clock:8.2f} {told}"
        )
    print(f"{getrusage(RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6:.0f} MB at most")


if __name__ == "__main__":
    main()
