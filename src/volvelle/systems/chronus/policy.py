"""Chronus (Gao et al., SoCC'21): deadlines that are guaranteed when a job comes, and kept by leases."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from volvelle.core.columns import (
    GPUS,
    NUMBER,
    REQUEST_RATE,
    RESIZE,
    RESTORE,
    SCALE,
    START_GAP,
    STARTS_OVER,
    TABLE,
    TOTAL,
    TYPES,
    UNIT_RATE,
)
from volvelle.core.compiled import compiled
from volvelle.core.decision import Promise
from volvelle.core.eligibility import mean_rate
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, work_left
from volvelle.core.policy import Allocation, Kernel, SolverGaps, policies
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.job import JobSpec
from volvelle.systems.chronus.cycle import decide, go_on
from volvelle.systems.chronus.look import (
    COUNTED,
    LAST,
    LATER,
    MOST_STEPS,
    NEW,
    OF_USER,
    OWN_COLUMNS,
    PROMISED,
    READ,
    SECONDS,
    SEEN,
    START,
    STEPS,
    UNTIL,
    count_starts,
    is_plain,
    may_be_promised,
    plain_look,
)
from volvelle.systems.chronus.memory import (
    CHOSEN,
    PLAIN,
    SELECTS,
    STAGE,
    TOLD,
    TRIES,
    begin,
    chosen_of,
    is_begun,
    lacks_room,
    opened,
    told_of,
    with_room,
)
from volvelle.systems.chronus.reasons import promise_of, steps_of
from volvelle.systems.chronus.selection import select, window_is_short
from volvelle.systems.chronus.terms import Terms
from volvelle.systems.hived.cells import round_up

_is_plain = compiled(is_plain)
_COMPILED_FROM = 14_000
"""Jobs of which interpreting costs as much as compiling the kernel, 29 s of CPU time at 2.1 ms a job."""


@policies.register
class Chronus(Terms):
    """Deadlines guaranteed on leases; jobs without a guarantee by least remaining service."""

    name: ClassVar[str] = "chronus"
    source: ClassVar[str] = "Chronus (SoCC'21), section 3.3"
    optimises: ClassVar[str] = "deadlines kept, then mean JCT of best effort"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    gangs: ClassVar[bool] = True
    guarantees: ClassVar[bool] = True
    columns: ClassVar[int] = OWN_COLUMNS

    _memory: Floats = PrivateAttr(default_factory=begin)
    """See `volvelle.systems.chronus.memory`."""
    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)

    def kernel(self, *, named: bool) -> Kernel:
        """The decision, but for what `refresh` reads and for jobs of which only `allocate` knows."""
        return Kernel(
            decide,
            self._memory,
            rates=False,
            yields=True,
            tells=TOLD,
            compiled_from=_COMPILED_FROM,
        )

    def refresh(self, view: View) -> tuple[str, ...] | None:
        """Read what jobs declare that come, make room, select; None where `allocate` has to decide."""
        jobs = self._read(view)
        if self._memory[PLAIN] == 0.0 or not _is_plain(jobs):
            return None
        self._prepare(view, jobs, lambda: plain_look(jobs, view.now))
        return ()

    def allocate(self, view: View) -> Allocation:
        """Answer those that came; at the end of a lease decide anew, else let idle GPUs be used."""
        if not len(view.jobs):
            return Allocation(np.empty(0))
        jobs = self._read(view)
        look, out = self._look(view), np.zeros((4, len(view.jobs)))
        out[3] = np.arange(len(view.jobs))
        cluster = view.cluster(np.zeros((0, 0, 0)))
        while (ask_at := go_on(jobs, look, cluster, self._memory, out)) == -INFINITY:
            self._prepare(view, jobs, lambda: look)
        order, told = out[3].astype(np.int64), self.told(view.spec)
        return Allocation(
            out[TARGET],
            out[TARGET_TYPE],
            out[TARGET_REASON],
            order,
            promises=told,
            ask_at=ask_at,
        )

    def told(self, spec: Callable[[int], JobSpec]) -> tuple[Promise, ...]:
        """The guarantees that the last decision has made or changed."""
        memory = self._memory
        rows, memory[TOLD] = told_of(memory)[:, : int(memory[TOLD])].T, 0.0
        return tuple(promise_of(one, spec(int(one[0])), memory) for one in rows)

    def _read(self, view: View) -> Floats:
        """The jobs' columns, with what the users of those declared that come."""
        if not is_begun(self._memory):
            plain = len(view.capacity) == 1 and not (self.rounded or self._limits_shares)
            self._memory = opened(self, view.capacity, view.quota, view.now, plain=plain)
            view.jobs.own[:] = 0.0
        jobs = view.jobs.matrix
        for at in np.flatnonzero(jobs[SEEN] == NEW).tolist():
            number = int(jobs[NUMBER, at])
            spec, given = view.spec(number), view.promises.get(number)
            jobs[SEEN, at], jobs[LATER, at] = READ, spec.accept_later
            if given is not None:
                jobs[UNTIL, at] = INFINITY if given.finish_by is None else given.finish_by
            if spec.rewards:
                last = max(reward.deadline_seconds for reward in spec.rewards)
                jobs[LAST, at] = spec.submit_time + last
                due = [until for until, _ in steps_of(spec)]
                few = len(due) <= MOST_STEPS
                jobs[STEPS : STEPS + len(due), at] = due if few else np.nan
        return jobs

    @property
    def _limits_shares(self) -> bool:
        return min(self.user_share, self.pool_share) < 1.0

    def _prepare(self, view: View, jobs: Floats, look: Callable[[], Floats]) -> None:
        """Make the room that a decision needs to go on; solve the program that it waits for."""
        selects = self._memory[STAGE] == SELECTS
        if lacks_room(self._memory) or (selects and window_is_short(self._memory)):
            self._memory = with_room(self._memory)
        if not selects:
            return
        seen, memory = look(), self._memory
        able = [may_be_promised(jobs, seen, job, view.now) for job in range(jobs.shape[1])]
        found = np.flatnonzero(able)
        worth = {}
        for at in found.tolist():
            spec = view.spec(int(jobs[NUMBER, at]))
            worth[at] = [
                (spec.submit_time + each.deadline_seconds, each.value) for each in spec.rewards
            ]
        tried = select(jobs, seen, memory, found, worth, self.lease, self._gaps)
        chosen_of(memory)[: len(tried)] = jobs[NUMBER, tried[::-1]]
        memory[CHOSEN], memory[STAGE] = len(tried), TRIES

    def _look(self, view: View) -> Floats:
        """The look at the jobs of ``view``, whatever its GPU types and jobs."""
        jobs, types = view.jobs.matrix, len(view.capacity)
        left = _seconds(view, work_left(jobs, len(view.jobs), view.now))
        whole = left
        if (jobs[STARTS_OVER] == 1.0).any():
            whole = _seconds(view, jobs[TOTAL] * jobs[SCALE], begun=False)
        look = np.vstack([np.zeros((SECONDS, len(view.jobs))), left, whole, _due(view)])
        look[START] = np.maximum(jobs[START_GAP], jobs[RESTORE if types == 1 else RESIZE])
        look[COUNTED] = self._counted(view)
        if self._limits_shares:
            look[OF_USER : PROMISED + 1] = _sharing(view)
        count_starts(jobs, look, types, view.now)
        return look

    def _counted(self, view: View) -> FloatColumn:
        gpus = view.jobs.gpus
        if not self.rounded:
            return gpus
        largest = int(view.resources.node_gpus.max())
        return np.array([float(round_up(math.ceil(wide), largest)) for wide in gpus.tolist()])


