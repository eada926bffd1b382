"""Who gains and who is harmed on Philly's pools: sections 6.2, 6.3 and 6.5 of the paper.

``python experiments/anticipatory/sharing.py`` writes ``results/sharing.md`` beside it. The paper has 100
draws of four pools and weeks of jobs; ``--draws`` and ``--days`` say how many here.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from philly import DAY, RESULTS, TRACES, Claim, Draw, Jobs, Report, command_line, draw

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import ArrivalsAnnounced, JobSubmitted
from volvelle.core.facets import ForeseesArrivals
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.estimate.basic import lasting
from volvelle.metrics.baseline import against, by_pool
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.job import Job, JobSpec
from volvelle.report.charts import Axis, Dots, Drawing, scatter
from volvelle.report.charts.palette import series_color
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.systems.anticipatory.arrivals import QUANTA, ArrivalModel, record
from volvelle.systems.anticipatory.bins import RunTimes
from volvelle.systems.anticipatory.coarse import Anticipatory
from volvelle.workload.workload import Workload

Floats = NDArray[np.float64]

SCALES = (0.9, 0.95, 1.0, 1.1)
POOLS = (2, 4, 6)
DRAWS_OF_POOLS = 8
"""The first draws, which other numbers of pools are measured on."""
BOXES = (6.25, 12.5, 25.0, 50.0, 75.0, 87.5, 93.75)
"""Percentiles at which a stack of boxes of figure 14 changes its width."""
BASELINES = ("mmfs", "hived-nonpreemptive")
COMPILED_FROM = 200
"""Jobs of a draw from which on machine code is worth loading: it serves all draws."""


@policies.register
class RandomArrivals(Anticipatory):
    """Figure 15a: whether jobs come is a toss-up."""

    name: ClassVar[str] = "anticipatory-random"

    def expected(self, view: View) -> Floats:
        """Half of the time the load, else nothing, drawn anew at each decision."""
        found = super().expected(view)
        tossed = np.random.default_rng(int(view.now * 1000.0)).random(found.shape) < 0.5
        assert self._coming is not None
        return np.where(tossed, self._coming.load, 0.0)


@policies.register
class PerfectCoarse(Anticipatory, ForeseesArrivals):
    """Figure 15a: the load of each quantum is known."""

    name: ClassVar[str] = "anticipatory-perfect"
    _told: ArrivalsAnnounced | None = None

    def expect(self, arrivals: ArrivalsAnnounced) -> None:
        """Keep what is foretold."""
        self._told = arrivals

    def expected(self, view: View) -> Floats:
        """What comes within each quantum."""
        found = np.zeros_like(super().expected(view))
        assert self._told is not None
        submit, gpus = np.array(self._told.submit), np.array(self._told.gpus)
        pool = np.array(self._told.pools)
        for at, quantum in enumerate(QUANTA):
            soon = (submit > view.now) & (submit <= view.now + quantum) & (pool >= 0)
            found[at] = np.bincount(pool[soon], gpus[soon], found.shape[1])
        return found


@estimators.register
class RandomBins(Estimator):
    """Figure 15a: how long a job takes is one of the four bins, drawn."""

    name: ClassVar[str] = "random-bins"

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The upper end of a bin."""
        edges = (*QUANTA, 2 * QUANTA[-1])
        drawn = np.random.default_rng((seed, job.number)).integers(len(edges))
        return Belief(lasting(job.spec, edges[int(drawn)]))


@dataclass(frozen=True)
class Given:
    """What the command line said."""

    draws: int
    days: float
    warm_up: float
    trace: str
    keep: str
    out: Path

    @property
    def seeds(self) -> range:
        """Of the draws. On those before 2000 settings were chosen and mistakes found."""
        return range(2000, 2000 + self.draws)

    @cached_property
    def jobs(self) -> Jobs:
        """Of the trace."""
        return TRACES[self.trace]()

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return (
            f"{self.draws} draws of four of {self.jobs.title} (the paper: 100 of its "
            f"provider's pools), {self.days:g} days each of which the first {self.warm_up:g} are warm-up "
            "(the paper: weeks and two days), loads 0.6 to 1.1, all jobs after the days "
            f"({self.jobs.split / DAY:g} of them) that trained the "
            "predictors, durations cut at three days; exact durations unless said otherwise"
        )


