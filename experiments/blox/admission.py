"""Blox, section 5.1 (figures 12 and 13): a FIFO backlog in front of LAS, at 8 jobs an hour and with spikes.

A spike is 16 jobs more during one hour of each day, spread evenly over it, with durations as the others have.

The paper calls its jobs those of its Philly trace. The public code of this one experiment (in
msr-fiddle/blox ``simulator_acceptance_policy.py`` at e6fc97c and ``simulator_dual_load.py``) draws every
duration anew, evenly from 10 to 24 hours, and the runs in its repository have such jobs; in another version
of the first file (``simulator_runner``, at 5a4b2be) the lines are commented out, which leaves the jobs of
`study`. Here are both. What makes the difference is in `admission_order`.
"""

import itertools
from functools import partial

import msgspec
import numpy as np
from study import (
    ROUND,
    Case,
    Claim,
    Floats,
    Jobs,
    Measured,
    Options,
    Report,
    hours,
    lasting,
    lines,
    mean,
    options,
    philly,
    run,
    setting,
)

from volvelle.model.job import Job
from volvelle.model.units import DAY, HOUR
from volvelle.workload.workload import Workload

RATE = 8.0
SPIKE = 16
FACTORS = (1.5, 1.2, 1.0)
ADMISSIONS = {
    "Accept All": "accept-all",
    **{f"Accept {factor:g}x": f"backlog:factor={factor:g}" for factor in FACTORS},
}
LOADS = ("8 jobs/h", "8 jobs/h and spikes")


def ten_to_24_hours(rng: np.random.Generator, count: int) -> Floats:
    """Durations of this experiment in Blox' code, hours."""
    return rng.uniform(10.0, 24.0, count)


LASTING: dict[str, Jobs] = {
    "10 to 24 hours": partial(lasting, ten_to_24_hours),
    "Gavel's durations": philly,
}
POLICY = f"las:{ROUND},service=seconds"
PAPER = {
    LOADS[0]: {"Accept 1.5x": 5.0, "Accept 1.2x": 15.0, "Accept 1x": 30.0},
    LOADS[1]: {"Accept 1.5x": 15.4, "Accept 1.2x": 27.3},
}
"""By how many percent JCT is lower than under Accept All."""
SAME = 5.0
"""So many percentage points apart two such figures are called the same."""


