"""PCS, figure 3 on jobs that chose nothing: fronts found on half of a Philly trace, measured on the rest.

The search sees samples of the first half of a trace. Every point of its front, and the baselines, then serve
the real jobs of the third and of the fourth quarter, each from an empty cluster of 64 GPUs. The paper's
abstract promises 50 to 800 % less error for 1.1 to 3.5 times the JCT; held to: half of Tiresias' mean error
for at most 1.6 times its mean JCT, a tenth for at most 3.5 times.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from pcs_study import (
    BASELINES,
    Case,
    Claim,
    Measured,
    Options,
    Report,
    options,
    part,
    percent,
    philly,
    priced,
    run,
    search,
    searched,
    setting,
    times,
    trade_off,
    written,
)

from volvelle.report.charts import Axis, Drawing
from volvelle.tune.front import Front
from volvelle.workload.workload import Workload

TRACES = ("0e4a51", "ee9e8c", "2869ce", "103959")
SHOWN = ("0e4a51", "ee9e8c")
WINDOWS = {"third quarter": (0.5, 0.75), "fourth quarter": (0.75, 1.0)}
GPUS = 64
PRICES = (1.0, 1.4, 2.3)
"""Medians over the traces of figure 7: mean JCT of the paper's PCS-JCT, PCS-bal, PCS-pred over PCS-JCT's."""
PROMISES = {"half": (0.5, 1.6), "a tenth": (0.1, 3.5)}
"""A share of Tiresias' mean error, and the most it may cost in times of Tiresias' mean JCT."""

Runs = Mapping[tuple[str, ...], Measured]


def _window(trace: str, window: str, jobs: int) -> Workload:
    return Workload(part(philly(trace), *WINDOWS[window]).jobs[:jobs])


def main() -> None:
    given = options(
        __doc__,
        "the third and the fourth quarter of each trace, at most {jobs} jobs of each, on 64 GPUs; fronts "
        "from the first half, "
        "{candidates} configurations on four samples of {sample_jobs} jobs each",
        jobs=5000,
        candidates=320,
    )
    report = Report("held_back", "Fronts on held-back windows (PCS, section 3.2, figure 3)", given)
    fronts = {trace: search(philly(trace), given, GPUS, test=0.5) for trace in TRACES}
    found = _measure(fronts, given)
    report.say(
        "Least price: the lowest mean JCT, in times of Tiresias', for which the front holds a point with at "
        "most that share of Tiresias' mean error. FIFO makes no errors."
    )
    _table(report, fronts, found)
    report.claims(_claims(fronts, found))
    report.say(
        "Mean JCT over Tiresias', and mean error. The three of PCS are picked by what they cost on samples "
        "of the first half:"
    )
    _picks(report, fronts, found)
    report.say(EXPLAINED)
    for trace in SHOWN:
        report.picture(_picture(trace, fronts[trace], found), trace)
    report.runs(
        (
            "trace",
            "window",
            "policy",
            "mean_jct_seconds",
            "mean_error_percent",
            "p99_error_percent",
        ),
        [
            (*key, repr(one.mean_jct), repr(one.mean_error), repr(one.tail_error))
            for key, one in found.items()
        ],
    )
    report.close()


def _measure(fronts: Mapping[str, Front], given: Options) -> Runs:
    cases = [
        Case(
            (trace, window, policy),
            partial(_window, trace, window, given.jobs),
            setting(policy, GPUS),
        )
        for trace, front in fronts.items()
        for window in WINDOWS
        for policy in (*BASELINES.values(), *map(written, front.points))
    ]
    return run(cases, given.workers)


def _price(found: Runs, trace: str, window: str, policy: str) -> float:
    """Mean JCT over that of Tiresias."""
    tiresias = found[trace, window, BASELINES["Tiresias"]]
    return found[trace, window, policy].mean_jct / tiresias.mean_jct


def _least_price(found: Runs, trace: str, window: str, front: Front, share: float) -> float:
    """For ``share`` of Tiresias' mean error; infinite where no point has so small an error."""
    most = share * found[trace, window, BASELINES["Tiresias"]].mean_error
    points = [written(point) for point in front.points]
    good = [policy for policy in points if found[trace, window, policy].mean_error <= most]
    return min((_price(found, trace, window, policy) for policy in good), default=float("inf"))


