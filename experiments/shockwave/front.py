"""The front of makespan, worst rho and mean completion time, of every scheduler that can run such jobs.

On the authors' traces and three seeds of the generator. All know the same of batch sizes to come (estimator
`regimes`), so that it is policies that differ. Policies decide in rounds of 120 s where they can. The page is
written after each set of jobs.
"""

from collections.abc import Mapping

import numpy as np
from shockwave_study import (
    CSV_HEADS,
    HEADS,
    SEEDS,
    Case,
    Claim,
    Measured,
    Options,
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
from volvelle.report.charts import Axis, Dots, scatter
from volvelle.report.charts.palette import series_color

OF_POOLS = ("anticipatory-vc", "fcfs-pools", "ssf", "gssf", "mmfs", "yarn-cs")
"""Policies for pools, of which there is one here."""
REPRODUCTIONS = ("gittins-simulator", "tiresias-simulator", "tiresias-afs", "tiresias-pollux")
"""Others' simulators of policies that are there."""
OF_TYPES = ("gavel-cost", "gavel-fifo", "gavel-hierarchical", "pcs-gavel")
"""Policies that are another one where there is one GPU type and one pool."""
LEFT_OUT = (*OF_POOLS, *REPRODUCTIONS, *OF_TYPES)

Runs = dict[str, Measured]


def every_policy(case: Case) -> tuple[Runs, dict[str, str]]:
    """What each does with the jobs; who cannot run them, and why."""
    runs: Runs = {}
    refused: dict[str, str] = {}
    for name, part in policies.all().items():
        if name in LEFT_OUT:
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
    given = options(__doc__, "one run of each policy on each set of jobs; 32 GPUs for 120 jobs")
    found: dict[str, Runs] = {}
    refused: dict[str, str] = {}
    for case in [*traces(given), *(drawn(given, seed) for seed in SEEDS)]:
        found[case.name], refused = every_policy(case)
        write(given, found, refused)


def write(given: Options, found: Mapping[str, Runs], refused: Mapping[str, str]) -> None:
    """The page."""
    report = Report("front", "Makespan, worst rho and mean completion time of every policy", given)
    on = {
        case: front({name: one.objectives for name, one in runs.items()})
        for case, runs in found.items()
    }
    report.say("Who is on the front of the three; all runs are in front.csv.")
    report.table(
        HEADS,
        [
            line
            for case, best in on.items()
            for line in lines(case, {name: found[case][name] for name in best})
        ],
    )
    counts = {
        name: sum(name in best for best in on.values()) for best in on.values() for name in best
    }
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    report.say(
        f"Times on the front of {len(on)}: "
        + ", ".join(f"{name} {counts[name]}" for name in ranked)
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
        f"Left out are policies for pools ({', '.join(OF_POOLS)}), reproductions of simulators "
        f"({', '.join(REPRODUCTIONS)}) and policies that are another one on one GPU type "
        f"({', '.join(OF_TYPES)})."
    )
    for name, why in refused.items():
        report.say(f"Cannot run: `{name}` ({why}).")
    case, runs = next(iter(found.items()))
    kinds = {
        "on the front": on[case],
        "others": [name for name in runs if name not in on[case]],
    }
    report.picture(
        scatter(
            f"{case}; numbers are worst rhos",
            [
                Dots(
                    kind,
                    np.array([runs[name].makespan for name in names]),
                    np.array([runs[name].jct for name in names]),
                    series_color(index),
                    words=[f"{name}, worst rho {runs[name].worst:.2f}" for name in names],
                    labels=[
                        f"{name} {runs[name].worst:.2f}" if kind == "on the front" else ""
                        for name in names
                    ],
                )
                for index, (kind, names) in enumerate(kinds.items())
            ],
            Axis("Makespan", "duration"),
            Axis("Mean completion time", "duration"),
        )
    )
    report.runs(CSV_HEADS, [row for name, runs in found.items() for row in records(name, runs)])
    report.close()


if __name__ == "__main__":
    main()
