"""The page of the papers' claims: python docs/make_claims.py writes docs/background/claims.md.

Every row of the tables "the paper, here, agrees" of the committed pages of `experiments` becomes a row, in
the order of `STUDIES`, with the command that makes its page. What is added by hand is where the paper says
it, and why a claim does not hold, which names the study that tested it. Figures come from the studies' pages
alone. A test holds the page in the repository against `made()`, and every study against `STUDIES`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "background" / "claims.md"

MADE = "<!-- Made by docs/make_claims.py; change it or the studies, then run it again. -->"

HEAD = """# What the five papers claim, and what is seen here

One row for each claim. *Holds* is what the study decided when it ran; *why* is given where a claim does not
hold, and names the study that tested the reason, or says that none was found. The figures are those of the
studies' committed pages, which say what size was run. `python experiments/reproduce.py pcs --figure 7`
runs the studies of a paper, or of a figure, and counts the cells that differ from those committed."""

LINK = re.compile(r"\]\(([\w-]+\.md)\)")


@dataclass(frozen=True)
class Study:
    """A committed page of an experiment: where the paper has what it tests, and why claims do not hold.

    name: of the page below ``experiments``, ``FOLDER/NAME``. where: section and figure. command: what makes
    the page. why: by the beginning of the paper's claim; words, which may link to other pages of the folder.
    """

    name: str
    where: str
    why: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    @property
    def page(self) -> Path:
        """The committed page."""
        folder, name = self.name.split("/")
        return ROOT / "experiments" / folder / "results" / f"{name}.md"

    @property
    def made_by(self) -> str:
        """The command that makes the page."""
        return self.command or f"python experiments/{self.name}.py"


@dataclass(frozen=True)
class Row:
    """A claim: what the paper says, what is seen, whether it holds, and why it does not."""

    paper: str
    seen: str
    holds: bool
    why: str


@dataclass(frozen=True)
class Untested:
    """A claim that no run of this project can decide, and the fact that keeps it from doing so."""

    where: str
    paper: str
    reason: str


ORDER = (
    "durations decide: in order where they vary little, never where they vary much "
    "([one change at a time](admission_order.md))"
)
AMOUNT = (
    "load decides: the paper's shares are those of a load just below what the GPUs can do "
    "([loads](admission_order.md))"
)
NARROW = (
    "what FIFO gives a job and how long the stream is decide: with one GPU each at the best batch size, "
    "in a long stream, the two come near each other ([tested](pollux_fifo.md))"
)

BLOX = (
    Study(
        "blox/pollux_interval",
        "4.1, figure 3",
        {
            "JCT grows with": "from the second interval on it does; between the two shortest it falls on two "
            "of the four workloads and grows on two ([by workload](pollux_interval.md))"
        },
        "python experiments/blox/pollux_interval.py TRACE...",
    ),
    Study(
        "blox/tiresias_jct",
        "4.1, figure 4",
        {
            "the JCTs have the distribution of Tiresias' open-source simulator on Philly": "the simulator "
            "departs from its paper: with its ways every job ends to the second as there "
            "([by trace](tiresias_jct.md))"
        },
    ),
    Study(
        "blox/synergy",
        "4.1, figure 5",
        {
            "tune's mean JCT is up to": "no reason found: load, order, durations and number of jobs, varied "
            "one "
            "by one, do not bring it ([table](synergy.md))"
        },
    ),
    Study("blox/load_sweep", "4.2, figures 6, 7"),
    Study(
        "blox/pollux_load",
        "4.2, figures 8, 9",
        {
            "... while the three are equally": NARROW,
            "above 20 jobs/h the JCT of Pollux": NARROW,
            "... and so is its": NARROW,
            "Pollux gives jobs fewer": "jobs that came late, when GPUs are free again, are wide: by rate it "
            "falls at every step, and a job's GPU-hours come down to those of one GPU "
            "([tested](pollux_fifo.md))",
        },
        "python experiments/blox/pollux_load.py TRACE...",
    ),
    Study(
        "blox/pollux_fifo",
        "4.2, figures 8, 9",
        {
            "... and above 20 jobs/h similar in both: at 40": "the likeness grows with the length of the "
            "stream up to 2,000 jobs, and at this rate not beyond (table by length)"
        },
        "python experiments/blox/pollux_fifo.py TRACE...",
    ),
    Study("blox/placement", "4.3, figures 10, 11"),
    Study(
        "blox/admission",
        "5.1, figures 12, 13",
        {
            "8 jobs/h, 10 to 24 hours: by": AMOUNT,
            "8 jobs/h, Gavel's durations: by": AMOUNT,
            "8 jobs/h and spikes, 10 to 24 hours: by": AMOUNT,
            "8 jobs/h and spikes, Gavel's durations: by": AMOUNT,
            "8 jobs/h, Gavel's durations: the lower": ORDER,
            "8 jobs/h and spikes, Gavel's durations: the lower": ORDER,
        },
    ),
    Study(
        "blox/admission_order",
        "5.1, figure 12",
        {
            "... the jobs of": ORDER,
            "... while jobs wait": "the gains need a load below capacity, the waits one above: no rate of "
            "those run has both ([rates](admission_order.md))",
        },
    ),
    Study(
        "blox/synthesizer",
        "5.2, figures 14, 15; appendix A",
        {
            "Philly: the best static": "no reason found: an order by remaining time is ahead on every draw, "
            "at the paper's scale as well ([policies alone](synthesizer.md))"
        },
    ),
    Study("blox/termination", "5.3, figure 16"),
    Study(
        "blox/bandwidth",
        "5.3, table 4",
        {
            "the bandwidth observed is 1.47 times as high": "the ratio is at most that of two links to the "
            "mean "
            "of all pairs, which three such pairs lower ([shares](bandwidth.md))"
        },
    ),
    Study(
        "blox/bandwidth_mixes",
        "5.3, table 4",
        {
            "the bandwidth observed": "wider jobs leave less to choose ([mixes](bandwidth_mixes.md)); of "
            "pairs alone the ratio is there ([pairs](bandwidth.md))"
        },
    ),
    Study(
        "fidelity/fidelity-local", "7, figure 18", command="python experiments/fidelity/fidelity.py"
    ),
    Study(
        "fidelity/fidelity-ray",
        "7, figure 18",
        command="python experiments/fidelity/fidelity.py --executor ray",
    ),
)

TOLERANCE = (
    "what counts as found decides, which the paper does not tell "
    "([by tolerance](parameterisation.md))"
)

SMALLER = (
    "no reason found: none of the points predicted is as good ([points](long_traces.md)), of 120 "
    "configurations, where the artifact tries 1,280"
)

PCS = (
    Study("pcs/toy", "2.2, figure 1"),
    Study("pcs/held_back", "1 and 3.2, figure 3"),
    Study(
        "pcs/workload1",
        "5.2, figures 4 to 6",
        {
            "PCS-JCT's worst unfairness": "no reason found: with free changes AFS is the fairest of all, and "
            "no cost of a change brings its worst case beyond PCS-JCT's ([by cost](workload1.md))"
        },
    ),
    Study(
        "pcs/workload2",
        "5.3, figure 7",
        {
            "ee9e8c: JCT and errors": "its simulator predicts a random part of so many jobs, and draws of "
            "that "
            "size cover what differs (the next four rows)",
            "ee9e8c: PCS is within": "the figure's own PCS-pred costs as much: the text's range leaves its "
            "data out ([figures](workload2.md))",
        },
    ),
    Study(
        "pcs/themis_error",
        "5.3, figure 7",
        {
            "... and 122.8 %": "no reason found: the figure's mean JCT of Themis differs by two percent, too"
        },
    ),
    Study(
        "pcs/long_traces",
        "5.3, figure 7",
        {
            "6c71a0: the figure's configurations": "the three shipped for this trace were run, and none has "
            "the JCT of a bar",
            "6c71a0: PCS-JCT errs": SMALLER,
            "6c71a0: PCS-pred": SMALLER,
            "6214e9: PCS-bal": SMALLER,
            "6214e9: PCS-pred": SMALLER,
            "6c71a0: PCS is within": "the figure's own PCS-pred costs as much: the text's range leaves its "
            "data out ([figures](long_traces.md))",
        },
    ),
    Study(
        "pcs/workload3",
        "5.3, figure 8",
        {
            "... those that its": "the p99 is that of thirty jobs: from seed to seed it differs by more than "
            "what is missing ([by seed](workload3.md))",
            "PCS-bal and PCS-pred": "over five workloads the artifact's own do not either "
            "([shipped](workload3.md))",
        },
    ),
    Study(
        "pcs/parameterisation",
        "5.4, figure 9c",
        {
            "with heuristics a search finds more at every budget (points": TOLERANCE,
            "... at the largest budget": TOLERANCE,
        },
    ),
    Study("pcs/feasibility", "5.4, figures 9a, 9b"),
    Study("pcs/size_error", "5.4, figures 10a, 10b"),
    Study("pcs/load_mismatch", "5.4, figure 10c"),
    Study("pcs/told_times", "not in the paper", {"our goal": "no reason was looked for"}),
)

TRACE = "TRACE"
UNTRIED = "no reason was looked for"

CHRONUS = (
    Study(
        "chronus/profiler",
        "5.1, figure 6 (a)",
        {
            "6 (a): the rule": "not looked for; the page says what the rule does not know",
            "6 (a): with the rule": "not looked for; the page says what the rule does not know",
        },
        f"python experiments/chronus/profiler.py {TRACE}",
    ),
    Study(
        "chronus/selector",
        "5.1 and 5.2, figures 6 (d), 7",
        {"": UNTRIED},
        f"python experiments/chronus/selector.py {TRACE}",
    ),
    Study(
        "chronus/allocator",
        "5.3, figure 8",
        {
            "8 (a)": "the paper's program asks for rounded-up GPUs before it promises; here "
            "reservations count the GPUs of a gang unless `rounded=true` is set, with which the page was not "
            "made. One draw was made",
            "8 (b)": "no reason was looked for; one draw was made",
        },
        f"python experiments/chronus/allocator.py {TRACE}",
    ),
    Study(
        "chronus/baselines",
        "5.4, figure 9",
        {"9 (a, c): the same on Helios": "the trace is not here", "": UNTRIED},
        f"python experiments/chronus/baselines.py {TRACE}",
    ),
    Study("chronus/draws", "not in the paper", {}, f"python experiments/chronus/draws.py {TRACE}"),
    Study(
        "chronus/promises",
        "3.3",
        {
            "with wrong estimates": "a margin learns from promises alone, and few are made behind "
            "fifo ([several types](guarantees.md))"
        },
        f"python experiments/chronus/promises.py {TRACE}",
    ),
    Study("chronus/guarantees", "not in the paper"),
)

ANTICIPATORY = (
    Study("anticipatory/theorem_1", "5.1, theorem 1"),
    Study(
        "anticipatory/potential",
        "4.1, figures 5, 24, 15b",
        {
            "(ours) the programs": "the solver does not end within the time it is given",
            "the oracle is": "most programs are not solved in the time they are given",
            "": UNTRIED,
        },
    ),
    Study("anticipatory/predictors", "5.4, tables 10, 20, 23", {"": UNTRIED}),
    Study(
        "anticipatory/sharing",
        "6.2 and 6.5, figures 14, 18",
        {
            "Total and worst harm": "durations decide, not arrivals: with exact ones the total holds "
            "([every row](sharing.md)); the worst delay is that of one job",
            "": UNTRIED,
        },
    ),
    Study("anticipatory/dial", "not in the paper"),
    Study(
        "anticipatory/locality",
        "6.4",
        {
            "Slowdowns significantly": "nobody is late under either, so nothing can be less",
            "": UNTRIED,
        },
    ),
    Study(
        "anticipatory/closed_loops",
        "6.1",
        {
            "(ours) nobody": "theorem 1 needs all arrivals, which nobody can know here",
            "": UNTRIED,
        },
    ),
)

SHOCKWAVE = (
    Study("shockwave/forecasts", "2.2, figure 2"),
    Study("shockwave/prediction", "5, figure 5", {"restatement": UNTRIED}),
    Study("shockwave/efficiency", "8.3 and 8.5, figures 7, 9", {"7: mean JCT": UNTRIED}),
    Study("shockwave/closer", "8.4, figure 8"),
    Study("shockwave/mix", "8.6, figure 10", {"all static": "none was found"}),
    Study(
        "shockwave/against_pollux",
        "8.7, figures 11, 17",
        {
            "11": "no policy that keeps the number of workers can have that makespan on this cluster; "
            "with elastic jobs it is near ([bound and rows](against_pollux.md))"
        },
    ),
    Study("shockwave/solver", "8.9, figure 12"),
    Study("shockwave/resilience", "8.10, figure 13"),
    Study(
        "shockwave/contention",
        "8.8, figure 16",
        {
            "makespans of": "the last of the drawn jobs is as long as the makespan, under every "
            "policy ([bound](contention.md))",
            "at 2": UNTRIED,
        },
    ),
    Study("shockwave/front", "6.1"),
    Study("shockwave/gpu_types", "8.3, figure 7, and beyond the paper"),
)

STUDIES = {
    "Blox (EuroSys'24)": BLOX,
    "PCS (OSDI'24)": PCS,
    "Chronus (SoCC'21)": CHRONUS,
    "Anticipatory allocation (its paper: SIA)": ANTICIPATORY,
    "Shockwave (NSDI'23)": SHOCKWAVE,
}

UNTESTED = {
    "Blox (EuroSys'24)": (
        Untested(
            "4.1, table 3",
            "most schedulers take two or three modules and some hundred lines",
            "a count of the authors' own files",
        ),
        Untested(
            "5.3",
            "loss-based termination takes 4 lines, intra-node placement 14",
            "a count of the authors' own files",
        ),
        Untested(
            "7, figure 19",
            "optimistic renewal of leases is over 50 % faster than central renewal, and constant",
            "central renewal was built and measured on one machine, and removed: decision 24",
        ),
        Untested(
            "8",
            "students implemented Themis and Optimus in about 40 hours",
            "a report of people's work",
        ),
    ),
    "PCS (OSDI'24)": (
        Untested(
            "5.1",
            "the simulator is within 5 % of Microsoft's trace and of the testbed",
            "the testbed is not here; live runs beside simulations are above, under Blox' figure 18",
        ),
        Untested(
            "5.3, figure 7, trace 2",
            "PCS-JCT brings the mean error from 80 % down to 1 %",
            "the trace is not among those at hand",
        ),
    ),
}


def made() -> str:
    """The page."""
    parts = [MADE, HEAD]
    for paper, studies in STUDIES.items():
        lines = [_line(study, row) for study in studies for row in rows(study)]
        parts += [
            f"## {paper}",
            _table(("where", "the paper", "here", "holds", "why", "command"), lines),
        ]
        if told := [(one.where, one.paper, one.reason) for one in UNTESTED.get(paper, ())]:
            parts += ["Not decided by a run:", _table(("where", "the paper", "because"), told)]
    return "\n\n".join(parts) + "\n"


def rows(study: Study) -> Iterator[Row]:
    """The claims on a study's page, in order, each with why it does not hold; ValueError where that lacks."""
    for line in study.page.read_text(encoding="utf-8").splitlines():
        paper, seen, agrees = [*line.strip("|").split(" | "), "", "", ""][:3]
        if agrees.strip() not in ("yes", "**no**"):
            continue
        holds = agrees.strip() == "yes"
        yield Row(paper.strip(), seen.strip(), holds, "" if holds else _why(study, paper.strip()))


def _why(study: Study, paper: str) -> str:
    """Why a claim does not hold, its links as seen from the page."""
    for beginning, why in study.why.items():
        if paper.startswith(beginning):
            return LINK.sub(rf"](../../experiments/{study.name.split('/')[0]}/results/\1)", why)
    raise ValueError(f"{study.name}: {paper!r} does not hold, and STUDIES does not say why")


def _line(study: Study, row: Row) -> Sequence[str]:
    page = f"[{study.name}](../../{study.page.relative_to(ROOT)})"
    holds = "yes" if row.holds else "**no**"
    return study.where, row.paper, row.seen, holds, row.why, f"`{study.made_by}` ({page})"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|".join("---" for _ in heads)
    return "\n".join(
        (f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {' | '.join(one)} |" for one in lines))
    )


if __name__ == "__main__":
    PAGE.write_text(made(), encoding="utf-8")
