"""Blox, section 5.2 and appendix A (figures 14, 15, 20, 21): the automatic synthesizer and static schedulers.

Three policies by three admissions, chosen anew every ten rounds, on the load of `study` and on the bursty
load, both at a quarter of the paper's scale (32 GPUs, 2 jobs an hour), since every run looks ahead some
thousands of times. Bursty are short jobs (ten minutes to an hour) more, at twice the rate during two hours
of every six, which is how we read "for two consecutive hours after every four hours". A second synthesizer
minimizes JCT and responsiveness at once.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
from study import (
    ROUND,
    Case,
    Claim,
    Measured,
    Options,
    Report,
    hours,
    mean,
    options,
    philly,
    run,
    setting,
)

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Truth
from volvelle.model.units import HOUR, MINUTE
from volvelle.report.choices import choices, shares
from volvelle.simulate.synthesis import Synthesis
from volvelle.workload.workload import Workload

RATE = 2.0
CLUSTER = "8x4"
SMALLER, WHOLE_RATE = 10, 8.0
"""The paper measures so many times as many jobs, and submits so many an hour."""
POLICIES = (f"fifo:{ROUND}", f"srtf:{ROUND}", f"las:{ROUND},service=seconds")
ADMISSIONS = ("accept-all", "backlog:factor=1.2", "backlog:factor=1.4")
SYNTHESIZERS = {
    "synthesizer (JCT)": ("jct:mean",),
    "synthesizer (JCT and responsiveness)": ("jct:mean", "responsiveness:mean"),
}
LOADS = ("Philly", "bursty")
PAPER_BEST = {"Philly": "fifo", "bursty": "srtf"}
"""The policy of the static composition with the lowest mean JCT (figure 14)."""
CYCLE, BURST = 6 * HOUR, 2 * HOUR


def _workload(given: Options, seed: int, load: str) -> Workload:
    steady = philly(given.submitted, seed, RATE)
    if load == "Philly":
        return steady
    rng = np.random.default_rng(seed)
    end = float(steady.submit_times[-1])
    count = int(2 * RATE * BURST / HOUR)
    begins = np.arange(CYCLE - BURST, end, CYCLE)
    times = (begins[:, None] + rng.random((len(begins), count)) * BURST).ravel()
    lengths = rng.uniform(10 * MINUTE, HOUR, len(times))
    like = steady.jobs[0].spec
    short = [
        Job(msgspec.structs.replace(like, id=f"short-{n}", submit_time=at), Truth(work=length))
        for n, (at, length) in enumerate(zip(times.tolist(), lengths.tolist(), strict=True))
    ]
    return Workload.of([*steady.jobs, *short], load)


def _cases(given: Options) -> list[Case]:
    ways = {
        f"{policy} + {admission}": setting(
            given, policy, admission=admission, cluster=parse_cluster(CLUSTER)
        )
        for policy in POLICIES
        for admission in ADMISSIONS
    }
    ways |= {
        name: replace(
            setting(given, POLICIES[0], cluster=parse_cluster(CLUSTER)),
            synthesis=Synthesis(policies=POLICIES, admissions=ADMISSIONS, objectives=objectives),
        )
        for name, objectives in SYNTHESIZERS.items()
    }
    return [
        Case((load, name, str(seed)), partial(_workload, given, seed, load), way)
        for name, way in reversed(ways.items())  # the long ones first
        for load in LOADS
        for seed in given.seeds
    ]


def main() -> None:
    given = options(__doc__, jobs=400, seeds=2)
    report = Report(
        "synthesizer", "The automatic synthesizer (Blox, section 5.2, appendix A)", given
    )
    outcomes = run(_cases(given), given.workers)
    found = {key: Measured.of(one) for key, one in outcomes.items()}
    names = list(dict.fromkeys(name for _, name, _ in found))[::-1]
    jct: dict[str, dict[str, float]] = {}
    wait: dict[str, dict[str, float]] = {}
    for load in LOADS:
        both = {n: [found[load, n, str(seed)] for seed in given.seeds] for n in names}
        jct[load] = {name: mean([one.hours for one in those]) for name, those in both.items()}
        wait[load] = {name: mean([one.wait_hours for one in those]) for name, those in both.items()}
        report.say(f"{load} load:")
        report.table(
            ("scheduler", "mean JCT", "mean responsiveness"),
            [
                (n, hours([one.hours for one in those]), hours([one.wait_hours for one in those]))
                for n, those in both.items()
            ],
        )
    _whole(report, given)
    first = str(given.seeds[0])
    ruling = {load: shares(outcomes[load, next(iter(SYNTHESIZERS)), first]) for load in LOADS}
    report.claims([c for load in LOADS for c in _claims(load, jct[load], wait[load], ruling[load])])
    report.say(EXPLAINED)
    for load in LOADS:
        for index, name in enumerate(SYNTHESIZERS):
            one = outcomes[load, name, first]
            if one.choices:
                report.say(f"{load} load, {name}, seed {first}: {_ruled(shares(one))}.")
                report.picture(choices(one), f"{load.lower()}-{index + 1}")
    report.runs(
        ("load", "scheduler", "seed", "mean_jct_hours", "mean_responsiveness_hours"),
        [(*key, repr(one.hours), repr(one.wait_hours)) for key, one in found.items()],
    )
    report.close()


def _whole(report: Report, given: Options) -> None:
    """The static policies at the paper's scale."""
    large = replace(given, jobs=SMALLER * given.jobs, before=0.75)
    cases = [
        Case(
            (policy, str(seed)),
            partial(philly, large.submitted, seed, WHOLE_RATE),
            setting(large, policy),
        )
        for policy in POLICIES
        for seed in given.seeds
    ]
    found = {key: Measured.of(one).hours for key, one in run(cases, given.workers).items()}
    first, last = large.tracked
    report.say(
        f"Policies alone at the paper's scale, {WHOLE_RATE:g} jobs an hour on 128 GPUs, jobs {first:,} to "
        f"{last:,} of {large.submitted:,}, mean JCT: "
        + "; ".join(f"{p} {hours([found[p, str(s)] for s in given.seeds])}" for p in POLICIES)
        + "."
    )


