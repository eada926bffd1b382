"""Anticipatory scheduling by coarse predictions (figures 7 and 8, sections 5.2 to 5.5): the paper's SIA.

**Dedicated** jobs of a pool start in order of submission on the GPUs that it owns. Other idle GPUs are
**spare**. For each quantum, the shortest first, pools keep as many of them as they may need in it, for jobs
that wait and for predicted jobs (`coming`). Jobs believed to end within the quantum borrow the rest, the pool
with the least of the GPUs it owns first. A job stays dedicated or a borrower to its end, so that borrowers
take nothing from the GPUs that their own pool owns.

A pool whose dedicated jobs always find their GPUs is never later than in its isolated reference: its
dedicated jobs are a part of its jobs, in their order, and where jobs are left out the others start no later.

**Harm control** (ours, `harm_control`): a pool keeps a share of its unused GPUs, its level, and work counts
as predicted from a chance of 1 - level on, at most the threshold. Borrowers are bounded, and a job without a
limit borrows nothing, since no belief about its end keeps the promise (docs/decisions/0093).

**Preemption** (5.5): with ``preempt`` borrowers are stopped if an owner needs their GPUs. GPUs of borrowers
that may be stopped are not kept a second time, and such borrowers may take GPUs that are kept, where a stop
and a restart cost little. A borrower whose turn has come in its own pool becomes dedicated where it runs, and
the jobs behind it wait for that, so that a stop never makes it late: where all borrowers may be stopped at no
cost, no job is later than in the reference, with any arrivals and durations.

**Bounds** (ours): with ``bounded`` a borrower ends within a quantum if its time limit is over by then, since
it is ended at its limit; estimates do not matter. Where the load to come is known, no job is later than in
the reference. A job without a limit borrows GPUs beyond the most that came in one of the recent quanta of
any length, at any chance: with the defaults, in twelve days.

Departures. Jobs longer than the last quantum borrow nothing, as in the paper. Jobs that no pool could ever
serve (of no pool, or wider than theirs) may borrow, at any length, where no others wait: in the reference,
too, they run on idle GPUs. Where too little is known for a quantum, no GPUs are lent in it. GPUs are counted,
as in `policy`; with ``locality`` they are GPUs of nodes (`coarse_by_node`). ``harm`` is known by counting.
"""

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.columns import ATTAINED, GPUS, HELD, NUMBER, POOL, TIME_LIMIT, TYPES
from volvelle.core.policy import Allocation, Kernel, Policy, allocate_by_groups, policies
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.model.validation import Seconds
from volvelle.systems.anticipatory.coarse_by_node import NodeLender, home_nodes_of
from volvelle.systems.anticipatory.coming import LoadPredictions, expected_load, lasting, read_model
from volvelle.systems.anticipatory.harm_control import HarmControl
from volvelle.systems.anticipatory.kinds import kind_of, kinds_of
from volvelle.systems.anticipatory.lending import decide
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BEHIND,
    BOUNDED,
    BY_MODEL,
    LEAST_PRECISION,
    LEAST_RECALL,
    LEVEL,
    NOTED,
    PREEMPT,
    THRESHOLD,
    WINDOWS,
    Memory,
)
from volvelle.systems.anticipatory.quanta import DEFAULT, Quanta, read_quanta

_GPUS_SHORT, _QUOTA, _RESERVED = map(float, (Reason.GPUS, Reason.QUOTA, Reason.RESERVED))

Share = Annotated[float, Field(ge=0, le=1)]