def _sharing(view: View) -> Floats:
    """(3, jobs) numbers of users and pools, and which jobs were guaranteed something."""
    numbers = view.jobs.number.astype(np.int64).tolist()
    specs, places = [view.spec(number) for number in numbers], {"": 0}
    given = [view.promises.get(number) for number in numbers]
    return np.array(
        [
            [places.setdefault(spec.user, len(places)) for spec in specs],
            [places.setdefault(spec.pool, len(places)) for spec in specs],
            [one is not None and one.finish_by is not None for one in given],
        ],
        dtype=np.float64,
    )


def _due(view: View) -> Floats:
    """(steps, jobs) when steps of jobs are due, as `STEPS`."""
    jobs = view.jobs.matrix
    due, many = jobs[STEPS:], np.flatnonzero(np.isnan(jobs[STEPS]))
    steps = {at: steps_of(view.spec(int(jobs[NUMBER, at]))) for at in many.tolist()}
    if steps:
        most = max(map(len, steps.values()))
        due = np.pad(due, ((0, most - MOST_STEPS), (0, 0)))
        for at, each in steps.items():
            due[: len(each), at] = [until for until, _ in each]
    return due


def _seconds(view: View, work: FloatColumn, *, begun: bool = True) -> Floats:
    """(types, jobs) seconds of so much work; of the last work of each job, or not ``begun`` of its first."""
    jobs, kinds = view.jobs.matrix, np.arange(len(view.capacity))
    if len(kinds) == 1:
        seconds: Floats = (work / jobs[REQUEST_RATE])[None, :]
    else:
        table, wide = view.rates(), np.ceil(jobs[GPUS]).astype(np.int64)
        within = np.minimum(wide, table.shape[2] - 1)
        rates = np.where(wide == within, table[view.jobs.curve, kinds[:, None], within], 0.0)
        rates = rates * (jobs[GPUS] / wide)
        able = (jobs[TYPES].astype(np.int64) >> kinds[:, None]) & 1
        seconds = np.full(rates.shape, np.inf)
        np.divide(work, rates, out=seconds, where=(rates > 0.0) & (able == 1))
    done = view.jobs.work_done if begun else np.zeros(len(view.jobs))
    unlike = np.isnan(jobs[UNIT_RATE]) & (jobs[TABLE] < 0.0)
    for at in np.flatnonzero(unlike).tolist():
        believed, gpus = view.believed(int(jobs[NUMBER, at])), float(jobs[GPUS, at])
        for kind in np.flatnonzero(seconds[:, at] < np.inf).tolist() if believed.regimes else ():
            rate = mean_rate(believed, gpus, view.gpu_types[kind], float(done[at]))
            seconds[kind, at] = work[at] / rate
    return seconds
