"""P90 when a cluster is busy: for how many jobs it holds in each tenth of load, on Philly traces.

Users are told a P90 at submission. This is no claim of PCS: nine of ten are to keep it not only in a whole
run but also in its bursts, where it matters. Jobs are put into tenths by how many are in the system when they
come, and by how many came in the three hours before; the last tenth of these is the end of a burst.
Beliefs about durations are off by 30 %: with true ones more than 95 % of the jobs of many a tenth end just as
predicted, which every P90 covers.

With 20 futures for each job, as simulations have it, and from the forecast alone, as live clusters have it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pcs_study import Claim, Column, Report, options, percent, philly, setting

from volvelle.metrics import per_job
from volvelle.metrics.outcomes import Outcomes
from volvelle.simulate.run import simulate
from volvelle.workload.workload import Workload

POLICIES = {"Tiresias": "srsf", "PCS": "pcs:thresholds=1627/969473,weights=95/4.8/0.2"}
BELIEFS = "noisy:error=0.3"
FUTURES = {"20 futures": 20, "forecast alone": 0}
TENTHS = 10
LOW, HIGH = 85.0, 95.0
RECENT_SECONDS = 3 * 3600.0


@dataclass(frozen=True)
class Window:
    """Jobs of a trace from ``first`` on, and the GPUs that serve them. chosen: defaults were, on it."""

    trace: str
    first: int
    gpus: int
    chosen: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.trace} from {self.first:,}, {self.gpus} GPUs"


WINDOWS = (
    Window("0e4a51", 600, 64, chosen=True),
    Window("6214e9", 0, 160),
    Window("6214e9", 6_000, 160),
    Window("103959", 0, 16),
)
"""GPUs are as many as the jobs' work asks for, or a few more."""
FEWEST = 100
"""Of fewer jobs tenths say little: a run of so few shows that it works, on the last window alone."""


@dataclass(frozen=True)
class Seen:
    """What came of a run: by tenth of each load the percentage of jobs that kept their P90.

    every: of all jobs. width: median of P90 over the time predicted.
    """

    in_system: Column
    arrivals: Column
    every: float
    width: float

    @property
    def within(self) -> int:
        """How many of the tenths by jobs in the system are as they should be."""
        return int(np.sum((self.in_system >= LOW) & (self.in_system <= HIGH)))

    @property
    def busiest(self) -> float:
        """Of those that come when most do."""
        return float(self.arrivals[-1])


Runs = dict[tuple[Window, str, str], Seen]


def main() -> None:
    given = options(
        __doc__,
        "{jobs} jobs of each window, beliefs off by 30 %, one draw of beliefs and futures",
        jobs=1_000,
    )
    windows = WINDOWS if given.jobs >= FEWEST else WINDOWS[-1:]
    jobs = {trace: philly(trace).jobs for trace in dict.fromkeys(one.trace for one in windows)}
    workloads = {
        window: Workload(jobs[window.trace][window.first : window.first + given.jobs])
        for window in windows
    }
    report = Report("p90_bursts", "P90 in bursts", given)
    found: Runs = {
        (window, name, futures): seen(_outcomes(workload, window.gpus, policy, play_outs))
        for window, workload in workloads.items()
        for name, policy in POLICIES.items()
        for futures, play_outs in FUTURES.items()
    }
    for title, of in TABLES.items():
        report.say(
            f"Percentage of jobs that keep their P90, by tenth of {title}, from few to many:"
        )
        report.table(
            ("workload", "policy", "from", *map(str, range(1, TENTHS + 1))),
            [
                (_marked(window), name, futures, *map(_whole, of(one)))
                for (window, name, futures), one in found.items()
            ],
        )
    report.say("All jobs, and how wide P90 is: the median of P90 over the time predicted.")
    report.table(
        (
            "workload",
            "policy",
            "from",
            "all",
            "after most arrivals",
            "tenths within 85 to 95 %",
            "width",
        ),
        [
            (
                _marked(window),
                name,
                futures,
                _known(one.every),
                _known(one.busiest),
                f"{one.within} of {TENTHS}",
                _known(one.width, "{:.2f}"),
            )
            for (window, name, futures), one in found.items()
        ],
    )
    report.claims([claim for futures in FUTURES for claim in _claims(found, futures)])
    report.say(EXPLAINED)
    report.runs(
        ("workload", "chosen_on", "policy", "from", "load", "tenth", "coverage_percent"),
        [
            (window.name, window.chosen, name, futures, title, tenth + 1, repr(float(share)))
            for (window, name, futures), one in found.items()
            for title, of in TABLES.items()
            for tenth, share in enumerate(of(one))
            if not np.isnan(share)
        ],
    )
    report.close()


