"""PCS, workload-3 (figure 8): Gavel's heavy tail on 64 GPUs, judged by the tail of the error.

Its artifact's generator, whose unit of service is the minute: about 3 jobs an hour (the paper says 4). More
work comes than 64 GPUs can do, so that what is measured depends on the number of jobs: 3,000 as in its
script. The search is for mean JCT and p99 of the error (section 3.2), on samples of as many other jobs. What
a point costs grows with the number of jobs too: the three configurations are picked by what the points of
the front cost on whole workloads of other jobs, not on the shorter samples. The figure's fair sharing (FS) is
left out: its predictions take longest, and no claim is about it. Themis, whose predictions take long too, is
run on the first seed alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from pcs_study import (
    BASELINES,
    CONFIGURATIONS,
    JCT,
    TAIL_ERROR,
    Case,
    Claim,
    Column,
    Measured,
    Options,
    Report,
    distributions,
    generate,
    options,
    percent,
    priced,
    run,
    search,
    setting,
    times,
    written,
)

from volvelle.systems.pcs.queues import create_queues, one_queue_variation
from volvelle.workload.workload import Workload

GPUS = 64
HISTORY_SEEDS = (1000, 1001, 1002, 1003)
PAPER = {
    "AFS": (1.058, 12.2, 328.8),
    "Tiresias": (1.05, 10.9, 343.2),
    "Themis": (1.395, 15.9, 103.7),
    "FIFO": (3.17, 0, 0),
    "PCS-JCT": (1.13, 6.3, 111.3),
    "PCS-bal": (2.233, None, 28.7),
    "PCS-pred": (2.668, None, 10.6),
}
"""Figure 8: mean JCT over the least, mean and p99 of the error (8a without the 5 its bars have too many)."""
SHIPPED = {
    "PCS-JCT, shipped": "pcs:thresholds=194040,weights=941/59",
    "PCS-bal, shipped": "pcs:thresholds=36420,weights=593/407",
    "PCS-pred, shipped": "pcs:thresholds=20640,weights=909/91",
}
"""The artifact's own configurations for this workload, thresholds in seconds."""
PRICES = (1.13, 2.233, 2.668)
"""The paper's own: mean JCT over the least, which here the fastest of a front has, as Tiresias."""


def workload(jobs: int, seed: int) -> Workload:
    """Gavel's continuous trace as PCS' artifact draws it, in minutes."""
    return generate(f"pcs-gavel:gpus={GPUS},jobs={jobs},unit_seconds=60", seed)


def main() -> None:
    given = options(
        __doc__,
        "{jobs} jobs on 64 GPUs, seeds {seeds}, means over them; the front from {candidates} configurations "
        "and {refine} beside them, on four samples of {sample_jobs} jobs each",
        jobs=3000,
        seeds=5,
        candidates=48,
        refine=64,
        sample_jobs=1500,
    )
    report = Report("workload3", "Workload-3 (PCS, section 5.3, figure 8)", given)
    policies = BASELINES | _picked(given) | SHIPPED
    found = run(
        [
            Case((name, str(seed)), partial(workload, given.jobs, seed), setting(policy, GPUS))
            for name, policy in policies.items()
            for seed in _seeds(name, given)
        ],
        given.workers,
    )
    runs = {name: [found[name, str(seed)] for seed in _seeds(name, given)] for name in policies}
    figures = {name: Figures.of(each) for name, each in runs.items()}
    best = min(one.jct for one in figures.values())
    report.table(
        (
            "policy",
            "mean JCT over the least, paper",
            "here",
            "mean error, paper",
            "here",
            "p99, paper",
            "here",
        ),
        [
            (
                name,
                _known(paper[0]),
                times(one.jct / best),
                _known(paper[1]),
                percent(one.error),
                _known(paper[2]),
                percent(one.tail),
            )
            for name, one in figures.items()
            for paper in (PAPER.get(name, (None, None, None)),)
        ],
    )
    report.claims(_claims(figures, best, runs))
    report.say(EXPLAINED)
    sizes = workload(given.jobs, HISTORY_SEEDS[0]).single_gpu_seconds
    report.say(
        "Of these sizes T makes two queues only with a threshold of "
        f"{_least_of_two_queues(sizes) / 60:,.0f} minutes or more; the shipped PCS-bal and PCS-pred have "
        "theirs at 607 and 344."
    )
    columns = {name: np.concatenate([one.error for one in runs[name]]) for name in PAPER}
    report.picture(distributions("Error of predictions, workload-3", "error", columns))
    report.runs(
        ("policy", "seed", "mean_jct_seconds", "mean_error_percent", "p99_error_percent"),
        [
            (*key, repr(one.mean_jct), repr(one.mean_error), repr(one.tail_error))
            for key, one in found.items()
        ],
    )
    report.close()


