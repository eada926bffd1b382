"""What the client library costs: `import volvelle.client`, and `iterate` beside a bare loop, in this run.

    python benchmarks/client_overhead.py [ITERATIONS]

The import is that of a fresh interpreter, in processor time, without its own start. The bare loop and the
loops of the client take turns, and each is as quick as its quickest turn. The control block is a real one in
a temporary folder; the ratio depends on how little the bare loop does.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from volvelle.client.control_block import ControlBlock
from volvelle.client.lease import Lease, ProcessContext
from volvelle.client.run import SaveOptions, TrainingRun

TURNS = 7
FOLDER = tempfile.TemporaryDirectory()
"""There until the end, as reports are written until then."""


def bare(batches: list[int]) -> None:
    for _ in batches:
        pass


def iterated(run: TrainingRun, batches: list[int]) -> Iterable[int]:
    return run.iterate(batches, None, None, SaveOptions(None, "10m", 1, False), None)


def without_scheduler(batches: list[int]) -> None:
    for _ in iterated(TrainingRun(Lease(ProcessContext.from_environment({}))), batches):
        pass


def with_scheduler(batches: list[int], environment: dict[str, str]) -> None:
    for _ in iterated(TrainingRun(Lease(ProcessContext.from_environment(environment))), batches):
        pass


def reporting(batches: list[int], environment: dict[str, str]) -> None:
    run = TrainingRun(Lease(ProcessContext.from_environment(environment)))
    for _ in iterated(run, batches):
        run.report({"loss": 0.5})


def seconds(loop: Callable[[], None]) -> float:
    began = time.perf_counter()
    loop()
    return time.perf_counter() - began


def import_seconds() -> float:
    """Of `volvelle.client` in a fresh interpreter, the quickest of several."""
    program = (
        "import time; began = time.process_time(); import volvelle.client; "
        "print(time.process_time() - began)"
    )
    command = [sys.executable, "-c", program]
    return min(float(subprocess.check_output(command)) for _ in range(TURNS))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    batches = list(range(count))
    ControlBlock.create(Path(FOLDER.name) / ControlBlock.FILE_NAME, attempt=1).close()
    environment = {"VOLVELLE_RUN": FOLDER.name}
    loops: dict[str, Callable[[], None]] = {
        "bare loop": lambda: bare(batches),
        "iterate, no scheduler": lambda: without_scheduler(batches),
        "iterate, scheduler": lambda: with_scheduler(batches, environment),
        "iterate, and report": lambda: reporting(batches, environment),
    }
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(TURNS):
        for name, loop in loops.items():
            best[name] = min(best[name], seconds(loop) / count)
    bare_seconds = best["bare loop"]
    load = os.getloadavg()[0]
    print(f"{count:,} iterations, best of {TURNS}; load {load:.1f} on {os.cpu_count()} CPUs")
    print(f"{'import volvelle.client':24} {1e3 * import_seconds():8.1f} ms")
    for name, each in best.items():
        added = 1e6 * (each - bare_seconds)
        print(
            f"{name:24} {1e6 * each:8.3f} us  +{added:6.3f} us  {each / bare_seconds:7.1f} x bare"
        )


if __name__ == "__main__":
    main()
