"""Beliefs about jobs: their columns as they enter, and how fast they are where only Python knows."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from volvelle.core.curves import RateCurves, RateTable, ThroughputTables, unit_rate
from volvelle.core.decision import NO_INTS
from volvelle.core.eligibility import Eligibility
from volvelle.core.events import ProgressReported
from volvelle.core.grants import Grants
from volvelle.core.known_jobs import KnownJobs
from volvelle.core.orders import remaining_work, work_done
from volvelle.core.parts import Belief, Estimator
from volvelle.core.resources import Resources
from volvelle.core.state import ARRIVAL_COLUMNS, NOW, PLACE, State
from volvelle.core.view import JobView
from volvelle.model.job import Job, JobSpec, Truth, rate_of
from volvelle.model.job_schema import with_state
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import Linear, PerType, Table

DECLARED_COLUMNS = tuple((one.about.state, one.number) for one in with_state(JobSpec))
"""The columns that repeat what is declared, and the attributes."""


class Beliefs:
    """The beliefs about the jobs in the system, and about jobs that come.

    known: what is known of those in the system. eligibility: on which nodes jobs could run, as the policy and
    the placement want it. tabulates: whether rates of linear jobs are in tables too, for machine code.
    """

    eligibility: Eligibility

    def __init__(
        self,
        state: State,
        resources: Resources,
        grants: Grants,
        overheads: Overheads,
        pools: Sequence[str],
        *,
        tabulates: bool,
    ) -> None:
        self._state, self._resources, self._grants = state, resources, grants
        self._overheads = overheads
        self._pools: Mapping[str, int] = {name: index for index, name in enumerate(pools)}
        self.known = KnownJobs(state)
        self.tabulates = tabulates
        self._tables = ThroughputTables(linear=tabulates)
        self._curves = RateCurves()

    def of(self, state: State, resources: Resources, grants: Grants) -> "Beliefs":
        """The same for a copy of the state."""
        copy = object.__new__(Beliefs)
        copy.__dict__.update(self.__dict__)
        copy._state, copy._resources, copy._grants = state, resources, grants
        copy.known, copy._curves = self.known.of(state), self._curves.fork()
        return copy

    # ------------------------------------------------------------------ jobs that come

    def newcomer(self, number: int, spec: JobSpec, belief: Belief) -> list[float] | str:
        """The columns with which a job comes, as in `volvelle.core.state.Jobs`, or why it never will."""
        truth, resources = belief.truth, self._resources
        types = self.eligibility.useful_types(spec, truth)
        if not types:
            kinds = " or ".join(filter(None, resources.types)) or "its"
            if truth.sensitivity is None:
                return f"makes no progress on {kinds} GPUs"
            return f"makes no progress on {kinds} GPUs with the CPUs and memory that go with them"
        gpus, most = spec.gpus, spec.most_gpus
        gpu_type = resources.types[(types & -types).bit_length() - 1]
        full_rate = self.eligibility.best_mean_rate(truth, most, gpu_type, 0.0)
        request_rate = full_rate
        if gpus != most:
            request_rate = self.eligibility.best_mean_rate(truth, gpus, gpu_type, 0.0)
        unit, table = self.formula(spec, truth)
        overheads, values = self._overheads, [0.0] * ARRIVAL_COLUMNS
        for name, value in {
            "number": number,
            "submit": spec.submit_time,
            "gpus": gpus,
            "least": spec.least_gpus,
            "most": most,
            "types": types,
            "pool": self._pools.get(spec.pool, -1),
            "total": truth.work,
            "scale": belief.scale,
            "full_rate": full_rate,
            "request_rate": request_rate,
            "unit_rate": unit,
            "table": table,
            "curve": -1.0,
            "start_gap": overheads.start,
            "restore": overheads.restore_seconds(spec),
            "resize": overheads.resize_seconds(spec),
            "checkpoint": overheads.checkpoint_seconds(spec),
            "true_work": math.nan,
            "true_unit_rate": math.nan,
            "true_table": -1.0,
        }.items():
            values[PLACE[name]] = float(value)
        for name, attribute in DECLARED_COLUMNS:
            values[PLACE[name]] = float(getattr(spec, attribute) or 0.0)
        return values

    def true_columns(self, job: Job, *, reports: bool) -> tuple[float, float, float, float]:
        """The truth about a job as the forward loop has it: `true_work` to `truly_asked`.

        reports: whether a part goes by the losses that jobs report.
        """
        truth = job.truth
        unit, table = self.formula(job.spec, truth)
        eventful = truth.failures or truth.regimes or job.training is not None
        asked = bool(eventful or (reports and truth.loss_curve) or (math.isnan(unit) and table < 0))
        return truth.work, unit, float(table), float(asked)

    def formula(self, spec: JobSpec, truth: Truth) -> tuple[float, int]:
        """The rate per GPU, and the place in the table of rates; NaN and -1 where only Python knows more."""
        if spec.variability in self._resources.slowdowns:
            return math.nan, -1
        return unit_rate(truth), self.table_of(truth)

    def table_of(self, truth: Truth) -> int:
        """Where in the table of rates a job is, which is made anew where it is of a new kind."""
        table, s = self._tables.of(truth), self._state
        most = int(self.eligibility.most_gpus)
        if table >= len(s.rates) or (len(s.rates) and len(s.rates[0][0]) <= most):
            self._tabulate(most)
        return table

    def _tabulate(self, most: int) -> None:
        rates, s = self._tables.rates(self._resources.types, most), self._state
        s.rates, s.machine = rates if s.compiled else rates.tolist(), None

    @property
    def models(self) -> tuple[Linear | Table | PerType, ...]:
        """The models of the tables of rates, by the place of their tables."""
        return self._tables.models

    def restore_models(self, models: Sequence[Linear | Table | PerType]) -> None:
        """Let these have the first tables of rates."""
        self._tables.restore(models)
        if models:
            self._tabulate(int(self.eligibility.most_gpus))

    # ------------------------------------------------------------------ how fast jobs are

    def rate_now(self, row: int, truth: Truth, done: float) -> float:
        """Units per second of the job in ``row``, of which ``truth`` holds, on what it holds."""
        jobs, resources = self._state.jobs, self._resources
        gpus = float(jobs.held[row])
        if gpus <= 0.0:
            return 0.0
        spec = self.known[int(jobs.number[row])].spec
        gpu_type = int(jobs.type[row])
        slots = np.array(resources.slots_of(row), dtype=np.int64) if resources.named else NO_INTS
        there = resources.nodes_of(slots) if len(slots) else NO_INTS
        nodes = max(len(there), 1)
        partner = int(jobs.partner[row])
        beside = "" if partner < 0 else self._grants.neighbours[partner]
        rate = rate_of(spec, truth, gpus, resources.types[gpu_type], nodes, done, beside)
        if truth.spread_slowdown:
            whole = math.ceil(gpus)
            apart = resources.nodes_apart(there, whole)
            rate *= resources.spread_factor(truth.spread_slowdown, whole, nodes, apart)
        if len(slots) and (slowdowns := resources.slowdowns.get(spec.variability)) is not None:
            rate /= float(slowdowns[slots].max())
        if truth.sensitivity is None:
            return rate
        amounts = float(jobs.cpus[row]), float(jobs.memory[row])
        if math.isnan(amounts[0]):
            amounts = resources.share_of(slots, gpu_type)
        return rate * truth.sensitivity.share(*amounts)

    def believe_rate(self, row: int) -> None:
        """Write how fast the job in ``row`` is believed to be, where the forward loop has no formula."""
        jobs, now = self._state.jobs, float(self._state.clock[NOW])
        unit, table = float(jobs.unit_rate[row]), float(jobs.table[row])
        if math.isnan(unit) and table < 0.0:
            known = self.known[int(jobs.number[row])]
            done = work_done(jobs, row, now) if known.believed.regimes else 0.0
            jobs.rate[row] = self.rate_now(row, known.believed, done)

    def rates(self, view: JobView) -> RateTable:
        """The table of `View.rates`."""
        s = self._state
        table = self._curves.table(
            s.jobs,
            view.rows,
            lambda number: self.known[number].believed,
            self._resources.types,
            np.array(s.types.capacity, dtype=np.float64),
        )
        view.refresh("curve")
        return table

    def rates_basis(self, view: JobView) -> bytes:
        """The bytes of `View.rates_basis`."""
        self.rates(view)
        return self._curves.digests(view.curve)

    def rates_beside(self, number: int, other: int) -> list[float]:
        """The rates of `View.beside`."""
        spec, believed = self.known[number]
        model = believed.beside.get(self.known[other].spec.name)
        types = self._resources.types
        if model is None or believed.regimes:
            return [0.0] * len(types)
        return [model.rate(spec.gpus, gpu_type) for gpu_type in types]

    def measured_seconds_left(
        self, report: ProgressReported, now: float, estimator: Estimator
    ) -> float | None:
        """Seconds that a job has left by what it reports; None where that is no news to the estimator."""
        row, s = self.known.rows.get(report.number), self._state
        if row is None or int(s.jobs.attempt[row]) != report.attempt or not s.jobs.rate[row]:
            return None
        left = remaining_work(s.jobs, row, now) / float(s.jobs.rate[row])
        return estimator.measure(report, left)
