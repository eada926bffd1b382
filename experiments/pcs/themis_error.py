"""PCS, figure 7: why Themis errs more in its data than here.

PCS' simulator predicts by playing a copy of the cluster on without arrivals. Under Themis its copy differs
from what then happens in two ways: a job's work left becomes all the work that its fair time is reckoned
from, and no lease ends before the first job does. Here Themis is simulated apart from the scheduler, with
predictions in four ways: with neither, either and both. The artifact's results tell which it has.

Reference results of its simulator (workloads of 100 to 200 jobs) are compared prediction by prediction; the
trace is that of figure 7's fifth row.
"""

import csv
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pcs_study import GOLDEN, Claim, Column, Report, options, percent, philly

from volvelle.core.compiled import compiled
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.systems.pcs.reader import read_speedups
from volvelle.workload.workload import Workload

TRACE = "2869ce"
CASES = {"themis1_n100": (64, 600.0), "gavel_g16_n200": (16, 10.0), "tee9e8c_n200": (64, 600.0)}
"""Of the reference results: GPUs and seconds of a lease."""
PAPER_ERROR, PAPER_TAIL = 33.8, 122.8
"""Figure 7, fifth row, Themis: mean and p99 of the error in percent."""
NEAR = 0.05
"""Relative: the figure's Themis has a mean JCT that differs by 2 %, so that no more is to be had."""
SECOND = 1.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WAYS = {
    "as it goes on": (False, False),
    "work left as all work": (True, False),
    "no lease before the first end": (False, True),
    "both": (True, True),
}
"""How a prediction departs from what would happen: whether it forgets work done, and holds leases."""


@dataclass(frozen=True)
class Ran:
    """By job: submission, end and predicted end, seconds."""

    submit: Column
    end: Column
    predicted: Column

    @property
    def error(self) -> Column:
        """Of the prediction, percent of it."""
        predicted = self.predicted - self.submit
        return 100.0 * np.abs(predicted - (self.end - self.submit)) / predicted


def main() -> None:
    given = options(
        __doc__,
        "at most {jobs} jobs of the trace and of each reference result; nothing is drawn at random",
        jobs=10_000,
    )
    trace = Workload(philly(TRACE).jobs[: given.jobs])
    report = Report("themis_error", "Themis' error (PCS, section 5.3, figure 7)", given)
    whole = given.jobs >= max(len(_reference(case)[0]) for case in CASES)
    claims, runs = [], []
    for case, (gpus, lease) in CASES.items():
        workload, predicted = _reference(case)
        workload, predicted = Workload(workload.jobs[: given.jobs]), predicted[: given.jobs]
        rows = []
        for name, way in WAYS.items():
            ran = simulate(workload, gpus, lease, way)
            apart = np.abs(ran.predicted - ran.submit - predicted)
            same = 100 * float((apart < SECOND).mean())
            rows.append((name, percent(float(ran.error.mean())), f"{same:.0f} %"))
            runs.append((case, name, repr(float(ran.error.mean())), repr(same)))
        report.say(f"{case}, the reference's predictions met to a second:")
        report.table(("predictions", "mean error", "the reference's"), rows)
        claims.append(
            Claim(
                f"{case}: the reference's predictions",
                f"with both {rows[-1][2]} of them, with neither {rows[0][2]}",
                rows[-1][2] == "100 %" and rows[0][2] != "100 %",
            )
        )
    report.say(
        f"{TRACE}, mean and p99 of the error (figure 7: {PAPER_ERROR:g} and {PAPER_TAIL:g} %):"
    )
    shown = {name: simulate(trace, 64, 600.0, way).error for name, way in WAYS.items()}
    figures = {
        name: (float(error.mean()), float(np.percentile(error, 99)))
        for name, error in shown.items()
    }
    runs += [(TRACE, name, repr(mean), repr(tail)) for name, (mean, tail) in figures.items()]
    report.table(
        ("predictions", "mean", "p99"), [(name, *map(percent, f)) for name, f in figures.items()]
    )
    (plain, _), (mean, tail) = figures["as it goes on"], figures["both"]
    claims.append(
        Claim(
            f"{TRACE}: Themis errs {PAPER_ERROR:g} % on average",
            f"{percent(mean)} with both, {percent(plain)} with neither",
            abs(mean / PAPER_ERROR - 1.0) <= NEAR,
        )
    )
    claims.append(
        Claim(
            f"... and {PAPER_TAIL:g} % at p99",
            f"{percent(tail)} with both",
            abs(tail / PAPER_TAIL - 1.0) <= NEAR,
        )
    )
    report.claims(claims)
    report.say(EXPLAINED if whole else "Too few jobs to tell.")
    report.runs(("workload", "predictions", "mean_error_percent", "met_or_p99_percent"), runs)
    report.close()


