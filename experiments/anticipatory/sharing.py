"""Who gains and who is harmed on Philly's pools: sections 6.2, 6.3 and 6.5 of the paper.

``python experiments/anticipatory/sharing.py`` writes ``results/sharing.md`` beside it. The paper has 100
draws of four pools and weeks of jobs; ``--draws`` and ``--days`` say how many here.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from lenders import Case, Found, Given, Learned, measure, run
from philly import Claim, Jobs, Report, draw

from volvelle.report.charts import Axis, Dots, Drawing, scatter
from volvelle.report.charts.palette import series_color

SCALES = (0.9, 0.95, 1.0, 1.1)
DRAWS_OF_SIZES = 10
"""The first draws, which other sizes of pools are measured on."""
POOLS = (2, 4, 6)
DRAWS_OF_POOLS = 8
"""The first draws, which other numbers of pools are measured on."""
BOXES = (6.25, 12.5, 25.0, 50.0, 75.0, 87.5, 93.75)
"""Percentiles at which a stack of boxes of figure 14 changes its width."""
FINE = "anticipatory-vc (perfect fine)"
BASELINES = ("mmfs", "hived-nonpreemptive")
OTHERS = ("ssf", "hived-nonpreemptive", "themis, not preemptive")
"""The alternatives of figure 13 beside max-min."""


def main() -> None:
    run(__doc__, study)


def study(jobs: Jobs, given: Given, learned: Learned) -> None:
    report = Report("sharing", "Idle GPUs of Philly's pools, shared", given)
    draws = (draw(jobs, seed, 4, given.days, given.warm_up) for seed in given.seeds)
    ours = f"anticipatory:{learned.model}"
    cases = {
        "ssf": Case("ssf"),
        "gssf": Case("gssf"),
        "mmfs": Case("mmfs"),
        "hived-nonpreemptive": Case("hived-nonpreemptive"),
        "themis, not preemptive": Case("themis:preemptive=false"),
        "easy": Case("easy"),
        "anticipatory": Case(ours),
        "anticipatory, limits": Case(f"{ours},bounded=true", learned.bins, limit=2.0),
        "anticipatory, bins": Case(ours, learned.bins),
        "anticipatory, bins, cautious": Case(f"{ours},threshold=0.1", learned.bins),
        "anticipatory, bins without a past": Case(ours, "bins"),
        "anticipatory, base rates": Case("anticipatory"),
        "random arrivals": Case("anticipatory-random"),
        "random arrivals and durations": Case("anticipatory-random", "random-bins"),
        "perfect coarse": Case("anticipatory-perfect"),
        FINE: Case("anticipatory-vc"),
    }
    found = measure(draws, cases, learned, kept=given.keep)
    report.say("## All schedulers, against every pool alone")
    report.say(
        "Durations are exact where it does not say bins: the paper does so too for Helios, whose trace has "
        "nothing to predict them by. Philly's has neither users nor tags. Bins go by pool and width: half "
        "of the jobs alike in the 45 days of training ended in the bin that is believed. Cautious: work "
        "counts as predicted from a chance of 0.1 on, not 0.5. Limits: jobs have time limits of twice their "
        "run times, and borrowers go by these (`bounded=true`), not by bins."
    )
    rows = [row_of(name, one) for name, one in found.items()]
    report.table(HEADS, rows)
    report.picture(picture(found))
    report.say(worst_and_total(found))
    few = ("mmfs", "hived-nonpreemptive", "anticipatory", FINE)
    by_pools = with_more_pools(jobs, given, learned, {name: cases[name] for name in few}, found)
    fewer = (
        draw(jobs, seed, len(jobs.names), given.days, given.warm_up, without=2)
        for seed in given.seeds[:DRAWS_OF_POOLS]
    )
    kept = given.keep and f"{given.keep}/without"
    by_pools["6 less 2"] = measure(fewer, {name: cases[name] for name in few}, learned, kept=kept)
    report.say(
        "## Figure 14 and table 17: more pools, and fewer idle GPUs (Philly instead of Helios)"
    )
    report.say(
        f"On the first {min(given.draws, DRAWS_OF_POOLS)} draws. All six pools share, as in table 17 all "
        "of Helios'; in the last rows the two that have the most idle GPUs are left out. Loads are drawn "
        "as everywhere here, which those of Helios are not."
    )
    say_of_pools(report, by_pools)
    report.say("## Figure 18: pools of other sizes (Philly instead of Helios)")
    report.say(f"On the first {min(given.draws, DRAWS_OF_SIZES)} draws.")
    sized, lines = {}, []
    three = {name: cases[name] for name in ("mmfs", "anticipatory", FINE)}
    for scale in SCALES:
        here = (
            draw(jobs, seed, 4, given.days, given.warm_up, scale)
            for seed in given.seeds[:DRAWS_OF_SIZES]
        )
        sized[scale] = measure(here, three, learned, kept=given.keep and f"{given.keep}/{scale:g}")
        for name, one in sized[scale].items():
            lines.append((f"{scale:g}", *row_of(name, one)))
    report.table(("size", *HEADS), lines)
    rows += runs_of_pools(by_pools)
    report.runs(("size", *HEADS), [("1", *row) for row in rows] + lines)
    report.claims(_claims(found, sized) + _claims_of_pools(by_pools))
    report.close()


def with_more_pools(
    jobs: Jobs,
    given: Given,
    learned: Learned,
    cases: Mapping[str, Case],
    found: Mapping[str, Found],
) -> dict[str, Mapping[str, Found]]:
    """The cases where so many pools share, on the first draws; those of four are ``found``."""
    made: dict[str, Mapping[str, Found]] = {}
    seeds = given.seeds[:DRAWS_OF_POOLS]
    for pools in POOLS:
        if pools == 4:
            made["4"] = {name: Found(found[name].runs[: len(seeds)]) for name in cases}
            continue
        draws = (draw(jobs, seed, pools, given.days, given.warm_up) for seed in seeds)
        kept = given.keep and f"{given.keep}/{pools}-pools"
        made[str(pools)] = measure(draws, cases, learned, kept=kept)
    return made


def say_of_pools(report: Report, by_pools: Mapping[str, Mapping[str, Found]]) -> None:
    """A table by pools that share, and the boxes of figure 14 as dots at their edges."""
    heads = ("pools", HEADS[0], HEADS[1], "p5", "p25", "p50", "p75", "p95", *HEADS[3:])
    rows = []
    for pools, found in by_pools.items():
        for name, one in found.items():
            shown = [f"{value:.2f}" for value in one.percentiles(5.0, 25.0, 50.0, 75.0, 95.0)]
            row = row_of(name, one)
            rows.append((pools, *row[:2], *shown, *row[3:]))
    report.table(heads, rows)
    dots = []
    for at, name in enumerate(by_pools[str(POOLS[0])]):
        places = np.array([pools + 0.2 * (at - 1.5) for pools in POOLS])
        edges = np.concatenate([by_pools[str(pools)][name].percentiles(*BOXES) for pools in POOLS])
        dots.append(Dots(name, np.repeat(places, len(BOXES)), edges, series_color(at)))
    percentiles = ", ".join(f"{at:g}" for at in BOXES)
    drawing = scatter(
        "Speed-ups by pools that share",
        dots,
        Axis("pools"),
        Axis("speed-up", log=True),
        subtitle=f"percentiles {percentiles} of all jobs, upwards",
    )
    report.picture(drawing, "pools")


def runs_of_pools(
    by_pools: Mapping[str, Mapping[str, Found]],
) -> list[tuple[str, str, str, str, str, str]]:
    """Rows for the CSV, without those of four pools."""
    return [
        row_of(f"{pools} pools: {name}", one)
        for pools, found in by_pools.items()
        for name, one in found.items()
        if pools != "4"
    ]


HEADS = ("scheduler", "speed-up", "p95", "jobs slowed", "harm, total, h", "harm, worst, h")


def worst_and_total(found: Mapping[str, Found]) -> str:
    """Why the worst delay falls by less than all delays together."""
    fair, said = found["mmfs"].delays, []
    for name in ("anticipatory", "anticipatory, bins"):
        ours = found[name].delays
        if not ours.any() or not fair.any():
            continue
        fewer = (fair > 0.0).sum() / (ours > 0.0).sum()
        shorter = fair[fair > 0.0].mean() / ours[ours > 0.0].mean()
        one = max(float(np.nansum(each.delay)) for each in found[name].runs) / ours.sum()
        said.append(
            f"{name}: {fewer:.0f} times fewer jobs, each {shorter:.1f} times less in the mean, and one draw "
            f"has {one:.0%} of the harm"
        )
    return (
        "All delays together are how many jobs are late times how late they are, and predictions mostly "
        f"make late jobs few (against max-min's; {'; '.join(said)}). The worst delay is that of one job, "
        "and being rare does not shorten it: one loan to a job that outlives what was expected is enough. "
        "With exact durations a lender waits for what comes in more than was expected, with learned ones "
        "also for borrowers that take longer than their bin says."
    )


def picture(found: Mapping[str, Found]) -> Drawing:
    """Speed-up against harm, one dot a scheduler."""
    dots = [
        Dots(
            name,
            np.array([one.speed_up]),
            np.array([max(one.total, 0.01)]),
            series_color(min(at, 7)),
            labels=[name],
        )
        for at, (name, one) in enumerate(found.items())
    ]
    harm = Axis("harm, hours (0 stands at 0.01)", log=True)
    return scatter("Speed-up against harm", dots, Axis("speed-up (geometric mean)"), harm)


def row_of(name: str, one: Found) -> tuple[str, str, str, str, str, str]:
    return (
        name,
        f"{one.speed_up:.2f}",
        f"{one.tail:.1f}",
        f"{one.slowed:.2%}",
        f"{one.total:.1f}",
        f"{one.worst:.2f}",
    )


def less(ours: Found, other: Found) -> Claim:
    """Section 6.2's claim on harm."""
    total = other.total / ours.total if ours.total else math.inf
    worst = other.worst / ours.worst if ours.worst else math.inf
    return Claim(
        "Total and worst harm 100 to 1,000 times below max-min's (6.2)",
        f"total {ours.total:.1f} h against {other.total:.1f} h ({total:.0f} times less), "
        f"worst {ours.worst:.2f} h against {other.worst:.2f} h ({worst:.0f} times less)",
        total >= 100.0 and worst >= 100.0,
    )


