"""Blox, section 4.2 (figures 8 and 9): Pollux, FIFO and single-queue LAS from 1 to 40 jobs an hour.

    python experiments/blox/pollux_load.py TRACE...

The jobs are those of Pollux' workload files (``workload-*.csv``, with the folder ``applications`` of
measured tables beside them), joined, in an order drawn anew for each seed, again and again if they are
few, and submitted as a Poisson process. The paper takes one such file (number 6) of 160 jobs and does not
say which it measures; here four others have 640, and jobs 120 to 480 are measured.

16 nodes of 4 GPUs. Under FIFO and LAS a job has the GPUs and the batch size of the trace, under Pollux
both are Pollux' choice. All decide every five minutes, and starting or resuming costs 30 s, as in Pollux'
simulator. LAS counts seconds of running time, as in `load_sweep`. Beside the paper's three stands FIFO
with one GPU for each job, which is what the paper says that Pollux comes down to.
"""

from dataclasses import replace
from functools import partial
from itertools import chain, islice

import msgspec
import numpy as np
from study import (
    ROUND,
    Case,
    Claim,
    Measured,
    Options,
    Report,
    Seen,
    each_job,
    hours,
    lines,
    mean,
    measure,
    options,
    setting,
)

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.units import HOUR
from volvelle.workload.generators.arrivals import Poisson
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

RATES = (1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0)
LOW = (0, 3)
"""Where the rates under 15 jobs an hour begin and end."""
HIGH = (5, 8)
"""The same above 20."""
NARROW = "FIFO, 1 GPU each"
POLICIES = {
    "Pollux": f"pollux:{ROUND}",
    "FIFO": f"fifo:{ROUND},elastic=false",
    "LAS": f"las:{ROUND},service=seconds,elastic=false",
    NARROW: f"fifo:{ROUND},elastic=false",
}
CLUSTER = "16x4"
RESTART = Overheads(start=30.0, restore=30.0)
SIMILAR = 1.25
"""Two means are called similar where neither is more than this many times the other."""
PROMPT_HOURS = 1 / 12
"""A mean responsiveness of up to a round is called good, and so far apart two are called equal."""

Course = dict[str, list[float]]
"""A quantity by policy and rate."""


def pool_of(given: Options) -> list[Job]:
    return [
        job
        for trace in given.traces
        for job in read_trace(trace, "pollux", options={"elastic": "true"})
    ]


