"""Blox, section 4.2 (figures 6 and 7): FIFO, Tiresias and Optimus from 1 to 9 jobs an hour.

Jobs are those of `study`, elastic under Optimus alone: one to four GPUs, of which 95 % of an iteration
gains (Amdahl). The paper takes each model's measured profile, which it does not print. Tiresias is what
Blox' public code runs under that name: LAS in seconds of running time. The Tiresias of its own paper, with
queues and first in first out within each, and SRTF, whose order Blox' Optimus has, are shown too.
"""

from functools import partial

import msgspec
from study import (
    ROUND,
    Case,
    Claim,
    Measured,
    Options,
    Report,
    each_job,
    hours,
    lines,
    mean,
    options,
    philly,
    run,
    setting,
)

from volvelle.model.job import Job, Truth
from volvelle.model.throughput import Amdahl
from volvelle.workload.workload import Workload

RATES = tuple(float(rate) for rate in range(1, 10))
POLICIES = {
    "FIFO": f"fifo:{ROUND},elastic=false",
    "Tiresias": f"las:{ROUND},service=seconds",
    "Optimus": f"optimus:{ROUND}",
    "Tiresias with queues": f"tiresias:{ROUND}",
    "SRTF": f"srtf:{ROUND}",
}
MOST_GPUS = 4.0
PARALLEL = 0.95


def _workload(given: Options, seed: int, rate: float, *, elastic: bool) -> Workload:
    jobs = philly(given.submitted, seed, rate)
    return each_job(jobs, _elastic) if elastic else jobs


def _elastic(_: int, job: Job) -> Job:
    spec = msgspec.structs.replace(job.spec, min_gpus=1.0, max_gpus=MOST_GPUS)
    return Job(spec, Truth(work=job.truth.work, throughput=Amdahl(1.0, PARALLEL)))


def main() -> None:
    given = options(__doc__, seeds=2)
    report = Report("load_sweep", "Load sweep (Blox, section 4.2, figures 6 and 7)", given)
    cases = [
        Case(
            (name, f"{rate:g}", str(seed)),
            partial(_workload, given, seed, rate, elastic=name == "Optimus"),
            setting(given, policy),
        )
        for name, policy in POLICIES.items()
        for rate in RATES
        for seed in given.seeds
    ]
    found = {key: Measured.of(outcomes) for key, outcomes in run(cases, given.workers).items()}

    def over_seeds(name: str, rate: float, what: str) -> list[float]:
        return [getattr(found[name, f"{rate:g}", str(seed)], what) for seed in given.seeds]

    def course(what: str) -> dict[str, list[float]]:
        return {name: [mean(over_seeds(name, rate, what)) for rate in RATES] for name in POLICIES}

    jct, wait = course("hours"), course("wait_hours")
    for what, title in (("hours", "Mean JCT"), ("wait_hours", "Mean responsiveness")):
        report.say(f"{title} by jobs submitted an hour:")
        report.table(
            ("policy", *(f"{rate:g}" for rate in RATES)),
            [(name, *(hours(over_seeds(name, rate, what)) for rate in RATES)) for name in POLICIES],
        )
    report.claims(_claims(jct, wait))
    report.say(EXPLAINED)
    report.picture(
        lines(
            "FIFO, Tiresias and Optimus as the load grows",
            RATES,
            {"Mean JCT": jct, "Mean responsiveness": wait},
            "Jobs submitted an hour",
        )
    )
    report.runs(
        ("policy", "jobs_per_hour", "seed", "mean_jct_hours", "mean_responsiveness_hours"),
        [(*key, repr(one.hours), repr(one.wait_hours)) for key, one in found.items()],
    )
    report.close()


def _claims(jct: dict[str, list[float]], wait: dict[str, list[float]]) -> list[Claim]:
    low, high = slice(0, 3), slice(7, 9)
    others = [
        min(jct["FIFO"][i], jct["Tiresias"][i]) / jct["Optimus"][i] for i in range(len(RATES))
    ][low]
    slower = [jct["Tiresias"][i] / max(jct["FIFO"][i], jct["Optimus"][i]) for i in range(9)][high]
    return [
        Claim(
            "below 4 jobs/h Optimus has a lower JCT than FIFO and Tiresias",
            f"by factors of {min(others):.2f} to {max(others):.2f}",
            min(others) > 1.0,
        ),
        Claim(
            "... with similar responsiveness",
            f"all within {60 * max(max(wait[n][low]) for n in ('FIFO', 'Tiresias', 'Optimus')):.0f} min",
            max(max(wait[n][low]) for n in ("FIFO", "Tiresias", "Optimus")) < 0.5,
        ),
        Claim(
            "above 7 jobs/h Tiresias has a higher JCT than FIFO and Optimus",
            f"{slower[0]:.2f} and {slower[1]:.2f} times the higher of theirs at 8 and 9 jobs/h",
            min(slower) > 1.0,
        ),
        Claim(
            "... and a better responsiveness than Optimus",
            f"{wait['Tiresias'][8]:.1f} h to {wait['Optimus'][8]:.1f} h at 9 jobs/h",
            wait["Tiresias"][8] < wait["Optimus"][8],
        ),
        Claim(
            "FIFO has the worst responsiveness under high load",
            ", ".join(f"{n} {wait[n][8]:.1f} h" for n in ("FIFO", "Tiresias", "Optimus")),
            wait["FIFO"][8] >= max(wait["Tiresias"][8], wait["Optimus"][8]),
        ),
    ]


EXPLAINED = (
    "Above 7.6 jobs an hour more work comes than 128 GPUs can do. FIFO then makes every job wait alike; LAS "
    "serves whoever is new and leaves the longest jobs waiting until no more jobs come, so its mean JCT "
    "grows with the number of jobs that follow the measured ones (here twice as many as there were up to "
    "then), and that is what puts Blox' Tiresias above FIFO. With the queues of its own paper Tiresias does "
    "not: within the last queue, where all long jobs are, it is first in first out, and its JCT is about "
    "FIFO's with the responsiveness of LAS. Optimus gives every job a GPU before any gets a second; where "
    "there are more jobs than GPUs the earlier submissions have theirs, and it behaves as FIFO does. The "
    "order of Blox' Optimus is SRTF's, whose JCT stays the lowest. How far Optimus is ahead at a low load "
    "is what four GPUs speed a job up by: our number, as the paper prints no profile."
)

if __name__ == "__main__":
    main()