EQUIVALENT = 0.9
"""Times another's speed-up (the paper's table 17 has 3.71 beside max-min's 3.94)."""


def as_good(ours: Found, other: Found) -> Claim:
    """Section 6.2's claim on speed-ups: "equivalent or better speed-up"."""
    return Claim(
        f"Speed-ups equivalent to max-min's or better (6.2; here: {EQUIVALENT:g} times)",
        f"{ours.speed_up:.2f} against {other.speed_up:.2f}",
        ours.speed_up >= EQUIVALENT * other.speed_up,
    )


def _claims(found: Mapping[str, Found], sized: Mapping[float, Mapping[str, Found]]) -> list[Claim]:
    ours, fair = found["anticipatory"], found["mmfs"]
    tossed, both = found["random arrivals"], found["random arrivals and durations"]
    perfect, fine = found["perfect coarse"], found[FINE]
    small = sized[SCALES[0]]
    of_bins = [
        replace(claim, paper=f"{claim.paper}, {name.removeprefix('anticipatory, ')}")
        for name in ("anticipatory, bins", "anticipatory, bins, cautious")
        for claim in (as_good(found[name], fair), less(found[name], fair))
    ]
    others = {name: found[name] for name in OTHERS}
    return [
        as_good(ours, fair),
        Claim(
            f"... and to those of SSF, HiveD* and Themis* (6.2; here: {EQUIVALENT:g} times)",
            f"{ours.speed_up:.2f} against "
            + ", ".join(f"{one.speed_up:.2f}" for one in others.values()),
            all(ours.speed_up >= EQUIVALENT * one.speed_up for one in others.values()),
        ),
        less(ours, fair),
        *of_bins,
        Claim(
            "Predictions are needed: with random arrivals harm is larger (6.3)",
            f"{tossed.total:.1f} h against {ours.total:.1f} h",
            tossed.total > ours.total,
        ),
        Claim(
            "With random arrivals and durations harm is as max-min's (6.3)",
            f"{both.total:.1f} h against {fair.total:.1f} h",
            0.5 <= both.total / max(fair.total, 1e-9) <= 2.0,
        ),
        Claim(
            "With perfect coarse predictions nobody is harmed (6.3)",
            f"{perfect.slowed:.2%} of the jobs, {perfect.total:.1f} h",
            perfect.total == 0.0,
        ),
        Claim(
            "With perfect fine ones nobody is harmed, and speed-ups are slightly larger (6.3)",
            f"{fine.total:.1f} h, {fine.speed_up:.2f} against {ours.speed_up:.2f}",
            fine.total == 0.0 and fine.speed_up >= ours.speed_up,
        ),
        Claim(
            "With smaller pools more is gained, without harm (6.5, figure 18)",
            f"at {SCALES[0]:g}: {small['anticipatory'].speed_up:.2f}, at {SCALES[-1]:g}: "
            f"{sized[SCALES[-1]]['anticipatory'].speed_up:.2f}; {small['anticipatory'].total:.1f} h of harm",
            small["anticipatory"].speed_up > sized[SCALES[-1]]["anticipatory"].speed_up
            and small["anticipatory"].total == 0.0,
        ),
    ]


