"""Blox, section 4.2 (figures 8 and 9): at which FIFO, and in how long a stream, Pollux becomes like it.

    python experiments/blox/pollux_fifo.py TRACE...

Behind the `pollux_load` experiment, whose Pollux does not become like FIFO above 20 jobs an hour, with the
same jobs and cluster. What is changed is what FIFO gives a job: what the trace asks for, one GPU at the
trace's batch size, or one GPU at the batch size that Pollux' jobs would choose there; and how many jobs there
are: as many as the paper's trace has, all measured, or a stream of 500 to 4,000, of which a quarter is
measured, from half of them on. ``--jobs`` is the last that is measured of the longest.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from pollux_load import CLUSTER, POLICIES, PROMPT_HOURS, RESTART, SIMILAR, pool_of, seen, stream
from study import ROUND, Case, Claim, Options, Report, hours, lines, mean, measure, options, setting

from volvelle.core.policy import policies
from volvelle.model.cluster import parse_cluster
from volvelle.policies.orders import Fifo

RATES = (10.0, 20.0, 30.0, 40.0)
HIGH = (30.0, 40.0)
"""The rates above 20 jobs an hour."""
TRACE = 160
"""Jobs of a trace of Pollux."""
LEAST = 500
"""Jobs of the shortest stream of more."""


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
JCT, WAIT, WORK = "mean_jct_hours", "mean_responsiveness_hours", "gpu_hours_per_job"
Course = dict[str, dict[float, float]]
"""A quantity by policy and rate."""
Every = dict[tuple[str, str], Course]
"""The same by stream and quantity."""


def streams(given: Options) -> dict[str, Options]:
    """Options by jobs in all: as many as a trace of Pollux has, then the longest stream and its halves."""
    longer = [
        replace(given, jobs=given.jobs // part, before=2 / 3, coming=4 / 3) for part in (8, 4, 2, 1)
    ]
    longer = [one for one in longer if one.submitted >= LEAST or one.jobs == given.jobs]
    count = min(TRACE, longer[-1].submitted // 8)
    short = replace(given, jobs=count - 1, before=0.0, coming=1.0)
    return {f"{one.submitted:,}": one for one in (short, *longer)}


def main() -> None:
    given = options(__doc__, jobs=3000, seeds=5, traces="Pollux' workload files", keeps=True)
    pool, parts = pool_of(given), streams(given)
    short, *_, long = parts
    report = Report(
        "pollux_fifo", "Pollux and FIFO (Blox, section 4.2, figures 8 and 9)", parts[long]
    )
    cases = [
        Case(
            (length, name, f"{rate:g}", str(seed)),
            partial(stream, pool, part.submitted, seed, rate, narrow=way.narrow),
            setting(
                part,
                way.policy,
                placement="consolidated",
                cluster=parse_cluster(CLUSTER),
                overheads=RESTART,
            ),
        )
        for seed in given.seeds
        for length, part in parts.items()
        for rate in reversed(RATES)
        for name, way in WAYS.items()
    ]
    found = measure(cases, given, seen)

    def over_seeds(length: str, name: str, rate: float, what: str) -> list[float]:
        return [found[length, name, f"{rate:g}", str(seed)][what] for seed in given.seeds]

    def means(length: str, name: str, what: str) -> dict[float, float]:
        return {rate: mean(over_seeds(length, name, rate, what)) for rate in RATES}

    every = {
        (length, what): {name: means(length, name, what) for name in WAYS}
        for length in parts
        for what in (JCT, WAIT, WORK)
    }
    for what, title in ((JCT, "Mean JCT"), (WAIT, "Mean responsiveness")):
        report.say(f"{title} by jobs submitted an hour:")
        report.table(
            ("jobs in all", "measured", "policy", *(f"{rate:g}" for rate in RATES)),
            [
                (
                    length,
                    "{:,} to {:,}".format(*part.tracked),
                    name,
                    *(hours(over_seeds(length, name, rate, what), 2) for rate in RATES),
                )
                for length, part in parts.items()
                for name in WAYS
            ],
        )
    report.say(f"GPU-hours of a job until it is done, of {long} jobs:")
    report.table(
        ("policy", *(f"{rate:g}" for rate in RATES)),
        [(n, *(f"{one:.1f} h" for one in every[long, WORK][n].values())) for n in WAYS],
    )
    report.say("FIFO over Pollux, means over seeds:")
    report.table(
        (
            "FIFO",
            "jobs in all",
            *(f"{what} at {rate:g}" for what in ("JCT", "responsiveness") for rate in HIGH),
        ),
        [
            (name, length, *(f"{ratio:.2f}" for ratio in _ratios(every, length, name)))
            for name in WAYS
            if name != POLLUX
            for length in parts
        ],
    )
    report.claims(_claims(every, long))
    report.say(_explained(every, long))
    report.picture(
        lines(
            "Pollux and FIFO in the shortest and the longest stream",
            RATES,
            {
                f"{title}, {length} jobs": {
                    name: list(course.values()) for name, course in every[length, what].items()
                }
                for what, title in ((JCT, "Mean JCT"), (WAIT, "Mean responsiveness"))
                for length in (short, long)
            },
            "Jobs submitted an hour",
        )
    )
    report.runs(
        ("jobs", "policy", "jobs_per_hour", "seed", *next(iter(found.values()))),
        [(*key, *map(repr, one.values())) for key, one in found.items()],
    )
    report.close()


def _ratios(every: Every, length: str, name: str) -> list[float]:
    """A FIFO's JCT at the high rates over Pollux', then its responsiveness."""
    courses = [every[length, what] for what in (JCT, WAIT)]
    return [course[name][rate] / course[POLLUX][rate] for course in courses for rate in HIGH]


def _claims(every: Every, long: str) -> list[Claim]:
    jct, wait = every[long, JCT], every[long, WAIT]
    low, ratios = RATES[0], _ratios(every, long, TUNED)
    return [
        Claim(
            f"under 15 jobs/h Pollux has the lower JCT ({TUNED}; long stream)",
            f"{jct[POLLUX][low]:.2f} h, FIFO {jct[TUNED][low]:.2f} h at {low:g} jobs/h",
            jct[POLLUX][low] < jct[TUNED][low],
        ),
        Claim(
            "... and both are equally responsive",
            f"{wait[POLLUX][low]:.2f} h, FIFO {wait[TUNED][low]:.2f} h",
            abs(wait[POLLUX][low] - wait[TUNED][low]) <= PROMPT_HOURS,
        ),
        *(
            Claim(
                f"... and above 20 jobs/h similar in both: at {rate:g}",
                f"FIFO's JCT is {jct_ratio:.2f}, its responsiveness {wait_ratio:.2f} times Pollux'",
                all(1 / SIMILAR <= ratio <= SIMILAR for ratio in (jct_ratio, wait_ratio)),
            )
            for rate, jct_ratio, wait_ratio in zip(HIGH, ratios[:2], ratios[2:], strict=True)
        ),
    ]


def _explained(every: Every, long: str) -> str:
    """What the figures say."""
    gpus = parse_cluster(CLUSTER).gpus
    full = gpus / every[long, WORK]["FIFO, as the trace asks"][RATES[0]]
    ratios = _ratios(every, long, TUNED)
    return (
        "Two things bring the paper's picture out, and it takes both. The first is a FIFO that gives a "
        "job one GPU, at the batch size that is best there, which is what the paper says Pollux comes "
        f"down to at a high load. With what the trace asks for, {gpus} GPUs are full at {full:.0f} jobs "
        "an hour, so that FIFO waits for hours under 15 jobs an hour, which the paper's does not, and "
        "at no rate is Pollux like it; were the jobs shorter, that would only stretch the axis of "
        "rates. At the trace's batch size, chosen for many GPUs, one GPU takes more GPU-hours for a "
        "job. The second is a stream long enough for more jobs than GPUs: on one GPU each a few jobs "
        "take days, so that GPUs fill slowly, and in a stream as short as the trace nobody waits under "
        "Pollux or beside one GPU for each job. With every doubling of the stream FIFO's JCT comes nearer "
        f"to that of Pollux at {HIGH[0]:g} jobs an hour, and up to 2,000 jobs at {HIGH[1]:g}: in the "
        f"longest it is {ratios[0]:.2f} and {ratios[1]:.2f} times that. Pollux has no more than one GPU "
        "for a job left then. What the paper's FIFO gave a job and how long its stream was it does not "
        "say; that these two explain its figures is our reading. Streams of different lengths measure "
        "other jobs."
    )


if __name__ == "__main__":
    main()
