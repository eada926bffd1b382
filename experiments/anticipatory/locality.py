"""Gangs that have to stand on one server: section 6.4 of the paper, figure 16, on Philly's pools.

``python experiments/anticipatory/locality.py`` writes ``results/locality.md``; options as in ``sharing.py``.
Servers have eight GPUs and jobs one, two, four or eight, all on one server. The reference is every pool alone
on servers of its own. What ``anticipatory`` keeps are GPUs of servers (``locality=true``); where it counts
them, guests stand on cells of their own (``buddy:lanes=true``, 5.5). Draws of more than a thousand jobs are
passed over: with locality each takes minutes.
"""

from itertools import count, islice

from lenders import Case, Given, Learned, measure, run
from philly import Claim, Jobs, Report, draw
from sharing import HEADS, less, picture, row_of

SERVER = 8
MOST_JOBS = 1000
PERFECT, ALONE = "anticipatory, perfect coarse", "every pool alone, counted"


def study(jobs: Jobs, given: Given, learned: Learned) -> None:
    report = Report("locality", "Gangs that stand on one server", given)
    every = (
        draw(jobs, seed, 4, given.days, given.warm_up, server=SERVER)
        for seed in count(given.seeds.start)
    )
    draws = list(islice((one for one in every if len(one.workload) <= MOST_JOBS), given.draws))
    ours, cells = f"anticipatory:{learned.model}", "buddy:lanes=true"
    cases = {
        "hived-nonpreemptive": Case("hived-nonpreemptive", placement="buddy"),
        "mmfs": Case("mmfs", placement="buddy"),
        "anticipatory, by cells of the placement": Case(ours, placement=cells),
        "anticipatory": Case(f"{ours},locality=true", placement="consolidated"),
        "anticipatory, bins": Case(f"{ours},locality=true", learned.bins, "consolidated"),
        PERFECT: Case("anticipatory-perfect:locality=true", placement="consolidated"),
        "anticipatory-vc": Case("anticipatory-vc:locality=true", placement="consolidated"),
        ALONE: Case("fcfs-pools"),
    }
    alone = Case("fcfs-pools:locality=true", placement="consolidated")
    found = measure(draws, cases, learned, alone, kept=given.keep)
    without = {
        "anticipatory, counted": Case(ours),
        f"{PERFECT}, counted": Case("anticipatory-perfect"),
        "anticipatory-vc, counted": Case("anticipatory-vc"),
    }
    counted = measure(draws, without, learned, kept=given.keep)
    rows = [row_of(name, one) for name, one in {**found, **counted}.items()]
    report.say(
        "Pools own whole servers; jobs wider than one server are left out. Anticipatory keeps GPUs of "
        "servers (`locality=true`); by cells of the placement it counts what it keeps, and "
        "`buddy:lanes=true` has jobs wait for whom there is no cell. Perfect coarse: what comes within each "
        "quantum is known. The last three rows are without locality, against every pool alone without it; "
        "what that has over every pool alone with locality is in the row before them."
    )
    report.table(HEADS, rows)
    report.picture(picture(found))
    report.runs(HEADS, rows)
    mine, hived, fine = (
        found["anticipatory"],
        found["hived-nonpreemptive"],
        found["anticipatory-vc"],
    )
    known, free = found[PERFECT], counted[f"{PERFECT}, counted"]
    harm = less(mine, hived)
    report.claims(
        [
            Claim(
                "Sizable speed-ups with locality (6.4)",
                f"{mine.speed_up:.2f}, HiveD* {hived.speed_up:.2f}",
                mine.speed_up > 1.5,
            ),
            Claim(
                "Slowdowns significantly below HiveD*'s (6.4; here: ten times)",
                harm.seen,
                0.0 < hived.total >= 10.0 * mine.total,
            ),
            Claim(
                "Locality costs some of the gain, with perfect predictions (6.4)",
                f"{known.speed_up:.2f}, {free.speed_up:.2f} where GPUs are counted; "
                f"{known.speed_up / found[ALONE].speed_up:.2f} against what pools alone have there",
                known.speed_up < free.speed_up,
            ),
            Claim(
                "(ours) With exact knowledge nobody is later, on nodes too",
                f"{fine.slowed:.2%} of the jobs, speed-up {fine.speed_up:.2f}",
                fine.total == 0.0,
            ),
        ]
    )
    report.close()


if __name__ == "__main__":
    run(__doc__, study, draws=8)
