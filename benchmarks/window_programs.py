"""Window programs, aggregated and direct: python benchmarks/window_programs.py [--seconds 10] [--seed 0]

Random windows. Selections by deadline (Chronus: leases of 20 min, 72 of them, gangs of 1 to 16, four steps
a job) at 1.2 times the load that the GPUs can do, then 2,500 and 5,000 jobs on 960 GPUs; of 500 and 5,000
also with what nine tenths of them were selected for before as promised, and the others new. Rounds by counts
(Shockwave: 20 rounds of 120 s, gangs of 1 to 8 on 256 GPUs).
Prints CPU seconds, the gap to each program's own bound, and its value over the one found by counting. Beside
them are the direct programs, which have a variable for each job and slot and begin at greedy plans. HiGHS
heeds its limit, of the clock, late in a large one: with 5,000 jobs it takes five times as long.

    deadlines, 500 jobs, 253 GPUs, steps                0.02 s   gap   0.16 %
    deadlines, 500 jobs, 253 GPUs, x[k, i]              9.5  s   gap  20    %   value -14 %
    deadlines, 500 jobs, 406 promised, steps            0.01 s   gap   0.74 %
    deadlines, 5,000 jobs, 960 GPUs, steps              0.4  s   gap   0.13 %
    deadlines, 5,000 jobs, 960 GPUs, x[k, i]           51    s   gap  93    %   value -17 %
    deadlines, 5,000 jobs, 2,984 promised, steps        0.25 s   gap   0.35 %
"""

import argparse
import time

import numpy as np

from volvelle.plan.plan import Window
from volvelle.plan.programs import relative_gap
from volvelle.systems.chronus.deadline_case import Case
from volvelle.systems.chronus.deadline_programs import by_slots
from volvelle.systems.chronus.deadlines import DeadlineJobs, select_by_deadline
from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds

LEASES = Window(0.0, 1200.0, 72)
ROUNDS = Window(0.0, 120.0, 20)
SELECTIONS = ((50, None), (100, None), (200, None), (500, None), (2500, 960.0), (5000, 960.0))
PROMISED = (500, 5000)
"""Selections that are made a second time, with promises."""
SHARES = (120, 500, 1000, 2000, 10_000)
DIRECT_SHARES = 500
"""Jobs up to which rounds are shared by the direct program too."""


def with_deadlines(count: int, seed: int) -> DeadlineJobs:
    """Durations by a lognormal distribution, deadlines as in section 4.1 of the paper."""
    rng = np.random.default_rng(seed)
    slots = np.clip(np.ceil(rng.lognormal(2.0, 1.0, count)), 1, 48).astype(np.int64)
    first = np.ceil(slots * rng.uniform(1.2, 2.0, count))
    deadline = np.floor(first[:, None] * np.array([1.0, 1.1, 1.2, 1.5])).astype(np.int64)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0, 16.0], count, p=[0.5, 0.15, 0.15, 0.15, 0.05])
    value = np.tile([100.0, 80.0, 50.0, 20.0], (count, 1))
    return DeadlineJobs(np.arange(count), gpus, slots, deadline, value)


def in_rounds(count: int, gpus: float, seed: int) -> tuple[RoundJobs, float]:
    """Jobs somewhere on their way, weights rho^5, and lambda / Z0 of equation 11."""
    rng = np.random.default_rng(seed)
    total = rng.lognormal(8.5, 1.2, count)
    done = rng.uniform(0.0, 0.8, count) * total
    weight = rng.uniform(0.5, 2.5, count) ** 5 / (count * gpus)
    reached = done[:, None] + ROUNDS.slot_seconds * np.arange(ROUNDS.slots + 1)
    progress = np.minimum(reached / total[:, None], 1.0) + 1e-3
    gain = weight[:, None] * np.diff(np.log(progress), axis=1)
    gang = rng.choice([1.0, 2.0, 4.0, 8.0], count, p=[0.6, 0.2, 0.15, 0.05])
    return RoundJobs(np.arange(count), gang, gain, total - done), 1e-3 / float(total.sum())


def with_promises(jobs: DeadlineJobs, gpus: float, seconds: float) -> tuple[DeadlineJobs, int]:
    """The same jobs, of which the first nine tenths are promised what they are selected for; how many are."""
    count = len(jobs.number)
    old = count * 9 // 10
    gang = jobs.number[:old], jobs.gpus[:old], jobs.slots[:old]
    before = DeadlineJobs(*gang, jobs.deadline[:old], jobs.value[:old])
    fixed = np.full(count, -1, dtype=np.int64)
    fixed[:old] = select_by_deadline(before, LEASES, gpus, seconds=seconds, direct=False).step
    return jobs._replace(fixed=fixed), int(np.count_nonzero(fixed >= 0))


def show_steps(label: str, jobs: DeadlineJobs, gpus: float, seconds: float) -> float:
    """Print a line for the program of steps, and return the value of its plan."""
    began = time.process_time()
    found = select_by_deadline(jobs, LEASES, gpus, seconds=seconds, direct=False)
    print(line(f"{label}, steps", began, found.gap, found.value, found.value), flush=True)
    return found.value


def show_direct(
    label: str, jobs: DeadlineJobs, gpus: float, seconds: float, counted: float
) -> None:
    """Print a line for the direct program."""
    began = time.process_time()
    case = Case.of(jobs, LEASES, np.full(LEASES.slots, gpus))
    most = float(case.worths.max(axis=1).sum())
    held, bound = by_slots(case, case.greedy(), most, 0.01, seconds)
    gap = relative_gap(case.value(held), bound)
    print(line(f"{label}, x[k, i]", began, gap, case.value(held), counted), flush=True)


def line(label: str, began: float, gap: float, value: float, counted: float) -> str:
    cpu = time.process_time() - began
    return (
        f"{label:55} {cpu:7.2f} s CPU   gap {100 * gap:9.4f} %   "
        f"value {100 * (value / counted - 1.0):+8.3f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each program")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seconds = options.seconds
    select_by_deadline(with_deadlines(20, 1), LEASES, 20.0)  # compiles or loads the inner loops
    share_rounds(in_rounds(20, 8.0, 1)[0], ROUNDS, 8.0)
    for count, there in SELECTIONS:
        jobs = with_deadlines(count, options.seed)
        gpus = there or float(np.ceil(jobs.gpus @ jobs.slots / LEASES.slots / 1.2))
        label = f"deadlines, {count:,} jobs, {gpus:g} GPUs"
        show_direct(label, jobs, gpus, seconds, show_steps(label, jobs, gpus, seconds))
        if count in PROMISED:
            promised, kept = with_promises(jobs, gpus, seconds)
            show_steps(f"{label}, {kept:,} promised", promised, gpus, seconds)
    for count in SHARES:
        shared, weight = in_rounds(count, 256.0, options.seed)
        value = 0.0
        for direct in (False, True) if count <= DIRECT_SHARES else (False,):
            began = time.process_time()
            shares = share_rounds(
                shared,
                ROUNDS,
                256.0,
                makespan_weight=weight,
                gap=1e-4,
                seconds=seconds,
                direct=direct,
            )
            value = value or shares.value
            label = f"rounds, {count:,} jobs, {'X[j, t]' if direct else 'counts'}"
            print(line(label, began, shares.gap, shares.value, value))


if __name__ == "__main__":
    main()
