"""The front of makespan, worst rho and mean completion time, of every scheduler that can run such jobs.

On the authors' traces and three seeds of the generator. All know the same of batch sizes to come (estimator
`regimes`), so that it is policies that differ. Policies decide in rounds of 120 s where they can.
"""

import numpy as np
from study import (
    CSV_HEADS,
    HEADS,
    SEEDS,
    Case,
    Claim,
    Measured,
    Report,
    drawn,
    front,
    lines,
    options,
    records,
    run,
    traces,
)

from volvelle.core.policy import policies
from volvelle.model.problems import Problem
from volvelle.report.charts import Axis, scatter
from volvelle.report.charts.palette import series_color
from volvelle.report.charts.scatter import Dots

POOLS = ("anticipatory-vc", "fcfs-pools", "ssf", "gssf", "mmfs")
"""Policies for pools, of which there is one here."""


def every_policy(case: Case) -> tuple[dict[str, Measured], dict[str, str]]:
    """What each does with the jobs; who cannot run them, and why."""
    runs: dict[str, Measured] = {}
    refused: dict[str, str] = {}
    for name, part in policies.all().items():
        if name in POOLS:
            continue
        in_rounds = "round" in part.model_fields
        steps = ",steps=true" if name == "gavel-throughput" else ""
        try:
            one = run(case, f"{name}:round=120{steps}" if in_rounds else name)
        except Problem as problem:
            refused[name] = str(problem).splitlines()[0]
            continue
        if np.isfinite(one.objectives).all():
            runs[name] = one
        else:
            refused[name] = "some jobs are never done"
    return runs, refused


def main() -> None:
    given = options(
        __doc__, "120 and 220 jobs of the authors' traces, 120 drawn on 32 GPUs, seeds 1 to 3"
    )
    report = Report("front", "Makespan, worst rho and mean completion time of every policy", given)
    table, rows, on = [], [], {}
    plotted, refused = {}, {}
    for case in [*traces(given), *(drawn(given, seed) for seed in SEEDS)]:
        runs, refused = every_policy(case)
        best = front({name: one.objectives for name, one in runs.items()})
        on[case.name] = best
        plotted = plotted or runs
        table += lines(case.name, {name: runs[name] for name in best})
        rows += records(case.name, runs)
    report.say("Who is on the front; all runs are in front.csv.")
    report.table(HEADS, table)
    counts = {
        name: sum(name in best for best in on.values()) for best in on.values() for name in best
    }
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    report.say(
        "Times on the front: "
        + ", ".join(f"{name} {counts[name]} of {len(on)}" for name in ranked)
        + "."
    )
    where = [name for name, best in on.items() if "shockwave" in best]
    report.claims(
        [
            Claim(
                "Shockwave is on the Pareto frontier of efficiency and fairness (section 6.1)",
                f"on the front of {len(where)} of {len(on)}: {', '.join(where) or 'none'}",
                len(where) == len(on),
            )
        ]
    )
    report.say(
        f"Left out are the policies for pools ({', '.join(POOLS)}): of one pool they are first come, "
        "first served or by size."
    )
    for name, why in refused.items():
        report.say(f"Left out: `{name}` ({why}).")
    best = on[next(iter(on))]
    dots = [
        Dots(
            kind,
            np.array([plotted[name].makespan for name in names]),
            np.array([plotted[name].jct for name in names]),
            series_color(index),
            words=[f"{name}, worst rho {plotted[name].worst:.2f}" for name in names],
            labels=[f"{name} {plotted[name].worst:.2f}" if index == 0 else "" for name in names],
        )
        for index, (kind, names) in enumerate(
            {
                "on the front": best,
                "others": [name for name in plotted if name not in best],
            }.items()
        )
    ]
    report.picture(
        scatter(
            "120 jobs, 32 GPUs; numbers are worst rhos",
            dots,
            Axis("Makespan", "duration"),
            Axis("Mean completion time", "duration"),
        )
    )
    report.runs(CSV_HEADS, rows)
    report.close()


if __name__ == "__main__":
    main()
