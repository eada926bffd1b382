"""What a decision costs under each placement: python benchmarks/placements.py [--gpus 960 10000] [--times 5]

A cluster of nodes of 8 GPUs is filled with gangs of 1 to 16 GPUs, and some of them end at random, so that
one GPU in ten is free, here and there. Then gangs come that all fit, 1, 10 or 100 in one decision, or hostile
ones of 3, 5, 6 and 7 GPUs for all that is free; half of them are slower apart. Prints the least CPU
milliseconds of several such decisions, submissions included, and how many gangs stand on more nodes than they
need. ``none`` names no GPUs: what it costs is not the placement's.
"""

import argparse
import random
import time
from collections.abc import Sequence

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import Event, JobFinished, JobSubmitted
from volvelle.core.parts import placements
from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec, Truth

NODE = 8
WIDTHS = [1] * 12 + [2] * 3 + [3] + [4] * 4 + [5] + [8] * 3 + [16]
HOSTILE = [3, 5, 6, 7]
FREE_SHARE = 0.1


def submitted(number: int, time: float, gpus: int) -> JobSubmitted:
    """A job; every second is slower apart."""
    spec = JobSpec(id=str(number), submit_time=time, gpus=float(gpus))
    slowdown = 0.5 if number % 2 else 0.0
    return JobSubmitted(time, number, spec, Truth(work=3600.0 * gpus, spread_slowdown=slowdown))


def widths(draw: random.Random, kinds: Sequence[int], gpus: int, most: int) -> list[int]:
    """Gangs of some ``kinds`` that have room on ``gpus`` GPUs, up to ``most`` of them."""
    found: list[int] = []
    while len(found) < most:
        width = draw.choice(kinds)
        if sum(found) + width > gpus:
            break
        found.append(width)
    return found


def fragmented(placement: str, gpus: int) -> Scheduler:
    """A cluster in use, whose free GPUs are here and there."""
    draw = random.Random(1)
    written = WrittenComposition("fifo-skip", placement)
    scheduler = Scheduler(parse_cluster(f"{gpus // NODE}x{NODE}"), written.build())
    scheduler.compile()
    jobs = widths(draw, WIDTHS, gpus, gpus)
    scheduler.handle(0.0, [submitted(number, 0.0, width) for number, width in enumerate(jobs)])
    held = {number: jobs[number] for number in scheduler.known if runs(scheduler, number)}
    free, ended = gpus - sum(held.values()), list[Event]()
    for number in draw.sample(sorted(held), len(held)):
        if free >= FREE_SHARE * gpus:
            break
        free += held[number]
        ended.append(JobFinished(1.0, number, 1))
    scheduler.handle(1.0, ended)
    return scheduler


def runs(scheduler: Scheduler, number: int) -> bool:
    """Whether a job holds GPUs."""
    return bool(scheduler.state.jobs.held[scheduler.known.rows[number]] > 0.0)


def measure(
    scheduler: Scheduler, kinds: Sequence[int], batch: int, times: int
) -> tuple[float, int, int]:
    """CPU milliseconds of a decision that is to start gangs; how many it starts, how many of them apart."""
    state = scheduler.state
    free = sum(state.types.capacity.tolist()) - sum(state.types.used.tolist())
    jobs = widths(random.Random(batch), kinds, int(free), batch)
    first = 1 + max(scheduler.known)
    events = [submitted(first + place, 2.0, width) for place, width in enumerate(jobs)]
    best = float("inf")
    for _ in range(times):
        fork = scheduler.fork()
        fork.advance(1.5, 1)
        began = time.process_time()
        decision = fork.handle(2.0, events)
        best = min(best, time.process_time() - began)
    apart = 0
    for row, gpus in enumerate(decision.gpus.tolist()):
        nodes = set((decision.slots_of(row) // NODE).tolist())
        apart += len(nodes) > -(-gpus // NODE)
    return 1000 * best, len(decision.job), apart


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[960, 10_000])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--placement", nargs="+", default=sorted(placements.all()))
    options = parser.parse_args(arguments)
    print(f"{'placement':22} {'GPUs':>6} {'gangs':>8} {'ms CPU':>9} {'started':>8} {'apart':>6}")
    for gpus in options.gpus:
        for placement in options.placement:
            scheduler = fragmented(placement, gpus)
            measure(scheduler, HOSTILE, gpus, 1)  # machine code is loaded
            for kinds, batch in ((WIDTHS, 1), (WIDTHS, 10), (WIDTHS, 100), (HOSTILE, gpus)):
                spent, started, apart = measure(scheduler, kinds, batch, options.times)
                gangs = "hostile" if kinds is HOSTILE else str(batch)
                print(f"{placement:22} {gpus:6} {gangs:>8} {spent:9.2f} {started:8} {apart:6}")


if __name__ == "__main__":
    main()