def _seeds(name: str, given: Options) -> tuple[int, ...]:
    """Those that a policy is run on."""
    return given.seeds[:1] if name == "Themis" else given.seeds


def _picked(given: Options) -> dict[str, str]:
    """The least p99 of the error for at most `PRICES` times the fastest, on the jobs of the past.

    Means over several workloads of the past: the p99 of one is that of some thirty jobs, and says little of
    the next.
    """
    front = search(workload(given.jobs, HISTORY_SEEDS[0]), given, GPUS, (JCT, TAIL_ERROR))
    policies = [*map(written, front.points)]
    cases = [
        Case((policy, str(seed)), partial(workload, given.jobs, seed), setting(policy, GPUS))
        for policy in policies
        for seed in HISTORY_SEEDS
    ]
    seen = run(cases, given.workers)
    figures = {
        policy: Figures.of([seen[policy, str(seed)] for seed in HISTORY_SEEDS])
        for policy in policies
    }
    return priced({policy: (one.jct, one.tail) for policy, one in figures.items()}, PRICES)


def _least_of_two_queues(sizes: Column) -> float:
    """The lowest threshold with which there are two queues, whatever T, seconds."""
    most = one_queue_variation(sizes)
    made = [
        create_queues(sizes, variation, 0.0).thresholds
        for variation in np.linspace(0.0, most, 400)[1:]
    ]
    return min((t[0] for t in made if len(t) == 1), default=np.inf)


class Figures(NamedTuple):
    """Means over seeds: mean JCT in seconds, mean and p99 of the error in percent."""

    jct: float
    error: float
    tail: float

    @classmethod
    def of(cls, runs: Sequence[Measured]) -> "Figures":
        """From a run for each seed."""
        each = [(one.mean_jct, one.mean_error, one.tail_error) for one in runs]
        return cls(*np.mean(each, axis=0).tolist())


def _known(figure: float | None) -> str:
    return "" if figure is None else f"{figure:g}"


def _claims(
    figures: Mapping[str, Figures], best: float, runs: Mapping[str, Sequence[Measured]]
) -> list[Claim]:
    fast = {name: figures[name] for name in ("AFS", "Tiresias", "PCS-JCT")}
    jct = figures["PCS-JCT"]
    others = min(figures[name].tail for name in ("AFS", "Tiresias"))
    claims = [
        Claim(
            "those that minimise JCT have a low mean error, PCS-JCT among them",
            ", ".join(f"{name} {percent(one.error)}" for name, one in fast.items()),
            max(one.error for one in fast.values()) <= 20.0,
        ),
        Claim(
            "at p99 AFS and Tiresias err 300 % and more",
            ", ".join(_ranged(name, figures, runs) for name in ("AFS", "Tiresias")),
            others >= 300.0,
        ),
        Claim(
            "PCS-JCT errs about a third of that at p99, within 1.1 times the least JCT",
            f"{_ranged('PCS-JCT', figures, runs)}, at {times(jct.jct / best)} times",
            jct.tail <= 0.4 * others and jct.jct / best <= 1.13,
        ),
    ]
    for whose, ending in (("", ""), ("... those that its artifact ships", ", shipped")):
        bal, pred = (figures[f"{name}{ending}"] for name in CONFIGURATIONS[1:])
        told = [_ranged(f"{name}{ending}", figures, runs) for name in CONFIGURATIONS[1:]]
        claims.append(
            Claim(
                whose or "PCS-bal and PCS-pred bring the p99 down to 29 and 11 %",
                f"{', '.join(told)}, at {times(bal.jct / best)} and {times(pred.jct / best)} times "
                "the least JCT",
                bal.tail <= 29.0 and pred.tail <= 11.0,
            )
        )
    return claims


def _ranged(
    name: str, figures: Mapping[str, Figures], runs: Mapping[str, Sequence[Measured]]
) -> str:
    """The p99 of a policy's error, and that of the seeds from least to most."""
    tails = [one.tail_error for one in runs[name]]
    return f"{name} {percent(figures[name].tail)} ({percent(min(tails))} to {percent(max(tails))})"


EXPLAINED = (
    "At 3 jobs an hour the baselines have the figure's mean JCT within some percent and its p99 "
    "likewise, so that the paper's 4 an hour do not fit its data. The p99 of 3,000 jobs is that of "
    "thirty, and the seeds differ by what is between the figure's and the means here. The "
    "configurations that the artifact ships are those of the figure's prices nearly; their p99 tells "
    "what five other draws of its own workload come to. Two of them are not of the form WFQ(T, W, "
    "zeta_min), which is what the second half of the search is for: it varies thresholds and weights on "
    "their own."
)

if __name__ == "__main__":
    main()
