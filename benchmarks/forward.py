"""What an event costs: python benchmarks/forward.py TRACE [--cluster 120x8] [--times 5]

On the trace under srsf: whole calls of `simulate`, set-up included, against the loop of `minimal_loop.py` in
the same run, whose completion times must be the same (jobs are gangs that scale linearly here, whatever the
trace says, as those of the minimal loop are); with GPUs counted, and with consolidated placement,
costs of starts and stops and the log of every decision; what writing the journal adds to that. Then an order
in a file of its own, compiled, interpreted, and asked for all jobs at once. Then an event with a backlog of
1,000 and of 100,000 waiting jobs. All in CPU seconds of one core, the least of several runs.
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
from measure import best_of, least_cpu_seconds, warm_up
from minimal_loop import columns, minimal_loop

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Progress, Setting, simulate
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

COSTS = Overheads(start=30.0, restore=60.0, checkpoint=20.0)
OWN_ORDER = '''
from volvelle import policy


@policy.order("own-order")
def own_order(jobs, now):
    """Short and narrow jobs first."""
    return jobs.remaining_seconds * jobs.gpus + jobs.submit_time
'''
OWN_ORDER_OF_ALL = '''
from volvelle import policy


@policy.order("own-order-of-all")
def own_order_of_all(jobs, now):
    """Jobs far from the mean last."""
    return abs(jobs.gpus - jobs.gpus.mean())
'''


def linear_gangs(workload: Workload) -> Workload:
    """The same jobs, each on the GPUs that it requests and no others, as fast as these are many."""
    replace = msgspec.structs.replace
    jobs = [
        replace(
            job,
            spec=replace(job.spec, min_gpus=None, max_gpus=None),
            truth=Truth(work=job.truth.work),
        )
        for job in workload.jobs
    ]
    return Workload(jobs, workload.name, workload.report)


def against_minimal_loop(workload: Workload, cluster: Cluster, times: int) -> None:
    """Print ratios to the minimal loop."""
    gpus = float(cluster.gpus)
    expected = minimal_loop(*columns(workload), gpus)
    minimal = least_cpu_seconds(times, lambda: minimal_loop(*columns(workload), gpus))
    plain = least_cpu_seconds(1, lambda: minimal_loop.py_func(*columns(workload), gpus))
    print(f"minimal loop                        {minimal:8.3f} s ({plain:.3f} s in plain Python)")
    counted = Setting(cluster=cluster, composition=WrittenComposition("srsf"))
    placed = Setting(
        cluster=cluster,
        composition=WrittenComposition("srsf", "consolidated"),
        overheads=COSTS,
    )
    warm_up(workload, counted)
    warm_up(workload, placed)
    run = simulate(workload, counted, compiled=True)
    np.testing.assert_array_equal(run.outcomes.finish, expected)
    for label, setting in (("srsf, counted", counted), ("srsf, consolidated, costs", placed)):
        seconds = least_cpu_seconds(times, lambda s=setting: simulate(workload, s, compiled=True))  # type: ignore[misc]
        print(f"{label:36}{seconds:8.3f} s {seconds / minimal:6.1f} times the minimal loop")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        written = least_cpu_seconds(
            times, lambda: simulate(workload, placed, journal=path, compiled=True)
        )
        size = path.stat().st_size / 1e6
    print(f"{'writing its journal':36}{written - seconds:8.3f} s more, {size:.0f} MB")


def orders_of_ones_own(workload: Workload, cluster: Cluster, times: int) -> None:
    """Print what an event costs under policies from files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, source, compiled in (
            ("an own order, compiled", OWN_ORDER, True),
            ("an own order, interpreted", OWN_ORDER, False),
            ("an own order of all jobs together", OWN_ORDER_OF_ALL, True),
        ):
            path = Path(folder) / ("of_all.py" if source is OWN_ORDER_OF_ALL else "own_order.py")
            path.write_text(source)
            setting = Setting(cluster=cluster, composition=WrittenComposition(str(path)))
            warm_up(workload, setting)
            run = best_of(times, workload, setting, compiled=compiled)
            print(f"{name:36}{1e6 * run.cpu_seconds / run.events:8.1f} us/event")


def backlog(waiting: int, gpus: float, coming: int) -> Workload:
    """``waiting`` jobs at once, and then as many GPU-seconds of work a second as there are GPUs."""
    rng = np.random.default_rng(1)
    jobs = waiting + coming
    widths = rng.choice([1.0, 2.0, 4.0, 8.0], size=jobs, p=[0.6, 0.2, 0.1, 0.1])
    work = widths * rng.lognormal(7.0, 1.0, size=jobs)
    submit = np.zeros(jobs)
    submit[waiting:] = np.cumsum(work[waiting:]) / gpus
    return Workload(
        [
            Job(JobSpec(id=str(number), submit_time=time, gpus=width), Truth(work=seconds))
            for number, (time, width, seconds) in enumerate(
                zip(submit.tolist(), widths.tolist(), work.tolist(), strict=True)
            )
        ],
        f"a backlog of {waiting:,}",
    )


def with_a_backlog(cluster: Cluster, coming: int, times: int) -> None:
    """Print what an event costs while many jobs wait."""
    for policy in ("fifo", "srsf"):
        for placement in ("none", "consolidated"):
            setting = Setting(
                cluster=cluster, composition=WrittenComposition(policy, placement=placement)
            )
            costs = []
            for waiting in (1_000, 100_000):
                workload = backlog(waiting, float(cluster.gpus), coming)
                warm_up(workload, setting)
                costs.append(min(_cost_while_they_come(workload, setting) for _ in range(times)))
            print(
                f"{policy}, {placement}: {costs[0]:.2f} us/moment with 1,000 waiting, "
                f"{costs[1]:.2f} with 100,000: {costs[1] / costs[0]:.2f} times"
            )


def _cost_while_they_come(workload: Workload, setting: Setting) -> float:
    """Microseconds a moment between two looks at the run, at the median, until all have come."""
    looks: list[tuple[float, float]] = []

    def look(progress: Progress) -> None:
        if progress.submitted < progress.jobs:
            looks.append((time.process_time(), progress.moments))

    simulate(workload, setting, progress=look, compiled=True)
    between = [
        1e6 * (after[0] - before[0]) / (after[1] - before[1])
        for before, after in itertools.pairwise(looks)
    ]
    return float(np.median(between))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--cluster", default="120x8")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--coming", type=int, default=30_000, help="jobs, after a backlog")
    options = parser.parse_args()
    cluster = parse_cluster(options.cluster)
    workload = linear_gangs(read_trace(options.trace))
    print(f"{workload.report}; {cluster} ({cluster.gpus} GPUs)")
    against_minimal_loop(workload, cluster, options.times)
    orders_of_ones_own(workload, cluster, options.times)
    with_a_backlog(cluster, options.coming, options.times)


if __name__ == "__main__":
    main()
