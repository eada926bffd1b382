"""Forecasts as the controller makes them: python benchmarks/live_forecasts.py [--nodes 1000] [--policy srsf]

A cluster is filled and so many jobs more are queued. Prints the CPU seconds of a forecast of all jobs, and at
the 99th percentile those of what `volvelle submit --dry-run` asks for, the first of each apart: it loads
machine code or, the very first time, compiles it. That is in the forecaster's thread, beside which jobs are
accepted. Then the CPU seconds of the answer to `volvelle submit --deadline` with so many jobs in the system,
of which some were promised a finish, by the admission and by the policy that promise.
"""

import argparse
import random
import time
from collections.abc import Callable

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import JOBS, RUNNING, WAITING
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.forecasts.what_if import forecast_request
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.request_parts import Deadline
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster

_TOGETHER = 500
"""Jobs submitted at a time."""


def request(rng: random.Random, deadline: Deadline | None = None) -> JobRequest:
    """A job of a random width and length."""
    gpus, seconds = rng.choice([1, 1, 1, 2, 4, 8]), rng.lognormvariate(7.0, 1.5)
    return JobRequest(command=("true",), gpus=gpus, estimate=seconds, deadline=deadline)


def filled(
    nodes: int,
    policy: str,
    rng: random.Random,
    *,
    jobs: int = 0,
    waiting: int = 0,
    admission: str = "accept-all",
) -> Scheduler:
    """A scheduler under which at least so many jobs are there and so many wait."""
    written = WrittenComposition(policy, "consolidated", admission, "declared")
    header = Header(volvelle="benchmark", cluster=parse_cluster(f"{nodes}x8"), composition=written)
    scheduler, now, first = header.scheduler(), 0.0, 0
    while scheduler.state.count[JOBS] < jobs or scheduler.state.count[WAITING] < waiting:
        now += 1.0
        numbers = range(first, first + _TOGETHER)
        coming = [JobSubmitted(now, n, request(rng).spec(n, "ada", now)) for n in numbers]
        scheduler.handle(now, coming)
        first += _TOGETHER
    return scheduler


def seconds_of(times: int, action: Callable[[], object]) -> tuple[float, FloatColumn]:
    """CPU seconds of the first call, and of ``times`` more."""
    seconds = []
    for _ in range(times + 1):
        began = time.process_time()
        action()
        seconds.append(time.process_time() - began)
    return seconds[0], np.array(seconds[1:])


def measure(scheduler: Scheduler, rng: random.Random, times: int) -> None:
    """Print what forecasts of and beside the jobs of ``scheduler`` cost."""
    count, now = scheduler.state.count, scheduler.now + 1.0
    policy, nodes = scheduler.composition.policy.label, len(scheduler.cluster.nodes)
    print(
        f"{policy}, {nodes:,} nodes: {count[JOBS]:,} jobs, {count[RUNNING]:,} run, "
        f"{count[WAITING]:,} wait"
    )
    calibration = ForecastCalibration()

    def all_jobs() -> None:
        forecast_jobs(scheduler.fork(), now, calibration, 0.0)

    def dry_run() -> None:
        forecast_request(
            scheduler.fork(), calibration, MeasuredRates(), request(rng), "ada", now, 0.0
        )

    first, seconds = seconds_of(5, all_jobs)
    median = float(np.median(seconds))
    print(f"  all jobs: {seconds.min():.3f} s, median {median:.3f} s, first {first:.2f} s")
    first, seconds = seconds_of(times, dry_run)
    p50, p99 = np.percentile(1e3 * seconds, (50, 99))
    print(f"  submit --dry-run: p50 {p50:.0f} ms, p99 {p99:.0f} ms, first {1e3 * first:.0f} ms")


def measure_deadlines(scheduler: Scheduler, rng: random.Random, promised: int, times: int) -> None:
    """Print what it costs to answer a job with a deadline once ``promised`` others were answered."""
    number, seconds = 1 << 20, []
    for place in range(promised + times):
        number, now = number + 1, scheduler.now + 1.0
        wanted = request(rng, Deadline(within=rng.uniform(3_600.0, 86_400.0)))
        submission = JobSubmitted(now, number, wanted.spec(number, "ada", now))
        answering = scheduler if place < promised else scheduler.fork()
        began = time.process_time()
        answering.handle(now, [submission])
        seconds.append(time.process_time() - began)
    p50, p99 = np.percentile(1e3 * np.array(seconds[promised:]), (50, 99))
    parts = scheduler.composition
    print(
        f"{parts.policy.label}, {parts.admission.label}: {scheduler.state.count[JOBS]:,} jobs, "
        f"{sum(one.finish_by is not None for one in scheduler.promises.values())} promised a finish\n"
        f"  submit --deadline: p50 {p50:.0f} ms, p99 {p99:.0f} ms, first {1e3 * seconds[0]:.0f} ms"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--policy", default="srsf")
    parser.add_argument("--waiting", type=int, nargs="*", default=[5_000, 20_000])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=10_000, help="in the system, for deadlines")
    parser.add_argument("--promised", type=int, default=20)
    given = parser.parse_args()
    rng = random.Random(1)
    for waiting in given.waiting:
        measure(filled(given.nodes, given.policy, rng, waiting=waiting), rng, given.times)
    for policy, admission in ((given.policy, "deadlines"), ("chronus", "accept-all")):
        scheduler = filled(given.nodes, policy, rng, jobs=given.jobs, admission=admission)
        measure_deadlines(scheduler, rng, given.promised, given.times)


if __name__ == "__main__":
    main()
