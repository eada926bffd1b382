"""Blox, section 4.2 (figures 8 and 9): at which FIFO, and in how long a stream, Pollux becomes like it.

    python experiments/blox/pollux_fifo.py TRACE...

Behind the `pollux_load` experiment, whose Pollux does not become like FIFO above 20 jobs an hour, with the
same jobs, cluster and search. What is changed is what FIFO gives a job: what the trace asks for, one GPU at
the trace's batch size, or one GPU at the batch size that Pollux' jobs would choose there; and how many jobs
there are: a stream of ``--jobs``, of half and of a quarter as many. Of each the third quarter is measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from pollux_load import (
    CLUSTER,
    POLICIES,
    PROMPT_HOURS,
    RESTART,
    SEARCHED,
    SIMILAR,
    pool_of,
    seen,
    stream,
)
from study import ROUND, Case, Claim, Options, Report, hours, lines, mean, options, run, setting

from volvelle.core.policy import policies
from volvelle.model.cluster import parse_cluster
from volvelle.policies.orders import Fifo

RATES = (10.0, 40.0)
LOW, HIGH = RATES
"""Under 15 jobs an hour, and above 20."""
SHARES = (4, 2, 1)
"""The streams: the longest over each. A longer one is drawn fewer times, that all are as much work."""


@policies.register
class TunedFifo(Fifo):
    """FIFO, whose jobs choose the batch size with the best goodput on the GPUs they have."""

    name: ClassVar[str] = "fifo-tuned"
    tunes_batch_size: ClassVar[bool] = True


@dataclass(frozen=True)
class Way:
    """A policy, and whether each job has one GPU instead of what the trace asks for."""

    policy: str
    narrow: bool = False


POLLUX, TUNED = "Pollux", "FIFO, 1 GPU, best batch"
WAYS = {
    POLLUX: Way(POLICIES["Pollux"]),
    "FIFO, as the trace asks": Way(POLICIES["FIFO"]),
    "FIFO, 1 GPU": Way(POLICIES["FIFO"], narrow=True),
    TUNED: Way(f"fifo-tuned:{ROUND},elastic=false", narrow=True),
}
JCT, WAIT = "mean_jct_hours", "mean_responsiveness_hours"

Runs = Mapping[tuple[str, ...], Mapping[str, float]]
"""What was seen by stream, policy, rate and seed."""


def main() -> None:
    given = options(__doc__, jobs=2000, seeds=5, traces="Pollux' workload files")
    pool = pool_of(given)
    streams = {given.jobs // share: _seeds(given, share) for share in SHARES}
    shortest = next(iter(streams))
    report = Report(
        "pollux_fifo",
        "Pollux and FIFO (Blox, section 4.2, figures 8 and 9)",
        replace(given, jobs=shortest * 3 // 4, before=2 / 3, coming=4 / 3),
    )
    told = ", ".join(f"{jobs:,} jobs ({len(seeds)})" for jobs, seeds in streams.items())
    report.say(f"And of longer streams; with the number of seeds: {told}. {SEARCHED}")
    cases = [
        Case(
            (f"{jobs}", name, f"{rate:g}", str(seed)),
            partial(stream, pool, jobs, seed, rate, narrow=way.narrow),
            setting(
                replace(given, jobs=jobs * 3 // 4, before=2 / 3),
                way.policy,
                placement="consolidated",
                cluster=parse_cluster(CLUSTER),
                overheads=RESTART,
            ),
        )
        for jobs, seeds in streams.items()
        for seed in seeds
        for name, way in WAYS.items()
        for rate in RATES
    ]
    found: Runs = {key: seen(outcomes) for key, outcomes in run(cases, given.workers).items()}

    def over_seeds(jobs: int, name: str, rate: float, what: str) -> list[float]:
        return [found[f"{jobs}", name, f"{rate:g}", str(seed)][what] for seed in streams[jobs]]

    heads = ("policy", "jobs/h", *(f"{one:,} jobs" for one in streams))
    for what, title in ((JCT, "Mean JCT"), (WAIT, "Mean responsiveness")):
        report.say(f"{title} by jobs of the stream:")
        report.table(
            heads,
            [
                (
                    name,
                    f"{rate:g}",
                    *(hours(over_seeds(jobs, name, rate, what), 2) for jobs in streams),
                )
                for name in WAYS
                for rate in RATES
            ],
        )
    report.say("FIFO over Pollux, mean JCT; mean responsiveness (least to most over seeds):")
    report.table(
        heads,
        [
            (
                name,
                f"{rate:g}",
                *(
                    "; ".join(
                        f"{_mean_ratio(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                        for ratios in (
                            _ratios(found, jobs, streams[jobs], name, rate, what)
                            for what in (JCT, WAIT)
                        )
                    )
                    for jobs in streams
                ),
            )
            for name in WAYS
            if name != POLLUX
            for rate in RATES
        ],
    )
    report.claims(_claims(found, streams))
    report.say(EXPLAINED)
    report.picture(
        lines(
            "Pollux and FIFO by the length of the stream",
            list(streams),
            {
                f"{title}, {rate:g} jobs/h": {
                    name: [mean(over_seeds(jobs, name, rate, what)) for jobs in streams]
                    for name in WAYS
                    if name != "FIFO, as the trace asks"
                }
                for what, title in ((JCT, "Mean JCT"), (WAIT, "Mean responsiveness"))
                for rate in RATES
            },
            "Jobs of the stream",
        )
    )
    report.runs(
        ("stream", "policy", "jobs_per_hour", "seed", *next(iter(found.values()))),
        [(*key, *map(repr, one.values())) for key, one in found.items()],
    )
    report.close()


def _seeds(given: Options, share: int) -> tuple[int, ...]:
    """Those of a stream."""
    return given.seeds[: max(1, len(given.seeds) * share // max(SHARES))]


def _ratios(
    found: Runs, jobs: int, seeds: Sequence[int], name: str, rate: float, what: str
) -> list[float]:
    """Of a FIFO over Pollux, by seed."""
    keys = [(f"{rate:g}", str(seed)) for seed in seeds]
    return [
        found[f"{jobs}", name, *key][what] / found[f"{jobs}", POLLUX, *key][what] for key in keys
    ]


def _mean_ratio(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def _claims(found: Runs, streams: Mapping[int, Sequence[int]]) -> list[Claim]:
    def ratios(rate: float, what: str) -> list[float]:
        return [
            _mean_ratio(_ratios(found, jobs, seeds, TUNED, rate, what))
            for jobs, seeds in streams.items()
        ]

    def waits(name: str, jobs: int) -> float:
        return mean([found[f"{jobs}", name, f"{LOW:g}", str(s)][WAIT] for s in streams[jobs]])

    low = ratios(LOW, JCT)
    apart = max(abs(waits(TUNED, jobs) - waits(POLLUX, jobs)) for jobs in streams)
    names = ", ".join(f"{jobs:,}" for jobs in streams)
    return [
        Claim(
            f"under 15 jobs/h Pollux has the lower JCT ({TUNED}; streams of {names} jobs)",
            f"FIFO's is {', '.join(f'{one:.2f}' for one in low)} times that of Pollux at {LOW:g} jobs/h",
            min(low) > 1.0,
        ),
        Claim(
            "... and both are equally responsive",
            f"at most {60 * apart:.1f} min apart",
            apart <= PROMPT_HOURS,
        ),
        *(
            Claim(
                f"... and above 20 jobs/h similar in both: at {HIGH:g}, {jobs:,} jobs",
                f"FIFO's JCT is {jct:.2f}, its responsiveness {wait:.2f} times Pollux'",
                all(1 / SIMILAR <= ratio <= SIMILAR for ratio in (jct, wait)),
            )
            for jobs, jct, wait in zip(streams, ratios(HIGH, JCT), ratios(HIGH, WAIT), strict=True)
        ),
    ]


EXPLAINED = "TO BE WRITTEN"

if __name__ == "__main__":
    main()