def _ruled(ruling: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in ruling.items())


def _claims(
    load: str, jct: dict[str, float], wait: dict[str, float], ruling: Mapping[str, float]
) -> list[Claim]:
    static = [name for name in jct if name not in SYNTHESIZERS]
    best = min(static, key=jct.__getitem__)
    single, both = SYNTHESIZERS
    order = sorted(static, key=jct.__getitem__)
    rank = sum(jct[name] < jct[both] and wait[name] < wait[both] for name in static)
    return [
        Claim(
            f"{load}: the best static policy is {PAPER_BEST[load].upper()}",
            f"{best}, {jct[best]:.1f} h; with {PAPER_BEST[load].upper()} "
            f"{min(jct[name] for name in static if name.startswith(PAPER_BEST[load])):.1f} h",
            best.startswith(PAPER_BEST[load]),
        ),
        Claim(
            f"{load}: the synthesizer goes on switching (figure 15)",
            f"it ruled by {_ruled(ruling)} of the time",
            len(ruling) > 1,
        ),
        Claim(
            f"{load}: the synthesizer closely matches the best static policy",
            f"{jct[single]:.1f} h; the best ({best}) {jct[best]:.1f} h, the median "
            f"{jct[order[len(order) // 2]]:.1f} h",
            jct[single] <= 1.1 * jct[best],
        ),
        Claim(
            f"{load}: for both objectives at once it is low in both",
            f"{jct[both]:.1f} h JCT and {wait[both]:.1f} h responsiveness; static ones lower in both: "
            f"{rank}",
            rank == 0,
        ),
    ]


EXPLAINED = (
    "The synthesizer sees the jobs in the system and nobody who comes later, so in overload it prefers "
    "what is good for those who are here, which is mostly the shortest first; what is best in the long run "
    "for the measured jobs need not be. In the paper FIFO is the best on the Philly load; here an order by "
    "remaining time is, at the paper's scale as well."
)

if __name__ == "__main__":
    main()
