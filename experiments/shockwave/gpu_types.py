"""Several GPU types in one window, which the paper does not have.

The authors' 120 jobs on V100, P100 and K80 with their table's throughputs on each. Shockwave counts rounds
by job and type (`volvelle.systems.shockwave.typed_rounds`); beside it are Gavel's programs that know the
types (las, finish-time fairness) and las where it does not, all in rounds of 120 s. Rho is of the time alone
on V100 times jobs per GPU of all types.
"""

from shockwave_study import (
    CSV_HEADS,
    HEADS,
    PROACTIVE,
    REACTIVE,
    SHARED,
    Case,
    Claim,
    Measured,
    Options,
    Report,
    first,
    lines,
    measured,
    options,
    over,
    records,
)

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace

TYPES = ("v100", "p100", "k80")
"""Quickest first, for most jobs."""
POLICIES = {
    "Shockwave": "shockwave",
    "Gavel": "gavel-las:round=120",
    "Themis": "gavel-ftf:round=120",
    "Gavel, types unknown": "gavel-las:round=120,aware=false",
}


def typed(given: Options) -> Case:
    """The 120 jobs on 12 GPUs of each type."""
    folder = SHARED / "data" / "shockwave"
    source = {"throughputs": folder / "tacc_throughputs.json"}
    return first(
        given, "three types", read_trace(folder / "120_jobs_32_gpus.trace", options=source), 36
    )


def run(case: Case, policy: str, estimator: str) -> Measured:
    """The jobs of ``case`` under a policy, a third of the GPUs being of each type."""
    each = case.gpus // len(TYPES)
    under = Setting(
        cluster=parse_cluster(",".join(f"{each}x1:{kind}" for kind in TYPES)),
        composition=WrittenComposition(policy, estimator=estimator),
        overheads=Overheads(start=20.0, restore=20.0),
    )
    outcomes = simulate(case.workload, under).outcomes
    jobs = case.workload.jobs
    alone = {job.spec.id: job.seconds_on(job.spec.gpus, TYPES[0]) for job in jobs}
    return measured(case, outcomes, alone)


def main() -> None:
    given = options(
        __doc__, "the authors' trace of 120 jobs on 12 GPUs of each of three types, one run"
    )
    report = Report("gpu_types", "Several GPU types in one window", given)
    case = typed(given)
    runs = {
        name: run(case, policy, PROACTIVE if name == "Shockwave" else REACTIVE)
        for name, policy in POLICIES.items()
    }
    report.table(HEADS, lines(case.name, runs))
    own, unaware = runs["Shockwave"], runs["Gavel, types unknown"]
    aware = ("Gavel", "Themis")
    longer, unfairer = over(runs, "makespan", aware), over(runs, "worst", aware)
    report.claims(
        [
            Claim(
                "on one type (7): makespan 1.3 times less than Themis' and Gavel's",
                f"{longer:.2f} times",
                longer >= 1.25,
            ),
            Claim(
                "on one type (7): worst rho half of Themis' and Gavel's",
                f"{own.worst:.2f}, theirs {unfairer:.1f} times",
                unfairer >= 2.0,
            ),
        ]
    )
    gap = own.outcomes.solver_gap
    assert gap is not None
    report.say(
        f"The paper has one GPU type. Mean completion times: Gavel that does not know the types "
        f"{unaware.jct / own.jct:.2f} times Shockwave's, Gavel that does {runs['Gavel'].jct / own.jct:.2f} "
        f"times. The largest gap of a window was {100.0 * gap:.1f} %."
    )
    report.runs(CSV_HEADS, records(case.name, runs))
    report.close()


if __name__ == "__main__":
    main()
