"""A job for tests: counts iterations in its control block as `volvelle.client` does, and writes a trace.

python training_job.py [iterations=N] [seconds=S] [ignore-lease] [orphan]

Its ranks end each iteration together, as training ones do.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from volvelle.client.control_block import (
    ATTACHED,
    EXIT_AT,
    EXIT_CONFIRMED,
    ITERATIONS,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    ControlBlock,
)

options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
run = Path(os.environ["VOLVELLE_RUN"])
rank, nodes = int(os.environ["VOLVELLE_NODE_RANK"]), int(os.environ["VOLVELLE_NODES"])
attempt = os.environ["VOLVELLE_ATTEMPT"]
block = ControlBlock(run / ControlBlock.FILE_NAME)
iterations = block[ITERATIONS]


folder = next(parent for parent in run.parents if parent.name == "executor").parent
job = os.environ["VOLVELLE_JOB"]


def trace(what: str) -> None:
    with (folder / f"trace-{job}").open("a") as file:
        file.write(f"{attempt} {rank} {what} {iterations}\n")


barrier = os.open(folder / f"barrier-{job}-{attempt}", os.O_RDWR | os.O_CREAT)


def wait_for_other_ranks() -> None:
    """Wait until all ranks have done this iteration."""
    os.pwrite(barrier, iterations.to_bytes(8), 8 * rank)
    while any(
        int.from_bytes(os.pread(barrier, 8, 8 * other)) < iterations for other in range(nodes)
    ):
        time.sleep(0.001)


if "orphan" in options:  # it leaves the session and outlives its parent
    subprocess.Popen(["sh", "-c", "setsid sleep 1000 & exit"])
block[ATTACHED] = 1
trace("started")
while iterations < int(options.get("iterations", 10**9)):
    time.sleep(float(options.get("seconds", 0.01)))
    iterations += 1
    wait_for_other_ranks()
    if rank == 0:
        block[ITERATIONS] = iterations
    if "ignore-lease" in options:
        continue
    if rank == 0 and block[REVOKED] and not block[EXIT_AT]:
        block[EXIT_AT] = iterations + (1 if nodes > 1 else 0)
        while nodes > 1 and block[EXIT_CONFIRMED] != block[EXIT_AT]:
            time.sleep(0.001)
    if 0 < block[EXIT_AT] <= iterations:
        if rank == 0:
            block[SAVED_ITERATIONS], block[PREEMPTED] = iterations, 1
        trace("preempted")
        sys.exit()
trace("finished")
