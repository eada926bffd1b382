"""What is believed of a job: its columns as it enters, and how fast it is where only Python knows."""

import math
from typing import TYPE_CHECKING

import numpy as np

from volvelle.core.curves import RateTable, unit_rate
from volvelle.core.decision import NO_INTS
from volvelle.core.eligibility import mean_rate
from volvelle.core.events import ProgressReported
from volvelle.core.orders import remaining_work
from volvelle.core.parts import Belief
from volvelle.core.state import ARRIVAL_COLUMNS, Jobs
from volvelle.core.view import JobView
from volvelle.model.job import Job, JobSpec, Truth, rate_of
from volvelle.model.job_schema import with_state

if TYPE_CHECKING:
    from volvelle.core.scheduler import Scheduler

_PLACE = {name: place for place, name in enumerate(Jobs.float_columns[:ARRIVAL_COLUMNS])}
DECLARED_COLUMNS = tuple((one.about.state, one.name) for one in with_state(JobSpec))
"""The columns that repeat what is declared, and the attributes."""


def newcomer(
    scheduler: "Scheduler", number: int, spec: JobSpec, belief: Belief
) -> list[float] | str:
    """The columns with which a job comes, as in `volvelle.core.state.Jobs`, or why it never will."""
    truth, resources = belief.truth, scheduler.resources
    types = scheduler.eligibility.useful_types(spec, truth)
    if not types:
        kinds = " or ".join(filter(None, resources.types)) or "its"
        if truth.sensitivity is None:
            return f"makes no progress on {kinds} GPUs"
        return f"makes no progress on {kinds} GPUs with the CPUs and memory that go with them"
    gpus, most = spec.gpus, spec.most_gpus
    gpu_type = resources.types[(types & -types).bit_length() - 1]
    full_rate = believed_mean_rate(scheduler, truth, most, gpu_type, 0.0)
    request_rate = full_rate
    if gpus != most:
        request_rate = believed_mean_rate(scheduler, truth, gpus, gpu_type, 0.0)
    overheads, values = scheduler.overheads, [0.0] * ARRIVAL_COLUMNS
    for name, value in {
        "number": number,
        "submit": spec.submit_time,
        "gpus": gpus,
        "least": spec.least_gpus,
        "most": most,
        "types": types,
        "pool": scheduler.pools.get(spec.pool, -1),
        "total": truth.work,
        "scale": belief.scale,
        "full_rate": full_rate,
        "request_rate": request_rate,
        "unit_rate": unit_rate(truth),
        "table": table_of(scheduler, truth),
        "curve": -1.0,
        "start_gap": overheads.start,
        "restore": overheads.restore_seconds(spec),
        "resize": overheads.resize_seconds(spec),
        "checkpoint": overheads.checkpoint_seconds(spec),
        "true_work": math.nan,
        "true_unit_rate": math.nan,
        "true_table": -1.0,
    }.items():
        values[_PLACE[name]] = float(value)
    for name, attribute in DECLARED_COLUMNS:
        values[_PLACE[name]] = float(getattr(spec, attribute) or 0.0)
    return values


def true_columns(scheduler: "Scheduler", job: Job) -> tuple[float, float, float, float]:
    """The truth about a job as the forward loop has it: `true_work` to `truly_asked`."""
    truth = job.truth
    unit, table = unit_rate(truth), table_of(scheduler, truth)
    eventful = truth.failures or truth.regimes or job.training is not None
    reports = scheduler.composition.loss_every is not None and truth.loss_curve
    asked = bool(eventful or reports or (math.isnan(unit) and table < 0))
    return truth.work, unit, float(table), float(asked)


def table_of(scheduler: "Scheduler", truth: Truth) -> int:
    """Where in the table of rates a job is, which is made anew where it is of a new kind."""
    table, s = scheduler.tables.of(truth), scheduler.state
    most = int(scheduler.eligibility.most_gpus)
    if table >= len(s.rates) or (len(s.rates) and len(s.rates[0][0]) <= most):
        rates = scheduler.tables.rates(scheduler.resources.types, most)
        s.rates = rates if s.compiled else rates.tolist()
        scheduler.renew()
    return table