@dataclass(frozen=True)
class Case:
    """A scheduler: how it is written, what it believes of durations, where it puts jobs.

    limit: the time limit of each job, as a multiple of its run time; 0: jobs have none.
    """

    policy: str
    estimator: str = "oracle"
    placement: str = "none"
    limit: float = 0.0


@dataclass(frozen=True)
class Learned:
    """What was learned from the past; ``model`` and ``bins`` are parameters of policy and estimator."""

    trained: ArrivalModel
    folder: Path

    @property
    def model(self) -> str:
        """Of the draw that `remember` was called with last."""
        return f"model={self.folder / 'model.json'}"

    @property
    def bins(self) -> str:
        """Of the days before the split."""
        return f"bins:past={self.folder / 'run-times.json'}"

    def remember(self, one: Draw) -> None:
        """Let the model's file have what came to the pools before the draw."""
        self.trained._replace(earlier=one.earlier).save(self.folder / "model.json")


class Run(NamedTuple):
    """What a scheduler did in one draw.

    speed_up, delay: of each job, times and seconds. late: the share of late jobs of each pool. promised: how
    many more were late than `harm` allows, by pool, where it is set.
    """

    speed_up: Floats
    delay: Floats
    late: Floats
    promised: Floats


@dataclass
class Found:
    """What a scheduler did in all draws."""

    runs: list[Run]

    @property
    def late(self) -> list[float]:
        """The share of late jobs of each pool and draw."""
        return [float(share) for one in self.runs for share in one.late]

    @property
    def promised(self) -> list[float]:
        """How many more were late than `harm` allows, by pool and draw."""
        return [float(more) for one in self.runs for more in one.promised]

    @property
    def speed_up(self) -> float:
        """The geometric mean over all jobs."""
        return float(np.exp(np.nanmean(np.log(self._speed_ups))))

    @property
    def tail(self) -> float:
        """The 95th percentile."""
        return float(self.percentiles(95.0)[0])

    def percentiles(self, *at: float) -> Floats:
        """Of the speed-ups of all jobs."""
        found: Floats = np.nanpercentile(self._speed_ups, at)
        return found

    @property
    def slowed(self) -> float:
        """The share of jobs."""
        return float((self.delays > 0.0).mean())

    @property
    def total(self) -> float:
        """Hours, of all draws together."""
        return float(self.delays.sum()) / 3600.0

    @property
    def worst(self) -> float:
        """Hours."""
        return float(self.delays.max()) / 3600.0

    @property
    def delays(self) -> Floats:
        """By how much each job is later than alone, seconds."""
        delays: Floats = np.nan_to_num(np.concatenate([one.delay for one in self.runs]))
        return delays

    @property
    def _speed_ups(self) -> Floats:
        return np.concatenate([one.speed_up for one in self.runs])


def main() -> None:
    run(__doc__, study)


def run(
    doc: str | None,
    what: Callable[[Jobs, Given, Learned], None],
    *,
    draws: int = 74,
    days: float = 4.0,
    warm_up: float = 2.0,
) -> None:
    """Read the command line, train predictors on the past, and do a study with them."""
    options: dict[str, tuple[str | float, str]] = {
        "draws": (draws, "how many"),
        "days": (days, "of each draw"),
        "warm-up": (warm_up, "days that are not measured"),
        "trace": ("philly", f"one of {', '.join(TRACES)}"),
        "keep": ("", "folder where what is measured is kept, from which another run goes on"),
    }
    given = Given(**vars(command_line(doc, RESULTS, options)))
    with tempfile.TemporaryDirectory() as folder:
        what(given.jobs, given, learn(given.jobs, Path(folder)))