def stream(pool: list[Job], count: int, seed: int, rate: float, *, narrow: bool) -> Workload:
    rng = np.random.default_rng(seed)
    order = chain.from_iterable(rng.permutation(len(pool)) for _ in range(-(-count // len(pool))))
    drawn = [pool[index] for index in islice(order, count)]
    times = Poisson().times(rng, count, HOUR / rate).tolist()

    def submitted(number: int, job: Job) -> Job:
        spec = msgspec.structs.replace(
            job.spec, id=f"{number}-{job.spec.id}", submit_time=times[number]
        )
        if narrow:
            spec = msgspec.structs.replace(spec, gpus=1.0, min_gpus=None, max_gpus=None)
        return msgspec.structs.replace(job, spec=spec)

    return each_job(Workload(drawn), submitted)


def seen(outcomes: Outcomes) -> Seen:
    """Of the measured jobs: hours, GPUs while a job runs, and GPU-hours until it is done, the means."""
    measured, tracked = Measured.of(outcomes), outcomes.tracked
    held, ran = outcomes.gpu_seconds[tracked], outcomes.run_seconds[tracked]
    return {
        "mean_jct_hours": measured.hours,
        "mean_responsiveness_hours": measured.wait_hours,
        "mean_gpus": float(held.sum() / ran.sum()),
        "gpu_hours_per_job": float(held.mean()) / HOUR,
    }


def main() -> None:
    given = replace(
        options(__doc__, jobs=480, seeds=5, traces="Pollux' workload files", keeps=True),
        before=0.25,
        coming=4 / 3,
    )
    pool = pool_of(given)
    report = Report("pollux_load", "Pollux under load (Blox, section 4.2, figures 8 and 9)", given)
    names = ", ".join(trace.name for trace in given.traces)
    report.say(f"Run on {names}: {len(pool)} jobs, 16 nodes of 4 GPUs.")
    cases = [
        Case(
            (name, f"{rate:g}", str(seed)),
            partial(stream, pool, given.submitted, seed, rate, narrow=name == NARROW),
            setting(
                given,
                policy,
                placement="consolidated",
                cluster=parse_cluster(CLUSTER),
                overheads=RESTART,
            ),
        )
        for seed in given.seeds
        for name, policy in POLICIES.items()
        for rate in RATES
    ]
    found = measure(cases, given, seen)

    def over_seeds(name: str, rate: float, what: str) -> list[float]:
        return [found[name, f"{rate:g}", str(seed)][what] for seed in given.seeds]

    def course(what: str) -> Course:
        return {name: [mean(over_seeds(name, rate, what)) for rate in RATES] for name in POLICIES}

    jct, wait = course("mean_jct_hours"), course("mean_responsiveness_hours")
    gpus, work = course("mean_gpus"), course("gpu_hours_per_job")
    heads = ("policy", *(f"{rate:g}" for rate in RATES))
    for what, title in (
        ("mean_jct_hours", "Mean JCT"),
        ("mean_responsiveness_hours", "Mean responsiveness"),
    ):
        report.say(f"{title} by jobs submitted an hour:")
        report.table(
            heads,
            [
                (name, *(hours(over_seeds(name, rate, what), 2) for rate in RATES))
                for name in POLICIES
            ],
        )
    for course_seen, title, unit in (
        (gpus, "GPUs of a job while it runs (mean over time)", ""),
        (work, "GPU-hours of a job until it is done", " h"),
    ):
        report.say(f"{title}, by jobs submitted an hour:")
        report.table(
            heads, [(name, *(f"{n:.1f}{unit}" for n in course_seen[name])) for name in POLICIES]
        )
    report.claims(_claims(jct, wait, gpus))
    report.say(_explained(work))
    report.picture(
        lines(
            "Pollux, FIFO and LAS as the load grows",
            RATES,
            {"Mean JCT": jct, "Mean responsiveness": wait},
            "Jobs submitted an hour",
        )
    )
    report.runs(
        ("policy", "jobs_per_hour", "seed", *next(iter(found.values()))),
        [(*key, *map(repr, one.values())) for key, one in found.items()],
    )
    report.close()


def _claims(jct: Course, wait: Course, gpus: Course) -> list[Claim]:
    others = ("FIFO", "LAS")
    ahead = {name: _ratios(jct[name], jct["Pollux"], LOW) for name in others}
    waits = ["/".join(f"{wait[name][i]:.2f}" for name in ("Pollux", *others)) for i in range(*LOW)]
    apart = max(abs(wait["Pollux"][i] - wait[name][i]) for name in others for i in range(*LOW))
    jcts = _ratios(jct["FIFO"], jct["Pollux"], HIGH)
    fifo_waits = _ratios(wait["FIFO"], wait["Pollux"], HIGH)
    return [
        Claim(
            "under 15 jobs/h Pollux has a lower mean JCT than FIFO and LAS",
            f"{_span(ahead['FIFO'])} times lower than FIFO's, {_span(ahead['LAS'])} than LAS'",
            min(map(min, ahead.values())) > 1.0,
        ),
        Claim(
            "... while the three are equally responsive",
            f"Pollux/FIFO/LAS {', '.join(waits)} h at {_rates(LOW)} jobs/h",
            apart <= PROMPT_HOURS,
        ),
        Claim(
            "above 20 jobs/h the JCT of Pollux is similar to FIFO's",
            f"FIFO's is {_span(jcts)} times that of Pollux at {_rates(HIGH)} jobs/h",
            all(1 / SIMILAR <= ratio <= SIMILAR for ratio in jcts),
        ),
        Claim(
            "... and so is its responsiveness",
            f"FIFO's is {_span(fifo_waits, 0)} times that of Pollux",
            all(1 / SIMILAR <= ratio <= SIMILAR for ratio in fifo_waits),
        ),
        Claim(
            "Pollux gives jobs fewer GPUs as the load grows, a single one at high loads",
            f"{gpus['Pollux'][0]:.1f} at {RATES[0]:g}, {gpus['Pollux'][-1]:.1f} at {RATES[-1]:g} jobs/h",
            gpus["Pollux"][-1] < 1.5,
        ),
        Claim(
            "at a sufficiently high load jobs queue under Pollux",
            f"{60 * wait['Pollux'][0]:.1f} min at {RATES[0]:g}, {60 * wait['Pollux'][-1]:.1f} min at "
            f"{RATES[-1]:g} jobs/h",
            wait["Pollux"][-1] > PROMPT_HOURS,
        ),
        Claim(
            "LAS keeps a good responsiveness at high load",
            f"{60 * max(wait['LAS'][i] for i in range(*HIGH)):.1f} min at most",
            max(wait["LAS"][i] for i in range(*HIGH)) <= PROMPT_HOURS,
        ),
    ]


def _ratios(these: list[float], those: list[float], part: tuple[int, int]) -> list[float]:
    return [these[i] / those[i] for i in range(*part)]


def _span(ratios: list[float], digits: int = 1) -> str:
    return f"{min(ratios):.{digits}f} to {max(ratios):.{digits}f}"


def _rates(part: tuple[int, int]) -> str:
    return ", ".join(f"{RATES[i]:g}" for i in range(*part))


def _explained(work: Course) -> str:
    """What the figures say; ``work``: GPU-hours of a job."""
    asked, narrow = work["FIFO"][0], work["Pollux"][-1]
    gpus = parse_cluster(CLUSTER).gpus
    return (
        f"A job takes {asked:.1f} GPU-hours with the GPUs and the batch size of the trace, so {gpus:g} GPUs "
        f"are full at {gpus / asked:.0f} jobs an hour. FIFO waits earlier, as it leaves GPUs free while a "
        "wide job is at the head of the queue; from there on its queue grows for as long as jobs come, so "
        "its waits tell how many jobs there were as much as how it schedules. Pollux spends more GPU-hours "
        "on a job at a low load, where it widens jobs onto GPUs that nobody else wants, and fewer than the "
        "others at a high load, where its jobs are narrow and choose their batch size: "
        f"{gpus:g} GPUs then do {gpus / narrow:.0f} jobs an hour. "
        "Beyond, it narrows them further before it lets anyone wait: up to 30 jobs an hour a job starts in "
        "the next round. At 40 jobs begin to queue for want of GPUs, as the paper says, but far fewer "
        "than under FIFO, which waits for as many GPUs as each job asked for. (The GPUs of a job are a mean "
        "over its time, and rise again once no more jobs come.) So we agree with the paper on who is ahead "
        "at a low load, on jobs queueing under Pollux in the end and on LAS, and disagree on Pollux "
        "becoming similar to FIFO and on FIFO being as responsive below 15 jobs an hour. The paper tells "
        "neither the GPUs its FIFO gives a job nor how many jobs it measures; "
        "[pollux_fifo](pollux_fifo.md) tests that these make the difference."
    )


if __name__ == "__main__":
    main()