def believed_mean_rate(
    scheduler: "Scheduler", truth: Truth, gpus: float, gpu_type: str, done: float
) -> float:
    """Units per second believed from ``done`` to the end, with the CPUs and memory there are at best."""
    rate = mean_rate(truth, gpus, gpu_type, done)
    if truth.sensitivity is None:
        return rate
    resources, at_most = scheduler.resources, scheduler.composition.policy.divides
    amounts = resources.best_amounts(resources.types.index(gpu_type), gpus, at_most)
    return rate * truth.sensitivity.share(*amounts)


def rate_now(scheduler: "Scheduler", row: int, truth: Truth, done: float) -> float:
    """Units per second of the job in ``row``, of which ``truth`` holds, on what it holds."""
    jobs, resources = scheduler.state.jobs, scheduler.resources
    gpus = float(jobs.held[row])
    if gpus <= 0.0:
        return 0.0
    spec = scheduler.spec(int(jobs.number[row]))
    gpu_type = int(jobs.type[row])
    slots = np.array(scheduler.slots_of(row), dtype=np.int64) if resources.named else NO_INTS
    nodes = len(resources.nodes_of(slots)) if len(slots) else 1
    partner = int(jobs.partner[row])
    beside = "" if partner < 0 else scheduler.neighbours[partner]
    rate = rate_of(spec, truth, gpus, resources.types[gpu_type], nodes, done, beside)
    rate *= resources.spread_factor(truth.spread_slowdown, int(gpus), nodes)
    if truth.sensitivity is None:
        return rate
    amounts = float(jobs.cpus[row]), float(jobs.memory[row])
    if math.isnan(amounts[0]):
        amounts = resources.share_of(slots, gpu_type)
    return rate * truth.sensitivity.share(*amounts)


def believe_rate(scheduler: "Scheduler", row: int) -> None:
    """Write how fast the job in ``row`` is believed to be, where no formula of the forward loop says so."""
    jobs = scheduler.state.jobs
    unit, table = float(jobs.unit_rate[row]), float(jobs.table[row])
    if math.isnan(unit) and table < 0.0:
        known = scheduler.known[int(jobs.number[row])]
        done = work_done(scheduler, row) if known.believed.regimes else 0.0
        jobs.rate[row] = rate_now(scheduler, row, known.believed, done)


def work_done(scheduler: "Scheduler", row: int) -> float:
    """Units of work that the job in ``row`` is believed to have done."""
    jobs = scheduler.state.jobs
    worked = max(scheduler.now - float(jobs.progress_from[row]), 0.0)
    return float(jobs.done[row]) + worked * float(jobs.rate[row])


def rates(scheduler: "Scheduler", view: JobView) -> RateTable:
    """What `View.rates` promises."""
    s = scheduler.state
    table = scheduler.curves.table(
        s.jobs,
        [int(row) for row in view.rows],
        lambda number: scheduler.known[number].believed,
        scheduler.resources.types,
        np.array(s.types.capacity, dtype=np.float64),
    )
    view.refresh("curve")
    return table


def rates_basis(scheduler: "Scheduler", view: JobView) -> bytes:
    """What `View.rates_basis` promises."""
    rates(scheduler, view)
    return scheduler.curves.digests(view.curve)


def rates_beside(scheduler: "Scheduler", number: int, other: int) -> list[float]:
    """What `View.beside` promises."""
    spec, believed = scheduler.known[number]
    model = believed.beside.get(scheduler.spec(other).name)
    types = scheduler.resources.types
    if model is None or believed.regimes:
        return [0.0] * len(types)
    return [model.rate(spec.gpus, gpu_type) for gpu_type in types]


def measured_seconds_left(
    scheduler: "Scheduler", report: ProgressReported, now: float
) -> float | None:
    """Seconds that a job has left by what it reports; None where that is no news to the estimator."""
    row, s = scheduler.row_of(report.number), scheduler.state
    if row is None or int(s.jobs.attempt[row]) != report.attempt or not s.jobs.rate[row]:
        return None
    left = remaining_work(s.jobs, row, now) / float(s.jobs.rate[row])
    return scheduler.composition.estimator.measure(report, left)