def _claims_of_pools(by_pools: Mapping[str, Mapping[str, Found]]) -> list[Claim]:
    ours = {pools: found["anticipatory"] for pools, found in by_pools.items()}
    fair = {pools: found["mmfs"] for pools, found in by_pools.items()}
    rise = [ours[str(pools)].speed_up for pools in POOLS]
    all_of_them, fewer = str(POOLS[-1]), list(by_pools)[-1]
    best = max(one.speed_up for name, one in by_pools[all_of_them].items() if name in BASELINES)
    times = [fair[pools].total / max(ours[pools].total, 1e-9) for pools in map(str, POOLS)]
    found = [
        Claim(
            "More pools that share gain more (6.2, figure 14)",
            ", ".join(f"{speed_up:.2f}" for speed_up in rise) + " with 2, 4, 6 pools",
            rise == sorted(rise),
        ),
        Claim(
            "With many pools the speed-ups are ahead of all others' (6.2, figure 14)",
            f"{rise[-1]:.2f} against {best:.2f} with all six",
            rise[-1] > best,
        ),
        Claim(
            "Harm is less with any number of pools, sometimes by orders of magnitude (6.2, figure 14)",
            "; ".join(
                f"{ours[pools].total:.1f} h against {fair[pools].total:.1f} h"
                for pools in map(str, POOLS)
            ),
            min(times) > 1.0 and max(times) >= 100.0,
        ),
    ]
    for pools, where in ((all_of_them, "all pools"), (fewer, "without the two idlest")):
        mine, other = ours[pools], fair[pools]
        found += [
            Claim(
                f"No job is slowed, some are under max-min (6.5, table 17, {where})",
                f"{mine.slowed:.2%} against {other.slowed:.2%}, "
                f"{mine.total:.1f} h against {other.total:.1f} h",
                mine.total == 0.0 < other.total,
            ),
            Claim(
                f"The 95th percentile is about max-min's (6.5, table 17, {where}; here: 0.9 times)",
                f"{mine.tail:.1f} against {other.tail:.1f}",
                mine.tail >= 0.9 * other.tail,
            ),
        ]
    few, less_of_it = ours[fewer], fair[fewer]
    return [
        *found,
        Claim(
            "Speed-ups are ahead of max-min's without the two idlest (6.5, table 17)",
            f"{few.speed_up:.2f} against {less_of_it.speed_up:.2f}",
            few.speed_up > less_of_it.speed_up,
        ),
    ]


if __name__ == "__main__":
    main()
