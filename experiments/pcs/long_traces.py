"""PCS, figure 7: which of its rows are the two longest Philly traces, and which their shipped configurations.

Mean JCTs alone, on 64 GPUs: a prediction for each of so many jobs takes hours.
"""

from dataclasses import replace

import numpy as np
from pcs_study import (
    CONFIGURATIONS,
    NAMES,
    Claim,
    Report,
    compared,
    options,
    philly,
    setting,
    times,
)

from volvelle.simulate.run import simulate
from volvelle.workload.workload import Workload

GPUS = 64
PAPER = {
    "6c71a0": ("fourth", (1.0, 1.073, 1.498, 31.521, 1.467, 2.021, 4.846)),
    "6214e9": ("third", (1.0, 1.102, 1.341, 92.017, 1.915, 2.701, 3.473)),
}
"""Rows of figure 7's data that FIFO's and Tiresias' ratios tell: mean JCT over AFS', by `NAMES`."""
DIGITS = 5e-4
"""Half of the last digit of the figure's data."""


def main() -> None:
    given = options(
        __doc__,
        "at most {jobs} jobs of each trace, on 64 GPUs; nothing is drawn at random",
        jobs=100_000,
    )
    for trace in PAPER:
        philly(trace)  # the program ends here where they are absent
    report = Report("long_traces", "The longest traces of workload-2 (PCS, figure 7)", given)
    claims, runs = [], []
    for trace, (which, figures) in PAPER.items():
        workload = Workload(philly(trace).jobs[: given.jobs])
        jct = {name: _mean_jct(workload, policy) for name, policy in compared(trace).items()}
        ratio = {name: one / jct["AFS"] for name, one in jct.items()}
        paper = dict(zip(NAMES, figures, strict=True))
        report.say(
            f"{trace} ({len(workload):,} jobs), mean JCT over AFS', and figure 7's {which} row:"
        )
        heads = ("", *(name for name in NAMES if name != "Themis"))
        report.table(
            heads,
            [
                (f"figure 7, {which} row", *(times(paper[name], 3) for name in heads[1:])),
                (
                    "here; shipped configurations",
                    *(
                        times(ratio.get(name, ratio.get(f"{name}, shipped", np.nan)), 3)
                        for name in heads[1:]
                    ),
                ),
            ],
        )
        claims += _claims(trace, which, paper, ratio)
        runs += [(trace, name, repr(one), repr(ratio[name])) for name, one in jct.items()]
    report.claims(claims)
    report.say(EXPLAINED)
    report.runs(("trace", "policy", "mean_jct_seconds", "jct_over_afs"), runs)
    report.close()


def _mean_jct(workload: Workload, policy: str) -> float:
    outcomes = simulate(workload, replace(setting(policy, GPUS), predict=False)).outcomes
    return float(np.nanmean(outcomes.jct))


def _claims(
    trace: str, which: str, paper: dict[str, float], ratio: dict[str, float]
) -> list[Claim]:
    same = [abs(ratio[name] - paper[name]) <= DIGITS for name in ("Tiresias", "FIFO")]
    met = [
        f"{name} is the figure's {label}"
        for name, one in ratio.items()
        if name.endswith("shipped")
        for label in CONFIGURATIONS
        if abs(one - paper[label]) <= DIGITS
    ]
    return [
        Claim(
            f"the {which} row is {trace}: Tiresias {paper['Tiresias']:g}, FIFO {paper['FIFO']:g} times AFS",
            f"{times(ratio['Tiresias'], 3)} and {times(ratio['FIFO'], 3)} times",
            all(same),
        ),
        Claim(
            f"{trace}: the figure's configurations are among those shipped, under any label",
            "; ".join(met) or "none of the three",
            bool(met),
        ),
    ]


EXPLAINED = (
    "The baselines tell the rows to the digit. Of the shipped configurations one is the figure's, under "
    "another label: what is shipped as PCS-JCT of 6214e9 is the figure's PCS-bal. So labels of shipped "
    "files and of bars do not go together, and the other bars' configurations are not shipped."
)

if __name__ == "__main__":
    main()