def _table(report: Report, fronts: Mapping[str, Front], found: Runs) -> None:
    rows = []
    for trace, front in fronts.items():
        for window in WINDOWS:
            tiresias = found[trace, window, BASELINES["Tiresias"]]
            prices = [
                times(_least_price(found, trace, window, front, share))
                for share, _ in PROMISES.values()
            ]
            fifo = _price(found, trace, window, BASELINES["FIFO"])
            jobs = len(tiresias.jct)
            rows.append(
                (trace, window, f"{jobs:,}", percent(tiresias.mean_error), *prices, times(fifo))
            )
    heads = [f"least price, {name} of it" for name in PROMISES]
    report.table(("trace", "window", "jobs", "Tiresias' error", *heads, "FIFO's JCT"), rows)


def _claims(fronts: Mapping[str, Front], found: Runs) -> list[Claim]:
    """Of the windows in which Tiresias errs; where it does not, there is nothing to promise."""
    windows = [
        (trace, window)
        for trace in fronts
        for window in WINDOWS
        if found[trace, window, BASELINES["Tiresias"]].mean_error > 0.0
    ]
    claims = []
    for name, (share, most) in PROMISES.items() if windows else ():
        prices = [
            _least_price(found, trace, window, fronts[trace], share) for trace, window in windows
        ]
        held = sum(price <= most for price in prices)
        fifo = sum(_price(found, *window, BASELINES["FIFO"]) <= most for window in windows)
        claims.append(
            Claim(
                f"{name} of the error for at most {most:g} times the JCT",
                f"in {held} of {len(windows)} windows, for {times(min(prices))} to "
                f"{times(max(prices))} (FIFO alone in {fifo})",
                held == len(windows),
            )
        )
    return claims


def _picks(report: Report, fronts: Mapping[str, Front], found: Runs) -> None:
    rows = []
    for trace, front in fronts.items():
        for window in WINDOWS:
            policies = {name: BASELINES[name] for name in ("Tiresias", "AFS", "Themis")}
            policies |= priced(searched(front), PRICES)
            cells = [
                f"{times(_price(found, trace, window, policy))}, "
                f"{percent(found[trace, window, policy].mean_error)}"
                for policy in policies.values()
            ]
            rows.append((trace, window, *cells))
    report.table(("trace", "window", *policies), rows)


def _picture(trace: str, front: Front, found: Runs) -> Drawing:
    window = "fourth quarter"

    def place(policy: str) -> tuple[float, float]:
        one = found[trace, window, policy]
        return one.mean_jct / 3600.0, max(one.mean_error, 0.01)

    return trade_off(
        f"{trace}, {window}: error against JCT",
        Axis("mean JCT", unit="hours", log=True),
        Axis("mean error, 0.01 and less at the foot", unit="%", log=True),
        {"PCS, the front": np.array([place(written(point)) for point in front.points])},
        {name: place(policy) for name, policy in BASELINES.items()},
    )


EXPLAINED = (
    "In the third quarter of 103959 nobody waits: every policy is exact, and there is nothing to promise. "
    "On traces with a load below one FIFO costs little, so that predictable schedules are cheap; the "
    "promise means most on ee9e8c, where 2.5 times the capacity of the cluster is submitted and FIFO costs "
    "ten times Tiresias. There a tenth of the error costs well over twice the JCT, half of it nothing. AFS "
    "errs less than Tiresias there and is about as fast as the fastest point of the front."
)

if __name__ == "__main__":
    main()