@policies.register
class Anticipatory(Policy):
    """Idle GPUs of pools for jobs that end before their owners are expected to need them."""

    name: ClassVar[str] = "anticipatory"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) sections 5.2 to 5.5, figures 7 and 8"
    optimises: ClassVar[str] = "mean JCT, with little harm to the pools that lend"
    work_conserving: ClassVar[bool] = False
    gangs: ClassVar[bool] = True
    columns: ClassVar[int] = 2

    quanta: Quanta = Field(DEFAULT, description="stretches of time that are predicted: 5m/1h/12h")
    model: str = Field("", description="file of `volvelle train-arrivals`; without: recent rates")
    refit: Seconds = Field(0.0, description="seconds between trainings on what was seen; 0: never")
    threshold: Share = Field(0.5, description="from which chance on work counts as predicted")
    recent: Annotated[int, Field(ge=1)] = Field(
        24, description="quanta back that count for the load that comes"
    )
    least_recall: Share = Field(0.5, description="a pool lends nothing for a quantum below it")
    least_precision: Share = Field(0.0, description="the same")
    harm: Share = Field(
        0.0, description="share of jobs that may be later than alone; 0: not held to one"
    )
    step: Annotated[float, Field(gt=0)] = Field(
        0.1, description="how far one late job moves a level"
    )
    preempt: bool = Field(False, description="stop borrowers that may be where an owner needs GPUs")
    bounded: bool = Field(
        False,
        description="borrowers go by their time limits (always with harm); without one, by what came in "
        "a dozen days",
    )
    locality: bool = Field(
        False,
        description="GPUs of a job, and those kept for a pool, are on few nodes (placement that names GPUs)",
    )

    _coming: LoadPredictions | None = PrivateAttr(None)
    _control: HarmControl | None = PrivateAttr(None)
    _last: tuple[Floats, Floats] = PrivateAttr(
        default_factory=lambda: (np.zeros((3, 0)), np.zeros(0))
    )
    _known: Memory = PrivateAttr(default_factory=Memory)

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.locality and self.preempt:
            raise ValueError("locality and preempt do not go together: set one of them")
        return self

    @property
    def stops_jobs(self) -> bool:
        """As the parameter ``preempt`` says."""
        return self.preempt

    @property
    def chooses_nodes(self) -> bool:
        """As the parameter ``locality`` says."""
        return self.locality

    @property
    def _by_limits(self) -> bool:
        """Whether borrowers go by their time limits."""
        return self.bounded or self.harm > 0.0

    @property
    def harmed(self) -> Floats:
        """Jobs later than in the isolated reference, and all judged jobs, (2, pools); none without harm."""
        return self._control.seen if self._control is not None else np.zeros((2, 0))

    def kernel(self, *, named: bool) -> Kernel | None:
        """The decision between two predictions."""
        if (
            self.harm
            or self.preempt
            or self.bounded
            or self.locality
            or type(self).expected is not Anticipatory.expected
        ):
            return None  # levels move, or jobs change their kinds
        return self._kernel

    @property
    def _kernel(self) -> Kernel:
        memory = self._known
        return Kernel(
            decide, memory.words, rates=False, group=kind_of, groups=memory.kinds, yields=True
        )

    def allocate(self, view: View) -> Allocation:
        """Start dedicated jobs, then borrowers."""
        self._begin(view)
        control, memory, matrix = self._control, self._known, view.jobs.matrix
        notices: tuple[str, ...] = ()
        if control is not None:
            notices, levels = tuple(control.follow(view)), control.levels
            memory.tables.by_pool[LEVEL, :-1] = np.clip(levels, 0.0, 1.0)
            memory.tables.by_pool[THRESHOLD, :-1] = np.minimum(1.0 - levels, self.threshold)
        behind = True
        while behind:
            kinds = kinds_of(matrix, view.now, memory.words)
            behind = memory.words[BEHIND] > 0.0
            if behind or view.now >= memory.words[ASK_AT]:
                notices += self.refresh(view)
        memory.tables.expected[:] = self._kept_for(view)
        if control is not None:
            notices += tuple(control.exclude(memory.tables, kinds[matrix[HELD] == 0.0]))
        if self.locality and view.resources.named:
            answer = NodeLender(view, home_nodes_of(view), memory.tables, kinds).serve(
                float(memory.words[ASK_AT])
            )
        else:
            answer = allocate_by_groups(view, self._kernel, kinds, np.zeros((0, 0, 0)))
            answer = _with_reasons(answer, view)
        if control is not None:
            for row in np.flatnonzero((matrix[HELD] == 0.0) & (answer.gpus > 0.0)).tolist():
                if (pool := int(matrix[POOL, row])) >= 0:
                    control.start(int(matrix[NUMBER, row]), pool, view.now)
        reserved = np.flatnonzero(answer.reason == _RESERVED)
        seconds = view.jobs.total_seconds[reserved]
        if self._by_limits:
            limits = matrix[TIME_LIMIT, reserved]
            left = np.maximum(limits - matrix[ATTAINED, reserved], 0.0)
            seconds = np.where(limits > 0.0, left, np.inf)
        self._last = (
            np.array([matrix[NUMBER, reserved], matrix[POOL, reserved], seconds]),
            memory.tables.kept.copy(),
        )
        return answer._replace(notices=notices)

    def refresh(self, view: View) -> tuple[str, ...]:
        """Make room; predict anew where that is due."""
        coming, memory = self._begin(view), self._known
        if memory.words[BEHIND] > 0.0:
            memory.grow()
        if view.now >= memory.words[ASK_AT]:
            coming.predict(view, memory)
        memory.tables.expected[:] = self._kept_for(view)
        notices, coming.notices = tuple(coming.notices), []
        return notices

    def why(self, number: int) -> str:
        """The pool and quantum for which GPUs are kept that job ``number`` could use."""
        jobs, kept = self._last
        coming, found = self._coming, np.flatnonzero(jobs[0] == number)
        if coming is None or not len(found):
            return ""
        pool, seconds = int(jobs[1, found[0]]), jobs[2, found[0]]
        last = len(coming.quanta) - 1
        at = min(int(np.searchsorted(coming.quanta, seconds)), len(kept) - 1)
        others = kept[at].copy()
        if pool >= 0:
            others[pool] = 0.0
        if not others.any():
            return ""
        of, within = coming.names[int(others.argmax())], lasting(coming.quanta[min(at, last)])
        if at > last:
            return f"pool {of} lends GPUs to jobs with a time limit of at most {within}"
        return f"GPUs of pool {of} are kept for work expected within {within}"

    def expected(self, view: View) -> Floats:
        """GPUs kept for work to come in each pool, (quanta, pools); infinite: all that it does not use."""
        found = expected_load(self._known.words)
        if self._control is not None:
            found[:, self._control.levels >= 1.0] = np.inf
        return found

    def _kept_for(self, view: View) -> Floats:
        """`expected`, with a last row for borrowers without a known end."""
        found = self.expected(view)
        if not self._by_limits:
            return found
        known = np.isfinite(found).all(axis=0) & (self.harm == 0.0)
        most = np.where(known, self._known.predictions.load.max(axis=0), np.inf)
        return np.vstack([found, np.maximum(most, found.max(axis=0))])

    def _begin(self, view: View) -> LoadPredictions:
        """The predictions, which begin with the first decision."""
        if (coming := self._coming) is not None:
            return coming
        quanta, memory = read_quanta(self.quanta), self._known
        model = read_model(self.model, quanta) if self.model else None
        every = np.array(quanta)
        self._coming = LoadPredictions(view.pools, every, self.refit, view.now, model)
        earlier = {} if model is None else model.earlier
        room = max((max(len(p.came), len(p.ended)) for p in earlier.values()), default=0)
        last = np.full(1 if self._by_limits else 0, np.inf)
        memory.begin(every, last, len(view.pools), room, view.now)
        for pool, name in enumerate(view.pools):
            if name in earlier:
                memory.past.begin(pool, earlier[name], view.now)
        memory.tables.by_pool[THRESHOLD] = self.threshold
        memory.words[[PREEMPT, BOUNDED]] = self.preempt, self._by_limits
        memory.words[BY_MODEL] = self.refit > 0.0 or model is not None
        memory.words[[WINDOWS, LEAST_RECALL, LEAST_PRECISION]] = (
            self.recent,
            self.least_recall,
            self.least_precision,
        )
        view.jobs.matrix[NOTED] = 0.0  # another policy may have had the columns
        if self.harm:
            self._control = HarmControl(
                view.pools, view.owned, self.harm, self.step, self.round or 0.0
            )
        return self._coming


def _with_reasons(answer: Allocation, view: View) -> Allocation:
    """The answer with the reason of each job that waits: its quota, GPUs kept for others, or no idle GPUs."""
    matrix, reasons = view.jobs.matrix, answer.reason
    assert answer.gpu_type is not None
    has = answer.gpus > 0.0
    free = view.capacity - np.bincount(
        answer.gpu_type[has].astype(np.int64), answer.gpus[has], len(view.capacity)
    )
    types, fits = matrix[TYPES].astype(np.int64), np.zeros(len(has), dtype=np.bool_)
    for gpu_type, idle in enumerate(free.tolist()):
        fits |= ((types >> gpu_type) & 1 == 1) & (matrix[GPUS] <= idle + SAME_AMOUNT)
    wide = matrix[GPUS] > np.append(view.quota, np.inf)[view.jobs.pool] + SAME_AMOUNT
    quota = wide & (matrix[HELD] == 0.0) | (reasons == _QUOTA)
    reasons = np.where(quota, _QUOTA, np.where(fits, _RESERVED, _GPUS_SHORT))
    return answer._replace(reason=np.where(has, 0.0, reasons))