def _workload(given: Options, seed: int, load: str, durations: str) -> Workload:
    drawn = LASTING[durations]
    steady = drawn(given.submitted, seed, RATE)
    if load == LOADS[0]:
        return steady
    days = int(steady.submit_times[-1] // DAY) + 1
    sizes = drawn(days * SPIKE, seed + 1000, RATE).jobs
    hour = np.random.default_rng(seed).integers(24)
    times = [day * DAY + (hour + at / SPIKE) * HOUR for day in range(days) for at in range(SPIKE)]
    more = [
        Job(msgspec.structs.replace(job.spec, id=f"spike-{n}", submit_time=time), job.truth)
        for n, (job, time) in enumerate(zip(sizes, times, strict=True))
    ]
    return Workload.of([*steady.jobs, *more], "spikes")


def main() -> None:
    given = options(__doc__)
    report = Report(
        "admission", "Admission control and LAS (Blox, section 5.1, figures 12, 13)", given
    )
    cases = [
        Case(
            (load, durations, name, str(seed)),
            partial(_workload, given, seed, load, durations),
            setting(given, POLICY, admission=admission),
        )
        for load in LOADS
        for durations in LASTING
        for name, admission in ADMISSIONS.items()
        for seed in given.seeds
    ]
    found = {key: Measured.of(outcomes) for key, outcomes in run(cases, given.workers).items()}
    claims = []
    jct: dict[tuple[str, str], dict[str, list[float]]] = {}
    wait: dict[tuple[str, str], dict[str, list[float]]] = {}
    for load in LOADS:
        for durations in LASTING:
            key = load, durations
            of = {name: [found[*key, name, str(s)] for s in given.seeds] for name in ADMISSIONS}
            jct[key] = {name: [one.hours for one in those] for name, those in of.items()}
            wait[key] = {name: [one.wait_hours for one in those] for name, those in of.items()}
            report.say(f"{load}, {durations}:")
            report.table(HEADS, _rows(load, jct[key], wait[key]))
            claims += _claims(load, durations, jct[key], wait[key])
    report.claims(claims)
    report.say(EXPLAINED)
    report.picture(
        lines(
            "LAS behind a backlog (0 stands for Accept All)",
            (0.0, *reversed(FACTORS)),
            {
                f"{what}, {load}": {d: _by_factor(values[load, d]) for d in LASTING}
                for what, values in (("Mean JCT", jct), ("Mean responsiveness", wait))
                for load in LOADS
            },
            "Threshold, multiples of the GPUs",
        )
    )
    report.runs(
        ("load", "durations", "admission", "seed", "mean_jct_hours", "mean_responsiveness_hours"),
        [(*key, repr(one.hours), repr(one.wait_hours)) for key, one in found.items()],
    )
    report.close()


HEADS = (
    "admission",
    "mean JCT",
    "below Accept All",
    "the paper",
    "mean responsiveness",
    "of JCT",
)


def _rows(
    load: str, jct: dict[str, list[float]], wait: dict[str, list[float]]
) -> list[tuple[str, ...]]:
    return [
        (
            name,
            hours(jct[name]),
            f"{_lower(jct, name):.1f} %",
            f"{PAPER[load][name]:g} %" if name in PAPER[load] else "",
            hours(wait[name]),
            f"{100 * mean(wait[name]) / mean(jct[name]):.0f} %",
        )
        for name in ADMISSIONS
    ]


def _by_factor(values: dict[str, list[float]]) -> list[float]:
    """Accept All first, then the thresholds ascending."""
    names = list(ADMISSIONS)
    return [mean(values[name]) for name in (names[0], *reversed(names[1:]))]


def _lower(jct: dict[str, list[float]], name: str) -> float:
    """By how many percent JCT is below that of Accept All: the mean over seeds."""
    return mean([100 * (1 - a / b) for a, b in zip(jct[name], jct["Accept All"], strict=True)])


def _claims(
    load: str, durations: str, jct: dict[str, list[float]], wait: dict[str, list[float]]
) -> list[Claim]:
    names = list(ADMISSIONS)
    lowered = [_lower(jct, name) for name in names[1:]]
    waits = [mean(wait[name]) for name in names]
    paper = PAPER[load].values()
    return [
        Claim(
            f"{load}, {durations}: a backlog lowers JCT",
            ", ".join(f"{one:.1f} %" for one in lowered),
            min(lowered) > 0.0,
        ),
        Claim(
            f"{load}, {durations}: by {', '.join(f'{percent:g} %' for percent in paper)}",
            "the same figures",
            all(abs(one - percent) <= SAME for one, percent in zip(lowered, paper, strict=False)),
        ),
        Claim(
            f"{load}, {durations}: the lower the threshold, the lower JCT",
            "the same figures",
            all(a < b for a, b in itertools.pairwise(lowered)),
        ),
        Claim(
            f"{load}, {durations}: responsiveness rises meanwhile",
            ", ".join(f"{one:.1f} h" for one in waits),
            waits == sorted(waits),
        ),
    ]


EXPLAINED = (
    "What orders the thresholds is how alike the jobs are (tested one change at a time: "
    "[admission_order](admission_order.md)). Among jobs that all last 10 to 24 hours LAS is a bad policy: "
    "it gives turns to all, and all end late. A lower threshold leaves it fewer to give turns to, down to "
    "1x, which is FIFO. Where most jobs are short and a few very long, as with Gavel's durations, LAS lets "
    "the short ones pass; a backlog takes that from it, and gives back that long jobs do not starve. The "
    "two about cancel out, and no order is left. How much lower JCT is, is a matter of the load: at 8 jobs "
    "an hour of 17 hours each, 6 % more comes than 128 GPUs can do, and under Accept All jobs starve for as "
    "long as others come, in Blox' code until they have waited 1,000 hours. In a run that its repository "
    "holds (`responsiveness_and_jct/different_acceptance_policy_dynamic_load_1000_2000_Las_AcceptAll_load_"
    "8.0_job_stats.json`, with short jobs added in bursts) 220 of 1,001 measured jobs end so, and none "
    "with 1.2x. The 5, 15 and 30 % of the paper are those of a load just below what the GPUs can do; how it "
    "came by them at 8 jobs an hour, and with them by waits of 46 % of JCT, we do not know."
)

if __name__ == "__main__":
    main()