TABLES: dict[str, Callable[[Seen], Column]] = {
    "jobs in the system": lambda one: one.in_system,
    "arrivals in the three hours before": lambda one: one.arrivals,
}


def _known(value: float, written: str = "") -> str:
    """A percentage, or as ``written``; "-" where nobody was told a P90."""
    if np.isnan(value):
        return "-"
    return written.format(value) if written else percent(value)


def _whole(value: float) -> str:
    return _known(value, "{:.0f}")


def _marked(window: Window) -> str:
    return f"{window.name} (chosen on)" if window.chosen else window.name


def _outcomes(workload: Workload, gpus: int, policy: str, play_outs: int) -> Outcomes:
    given = replace(setting(policy, gpus, BELIEFS), predict=True, play_outs=play_outs)
    return simulate(workload, given).outcomes


def seen(outcomes: Outcomes) -> Seen:
    """What came of a run in which P90 was told."""
    held = per_job.within_p90(outcomes)
    told = ~np.isnan(held)
    p90, predicted = outcomes.predicted_p90, outcomes.predicted_finish
    assert p90 is not None
    assert predicted is not None
    submit = outcomes.submit_time
    come = np.arange(1.0, len(submit) + 1.0)
    in_system = come - np.searchsorted(np.sort(outcomes.finish), submit, side="right")
    arrivals = come - np.searchsorted(submit, submit - RECENT_SECONDS)
    tenths = partial(_by_tenth, held[told])
    if not told.any():
        nobody = np.full(TENTHS, np.nan)
        return Seen(nobody, nobody, np.nan, np.nan)
    return Seen(
        tenths(in_system[told]),
        tenths(arrivals[told]),
        float(held[told].mean()),
        float(np.median((p90 - submit)[told] / (predicted - submit)[told])),
    )


def _by_tenth(held: Column, load: NDArray[np.floating]) -> Column:
    order = np.argsort(load, kind="stable")
    return np.array([held[tenth].mean() for tenth in np.array_split(order, TENTHS)])


def _claims(found: Runs, futures: str) -> list[Claim]:
    judged = {
        (window, name): one
        for (window, name, which), one in found.items()
        if which == futures and not window.chosen
    }
    least = min(one.busiest for one in judged.values())
    most = max(one.busiest for one in judged.values())
    claims = [
        Claim(
            f"our goal, {futures}: P90 holds for {LOW:.0f} to {HIGH:.0f} % in each tenth of jobs in the "
            f"system under {name}",
            ", ".join(f"{one.within} of {TENTHS}" for (_, of), one in judged.items() if of == name),
            all(one.within == TENTHS for (_, of), one in judged.items() if of == name),
        )
        for name in POLICIES
    ]
    return [
        *claims,
        Claim(
            f"our goal, {futures}: ... and in the tenth of jobs before which most came",
            f"{_known(least)} to {_known(most)}",
            least >= LOW and most <= HIGH,
        ),
    ]


EXPLAINED = (
    "Defaults were chosen on 0e4a51, and on jobs of 6c71a0 and ee9e8c, which are not here; nothing was "
    "on the other windows, though variants of decision 15 were compared on 103959. A tenth is 98 jobs: "
    "were the chance of each to keep its P90 just 90 %, one tenth in eleven would be outside 85 to 95 %"
    " by chance. Of the 60 tenths by jobs in the system of what was not chosen on, 42 are within with "
    "futures, 14 above and 4 below; from the forecast alone 43, 6 and 11. **Where it fails:** at the "
    "beginning of a burst. The tenth before which most came is a burst's end, when it can be seen; on "
    "these windows 85 % or more keep their P90 there. In 6214e9 from 6,000 some 450 jobs come within "
    "half an hour, and the first of them are in the middle tenths: under Tiresias, which lets later "
    "jobs overtake, 66 to 80 % of these keep it with futures, which have the burst go on, and from the "
    "forecast alone, which knows of no later job, 7 % at least. So what a live cluster tells does not "
    "hold there ([by the code of live clusters](p90_live.md)). In the chosen window P90 holds under PCS"
    " for 47 % of the burst: it has 400 jobs before it, in which hits lower the share that is aimed at "
    "to 81 %, and all of the burst are told a time before the first miss. On the first jobs of 6214e9 "
    "hardly anybody waits, so both policies give the same. [Decision "
    "41](../../../docs/decisions/0041-p90-of-jobs-of-all-lengths.md) has what was tried."
)

if __name__ == "__main__":
    main()
