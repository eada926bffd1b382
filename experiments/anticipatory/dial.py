"""Harm as a dial on Philly's pools: what is promised, what was kept, and what it costs. Beyond the paper.

``python experiments/anticipatory/dial.py`` writes ``results/dial.md``, with ``--trace openb``
``dial-openb.md``; options as in ``sharing.py``. The draws of Philly on which promises broke once come first.
"""

from itertools import pairwise

import numpy as np
from lenders import Case, Given, Learned, measure, run
from philly import Claim, Jobs, Report, draw

from volvelle.report.charts import Axis, Dots, scatter
from volvelle.report.charts.palette import series_color

RATES = (0.001, 0.01, 0.1)
LIMIT = 2.0
"""Of every job, as a multiple of its run time."""
UNBOUNDED = 0.001
"""The rate that is tried without time limits as well."""
HARD = (2045, 2042, 2044, 2038, 2036, 2095, 2077)
"""Draws on which promises broke, or most jobs were late, when borrowers went by what is believed of them."""


def study(jobs: Jobs, given: Given, learned: Learned) -> None:
    own = given.trace == "philly"
    first = HARD if own else ()
    seeds = [*first, *(seed for seed in given.seeds if seed not in first)][: given.draws]
    name = "dial" if own else f"dial-{given.trace}"
    report = Report(name, f"Harm as a dial, on {given.trace}", given)
    draws = (draw(jobs, seed, 4, given.days, given.warm_up) for seed in seeds)
    ours = f"anticipatory:{learned.model}"
    cases = {
        **{
            f"harm={rate:g}": Case(f"{ours},harm={rate:g}", learned.bins, limit=LIMIT)
            for rate in RATES
        },
        f"harm={UNBOUNDED:g}, no limits": Case(f"{ours},harm={UNBOUNDED:g}", learned.bins),
        "anticipatory": Case(ours),
        "anticipatory, bins": Case(ours, learned.bins),
        "mmfs": Case("mmfs"),
    }
    found = measure(draws, cases, learned, kept=given.keep)
    report.say(
        "The share of a pool's jobs that may be late, what was late in all and of the pool that was "
        "worst, and in how many pools more jobs were late than promised when the run ended, and by how "
        f"many. Jobs have time limits of {LIMIT:g} times their run times, by which borrowers go, but in the "
        "rows without limits; what is believed of run times is the bin of jobs alike. What one set of loans "
        "makes late is beyond the promise: where a queue does not empty, one delay is carried on to all that "
        "follow. Predictors were trained on earlier days."
    )
    if own:
        report.say(
            f"The draws on which promises broke, or most jobs were late, while borrowers went by bins come "
            f"first: {', '.join(map(str, HARD))}. There 0.01 made 601 of 990 jobs of a pool late (2045), "
            "0.001 1,558 of 4,220 (2036)."
        )
    else:
        report.say("Nothing of the policy was chosen on this trace.")
    rows = [("no sharing", "1.00", "0.00%", "0.00%", "-", "-")]
    for name, one in found.items():
        over = one.promised
        rows.append(
            (
                name,
                f"{one.speed_up:.2f}",
                f"{one.slowed:.2%}",
                f"{max(one.late):.2%}",
                f"{sum(more > 0.0 for more in over)} of {len(over)}" if over else "-",
                f"{max(*over, 0.0):.0f}" if over else "-",
            )
        )
    heads = ("scheduler", "speed-up", "late", "worst pool", "pools above", "jobs too many, at most")
    report.table(heads, rows)
    report.runs(heads, rows)
    names = ["no sharing", *found]
    points = np.array([(1.0, 0.0), *((one.speed_up, one.slowed) for one in found.values())])
    report.picture(
        scatter(
            "Late jobs against speed-up",
            [Dots("harm", points[:, 0], points[:, 1], series_color(0), labels=names)],
            Axis("speed-up (geometric mean)"),
            Axis("late jobs", "share"),
        )
    )
    above = sum(more > 0.0 for one in found.values() for more in one.promised)
    every = sum(len(one.promised) for one in found.values())
    gains = [found[f"harm={rate:g}"].speed_up for rate in RATES]
    report.claims(
        [
            Claim(
                "(ours) No pool has more late jobs than promised",
                f"{above} of {every} pools and rates do",
                above == 0,
            ),
            Claim(
                "(ours) A higher rate buys speed-up",
                ", ".join(f"{gain:.2f}" for gain in gains),
                all(a <= b for a, b in pairwise(gains)),
            ),
        ]
    )
    report.close()


if __name__ == "__main__":
    run(__doc__, study, draws=6)