def _reference(case: str) -> tuple[Workload, Column]:
    """The jobs of a reference result, and the JCTs that its simulator predicted, in seconds."""
    speedups = read_speedups(GOLDEN / "speedup_tables.csv")
    jobs = []
    with (GOLDEN / f"{case}__jobs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            most = float(row["max_gpus"])
            spec = JobSpec(
                id=row["app_id"],
                submit_time=float(row["submit_s"]),
                gpus=most,
                min_gpus=1.0,
                max_gpus=most,
            )
            throughput = speedups[row["model"]]
            jobs.append(Job(spec, Truth(work=float(row["service_gpu_s"]), throughput=throughput)))
    with (GOLDEN / f"{case}__THEMIS.csv").open(encoding="utf-8", newline="") as file:
        predicted = [float(row["pred_jct_s"]) for row in csv.DictReader(file)]
    return Workload(jobs), np.array(predicted)


# ---------------------------------------------------------------------- Themis, apart from the scheduler

SUBMIT, SERVICE, LEFT, MOST, HELD, ACTIVE_SUM, EVENTS = range(7)
"""Rows of the table of jobs: seconds; 1-GPU seconds in all and left; GPUs; jobs in the system summed over
the events since the submission, and these events."""


def simulate(workload: Workload, gpus: int, lease: float, way: tuple[bool, bool]) -> Ran:
    """Themis on counted GPUs, every job's end predicted at its submission as ``way`` says."""
    jobs = workload.jobs
    table = np.zeros((7, len(jobs)))
    table[SUBMIT] = [job.spec.submit_time for job in jobs]
    table[SERVICE] = table[LEFT] = [job.truth.work for job in jobs]
    table[MOST] = [job.spec.gpus for job in jobs]
    rates = np.zeros((len(jobs), int(table[MOST].max()) + 1))
    for row, job in enumerate(jobs):
        for held in range(1, int(job.spec.gpus) + 1):
            rates[row, held] = job.truth.throughput.rate(held)
    end, predicted = np.zeros(len(jobs)), np.zeros(len(jobs))
    _all(table, rates, float(gpus), lease, *way, end, predicted)
    return Ran(table[SUBMIT].copy(), end, predicted)


@compiled
def _all(
    table: Floats,
    rates: Floats,
    gpus: float,
    lease: float,
    forget: bool,
    hold: bool,
    end: Floats,
    predicted: Floats,
) -> None:
    """Simulate all jobs, at each submission a copy without later ones; writes ``end`` and ``predicted``."""
    rows, jobs, now = np.zeros(len(end), np.int64), 0, 0.0
    for row in range(len(end)):
        now, jobs = _go_on(now, rows, jobs, row, table, rates, gpus, lease, False, end)
        copy, until = table.copy(), np.zeros(len(end))
        if forget:
            copy[SERVICE] = copy[LEFT]
        _go_on(now, rows.copy(), jobs, -1, copy, rates, gpus, lease, hold, until)
        predicted[row] = until[row]
    _go_on(now, rows, jobs, -1, table, rates, gpus, lease, False, end)


@compiled
def _go_on(
    now: float,
    rows: Ints,
    jobs: int,
    coming: int,
    table: Floats,
    rates: Floats,
    gpus: float,
    lease: float,
    hold: bool,
    end: Floats,
) -> tuple[float, int]:
    """Simulate from ``now`` until the job ``coming`` has come, or all have ended where that is -1.

    The first ``jobs`` of ``rows`` are in the system. ``hold``: no lease ends before the first job does.
    Changes ``rows`` and ``table``, writes ``end``; returns the time and how many are in the system.
    """
    while coming >= 0 or jobs > 0:
        first, at = np.inf, -1
        for place in range(jobs):
            row = rows[place]
            if table[HELD, row] > 0.0:
                ends = now + table[LEFT, row] / rates[row, int(table[HELD, row])]
                if ends < first:
                    first, at = ends, place
        expires = now + lease if jobs > 0 and not hold else np.inf
        arrives = table[SUBMIT, coming] if coming >= 0 else np.inf
        then = min(first, expires, arrives)
        for row in rows[:jobs]:
            table[LEFT, row] -= (then - now) * rates[row, int(table[HELD, row])]
        now, before = then, jobs
        arrived = first > now and expires > now
        if first <= now:
            end[rows[at]] = now
            rows[at : jobs - 1] = rows[at + 1 : jobs].copy()
            jobs, hold = jobs - 1, False
        for row in rows[:jobs]:
            table[ACTIVE_SUM, row] += before
            table[EVENTS, row] += 1.0
        if arrived:
            rows[jobs] = coming
            jobs += 1
            table[ACTIVE_SUM, coming], table[EVENTS, coming] = jobs, 1.0
        _auction(now, rows[:jobs], table, gpus)
        if arrived:
            break
    return now, jobs


@compiled
def _auction(now: float, rows: Ints, table: Floats, gpus: float) -> None:
    """All GPUs anew: while some are free, the job with the largest rho has all that it can use."""
    free, all_gpus = gpus, gpus
    waiting = np.ones(len(rows), np.bool_)
    for row in rows:
        table[HELD, row] = 0.0
    while free > 0.0:
        best, worst = -1, -1.0
        for place in range(len(rows)):
            row = rows[place]
            if not waiting[place]:
                continue
            share = min(all_gpus * table[EVENTS, row] / table[ACTIVE_SUM, row], table[MOST, row])
            shared = now - table[SUBMIT, row] + table[LEFT, row] / min(free, table[MOST, row])
            rho = shared * share / table[SERVICE, row]
            if best < 0 or rho > worst * (1.0 + 1e-9):
                best, worst = place, rho
        if best < 0:
            break
        table[HELD, rows[best]] = min(free, table[MOST, rows[best]])
        free -= table[HELD, rows[best]]
        waiting[best] = False


EXPLAINED = (
    "With both ways the reference's predictions are met one by one, with neither or one of them they "
    "are not: they are what its simulator does. A copy whose jobs have no past overrates who is worst "
    "off, and a lease that does not end keeps GPUs where they are, so that the copy is further from "
    "what happens. On the figure's trace both together give the paper's mean error to a few percent. "
    "What remains is not found: the figure's mean JCT of Themis differs by two percent, too. A "
    "prediction that lets leases end, as ours does, errs less than half as much: Themis is more "
    "predictable than the figure has it."
)

if __name__ == "__main__":
    main()