def learn(jobs: Jobs, folder: Path) -> Learned:
    """Train predictors on the days before the split, and keep them in a folder."""
    past = jobs.between(0.0, jobs.split)
    seen = RunTimes(QUANTA)
    for submit, gpus, seconds, pool in zip(*(each.tolist() for each in past[:4]), strict=True):
        seen.add(JobSpec(id="past", submit_time=submit, gpus=gpus, pool=jobs.names[pool]), seconds)
    seen.save(folder / "run-times.json")
    return Learned(ArrivalModel.train(record(*past[:4]), QUANTA), folder)


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
        "anticipatory-vc (perfect fine)": Case("anticipatory-vc"),
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
    few = ("mmfs", "hived-nonpreemptive", "anticipatory", "anticipatory-vc (perfect fine)")
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
    sized, lines = {}, []
    for scale in SCALES:
        here = [draw(jobs, seed, 4, given.days, given.warm_up, scale) for seed in given.seeds[:4]]
        two = {name: cases[name] for name in ("mmfs", "anticipatory")}
        sized[scale] = measure(here, two, learned, kept=given.keep and f"{given.keep}/{scale:g}")
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


def measure(
    draws: Iterable[Draw],
    cases: Mapping[str, Case],
    learned: Learned,
    alone: Case = Case("fcfs-pools"),
    kept: str = "",
) -> dict[str, Found]:
    """Every case on every draw, against every pool ``alone``. kept: a folder where each is kept, if any."""
    found = {name: Found([]) for name in cases}
    for one in draws:
        tracked = one.first, len(one.workload.jobs) - 1
        reference: Outcomes | None = None
        for name, case in cases.items():
            file = Path(kept) / f"{one.seed}-{name}.npz"
            if kept and file.is_file():
                with np.load(file) as saved:
                    found[name].runs.append(Run(**saved))
                continue
            if reference is None:
                reference = _run(one, alone, tracked).outcomes
                learned.remember(one)
            began = time.process_time()
            ran = _compared(_run(one, case, tracked), reference)
            found[name].runs.append(ran)
            if kept:
                seconds = time.process_time() - began
                print(f"{one.seed} {name}: {seconds:.1f} CPU s", file=sys.stderr, flush=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                np.savez(file, **ran._asdict())
    return found


def _compared(ran: Simulation, reference: Outcomes) -> Run:
    compared = against(ran.outcomes, reference)
    pools = by_pool(ran.outcomes, compared)
    late = np.array([each.slowed / max(each.compared, 1) for each in pools.values()])
    policy, over = ran.scheduler.composition.policy, np.zeros(0)
    if isinstance(policy, Anticipatory) and policy.harm:
        behind, known = policy.harmed
        over = behind - np.ceil(policy.harm * known)
    mine = compared.of(ran.outcomes.tracked)
    return Run(mine.speed_up, mine.slowdown_seconds, late, over)


def _limited(job: Job, times: float) -> Job:
    seconds = times * job.truth.work / job.spec.gpus
    return Job(msgspec.structs.replace(job.spec, time_limit_seconds=seconds), job.truth)


def _run(one: Draw, case: Case, tracked: tuple[int, int]) -> Simulation:
    setting = Setting(
        cluster=one.cluster,
        composition=WrittenComposition(case.policy, case.placement, estimator=case.estimator),
        tracked=tracked,
    )
    jobs, compiled = one.workload, len(one.workload) >= COMPILED_FROM
    if case.limit:
        jobs = Workload(tuple(_limited(job, case.limit) for job in jobs.jobs))
    return simulate(jobs, setting, compiled=compiled)


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


def as_good(ours: Found, other: Found) -> Claim:
    """Section 6.2's claim on speed-ups."""
    return Claim(
        "Speed-ups as good as max-min's or better (6.2)",
        f"{ours.speed_up:.2f} against {other.speed_up:.2f}",
        ours.speed_up >= other.speed_up,
    )


def _claims(found: Mapping[str, Found], sized: Mapping[float, Mapping[str, Found]]) -> list[Claim]:
    ours, fair = found["anticipatory"], found["mmfs"]
    tossed, both = found["random arrivals"], found["random arrivals and durations"]
    perfect, fine = found["perfect coarse"], found["anticipatory-vc (perfect fine)"]
    small = sized[SCALES[0]]
    of_bins = [
        replace(claim, paper=f"{claim.paper}, {name.removeprefix('anticipatory, ')}")
        for name in ("anticipatory, bins", "anticipatory, bins, cautious")
        for claim in (as_good(found[name], fair), less(found[name], fair))
    ]
    return [
        as_good(ours, fair),
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
