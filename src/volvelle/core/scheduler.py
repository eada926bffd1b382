"""The scheduler: a pure state machine. Events in, one decision out; no clock, no I/O, no threads.

A cycle (`Scheduler.handle`) reads top to bottom::

    events ─▶ fold into state ─▶ admit ─▶ due? ─▶ allocate (policy) ─▶ place ─▶ commit ─▶ decision
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from volvelle.core.columns import Column, Reason
from volvelle.core.decision import NO_INTS, Conclusion, Decision, IntArray, Rejection, Sharing
from volvelle.core.dividing import divide
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    Recomposed,
    TrainingReported,
    WakeUp,
)
from volvelle.core.kernels import (
    TARGET,
    TARGET_TYPE,
    apply,
    fill,
    note_reasons,
    unit_rates,
)
from volvelle.core.parts import Belief, Verdict, admissions
from volvelle.core.placing import Changes, Placer
from volvelle.core.policy import Allocation, View, policies, rank
from volvelle.core.standing import Neighbour, Standing
from volvelle.core.state import FloatColumn


class Scheduler(Standing):
    """How things stand, and the cycle that changes it: fold, admit, ask the policy, place, commit."""

    _rejected: list[Rejection]
    _concluded: list[Conclusion]

    # ------------------------------------------------------------------ the cycle

    def handle(self, now: float, events: Sequence[Event]) -> Decision:
        """Take all that happened at ``now`` and answer what changes."""
        self.now = now
        self._rejected = []
        self._concluded = []
        for event in events:
            _FOLDS[type(event)](self, event)
        if self._door:
            self._admit()
        if not self._due():
            return self._unchanged()
        self._dirty = False
        view = self.view()
        allocation = self.composition.policy.allocate(view)
        changes = self._changes(view, allocation)
        self._named_wake = self.composition.policy.next_wake(view)
        decision = self._commit(changes)
        if self.composition.policy.divides:
            return self._divide(decision, allocation.order)
        return decision

    # ------------------------------------------------------------------ folding events

    def _submitted(self, event: JobSubmitted) -> None:
        if reason := self.obstacle(event.spec):
            self._rejected.append(Rejection(event.number, reason))
        else:
            self._door.append(event)

    def _started(self, event: JobStarted) -> None:
        if self._current(event.number, event.attempt):
            matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
            gap = matrix[Column.PROGRESS_FROM, row] - matrix[Column.STARTED, row]
            if matrix[Column.FIRST_START, row] == matrix[Column.STARTED, row]:
                matrix[Column.FIRST_START, row] = event.start
            matrix[Column.STARTED, row] = event.start
            matrix[Column.PROGRESS_FROM, row] = event.start + gap

    def _finished(self, event: JobFinished) -> None:
        if self._current(event.number, event.attempt):
            self._complete(event.number, event.time)

    def _complete(self, number: int, time: float) -> None:
        """Learn from a job that is done, and let it go."""
        matrix, row = self.jobs.matrix, self.jobs.row_of[number]
        spec = self.known[number].spec
        last_run = time - float(matrix[Column.STARTED, row])
        run_seconds = float(matrix[Column.ATTAINED, row]) + last_run
        service = float(matrix[Column.ATTAINED_GPU, row] + last_run * matrix[Column.HELD, row])
        self.composition.estimator.learn(spec, run_seconds)
        self.composition.policy.learn(spec, service)
        self._remove(number)

    def _stopped(self, event: JobStopped) -> None:
        self.stopping.pop((event.number, event.attempt), None)
        if event.number in self.jobs.row_of and not self.jobs.get(event.number, Column.HELD):
            self.jobs.matrix[Column.DONE, self.jobs.row_of[event.number]] = event.work_done

    def _failed(self, event: JobFailed) -> None:
        if not self._current(event.number, event.attempt):
            return
        number = event.number
        self._failures[number] += 1
        failures = self._failures[number]
        if failures > self.known[number].spec.max_retries:
            self._rejected.append(Rejection(number, f"failed {failures} times: {event.reason}"))
            self._remove(number)
            return
        self._vacate(number)
        row = self.jobs.row_of[number]
        self.jobs.matrix[Column.DONE, row] = event.work_done
        self.jobs.matrix[Column.CURVE, row] = -1.0  # it may be back at an earlier batch size
        self.jobs.matrix[Column.PREEMPTIONS, row] -= 1  # a failure is not the scheduler's doing
        self._dirty = True

    def _cancelled(self, event: JobCancelled) -> None:
        if event.number in self.known:
            self._remove(event.number)
        else:
            self._door = deque(job for job in self._door if job.number != event.number)

    def _batch_size_changed(self, event: BatchSizeChanged) -> None:
        if event.number not in self.known:
            return
        known = self.known[event.number]
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.CURVE, row] = -1.0
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        full_type = self._first_type(int(matrix[Column.TYPES, row]))
        for column, gpus in (
            (Column.FULL_RATE, known.spec.most_gpus),
            (Column.REQUEST_RATE, known.spec.gpus),
        ):
            matrix[column, row] = self._mean_rate(known.believed, gpus, full_type, event.work_done)
        if held := float(matrix[Column.HELD, row]):
            gpu_type = int(matrix[Column.TYPE, row])
            matrix[Column.RATE, row] = self._rate(event.number, known, row, held, gpu_type)
        self._dirty = True

    def _training_reported(self, event: TrainingReported) -> None:
        if not self._current(event.number, event.attempt):
            return
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        self.composition.policy.hear(event)
        self._dirty = True

    def _loss_reported(self, event: LossReported) -> None:
        if not self._current(event.number, event.attempt):
            return
        spec = self.known[event.number].spec
        if reason := self.composition.termination.judge(spec, event.work_done, event.loss):
            self._concluded.append(Conclusion(event.number, reason))
            if self._checkpoints:
                self._note_stops(np.array([self.jobs.row_of[event.number]]))
            self._complete(event.number, event.time)
        elif belief := self.composition.estimator.observe(spec, event.work_done, event.loss):
            self._believe(event, belief)

    def _believe(self, event: LossReported, belief: Belief) -> None:
        """Go on from what was seen, with another belief about what is left."""
        known = self.known[event.number]
        self.known[event.number] = known._replace(believed=belief.truth)
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.TOTAL, row] = belief.truth.work
        matrix[Column.SCALE, row] = belief.scale
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        self._dirty = True

    def _recomposed(self, event: Recomposed) -> None:
        """A new policy knows nothing of the past but the state; jobs that are in stay in."""
        policy, admission = policies.make(event.policy), admissions.make(event.admission)
        if policy.label != self.composition.policy.label:
            self.composition = self.composition._replace(policy=policy)
            self.jobs.clear_own(policy.columns)
            self._eligibility = self._judge_nodes()
            self._named_wake = None
            self._dirty = True
        if admission.label != self.composition.admission.label:
            self.composition = self.composition._replace(admission=admission)

    def _node_changed(self, event: NodeChanged) -> None:
        self.resources.change(event.name, event.state, event.node)
        self._eligibility = self._judge_nodes()
        self._dirty = True
        self._count_capacity()

    def _woken(self, event: WakeUp) -> None:
        """Whether there is anything to do is for `_due` to say."""

    def _current(self, number: int, attempt: int) -> bool:
        """Whether the news is about the job's present run (the fence against late news)."""
        row = self.jobs.row_of.get(number)
        if row is None:
            return False
        matrix = self.jobs.matrix
        return bool(matrix[Column.ATTEMPT, row] == attempt and matrix[Column.HELD, row] > 0)

    # ------------------------------------------------------------------ coming and going

    def _admit(self) -> None:
        capacity = sum(self._capacity.tolist())
        while self._door:
            event = self._door[0]
            verdict = self.composition.admission.judge(event.spec, self._demand, capacity)
            if verdict is Verdict.WAIT:
                return
            self._door.popleft()
            if verdict is Verdict.REJECT:
                name = self.composition.admission.name
                self._rejected.append(Rejection(event.number, f"turned away by admission {name}"))
            else:
                self._add(event)

    def _add(self, event: JobSubmitted) -> None:
        newcomer = self.newcomer(event)
        if isinstance(newcomer, str):
            self._rejected.append(Rejection(event.number, newcomer))
            return
        values, known = newcomer
        self.jobs.add(event.number, values)
        self.known[event.number] = known
        self._demand += event.spec.gpus
        self._checkpoints |= self.overheads.checkpoint_seconds(event.spec) > 0.0
        self._dirty = True

    # ------------------------------------------------------------------ deciding

    def _due(self) -> bool:
        """Whether the policy is to be asked now."""
        policy = self.composition.policy
        named = self._named_wake is not None and self.now >= self._named_wake
        if policy.round is None:
            return self._dirty or named
        if self.now != _boundary_from(self.now, policy.round):
            return False
        return self._dirty or named or (policy.time_varying and self._contended())

    def _contended(self) -> bool:
        """Whether some job runs and some has less than it can use: else time alone changes nothing."""
        held = self.jobs.matrix[Column.HELD, : self.jobs.count]
        most = self.jobs.matrix[Column.MOST, : self.jobs.count]
        return bool(held.any() and (held < most).any())

    def wake_at(self) -> float | None:
        """When to be woken though nothing happens; None for never."""
        policy = self.composition.policy
        if policy.round is not None:
            if self._dirty or (policy.time_varying and self._contended()):
                return next_multiple(self.now, policy.round)
            if self._named_wake is not None:
                return _boundary_from(self._named_wake, policy.round)
            return None
        return self._named_wake

    def _changes(self, view: View, allocation: Allocation) -> Changes:
        """What differs between what jobs hold and what they are to hold, with GPUs chosen."""
        if allocation.gpu_type is None:
            allocation = self._choose_types(view, allocation)
        gpus, types, reasons = allocation.gpus, allocation.gpu_type, allocation.reason
        partner = allocation.partner
        assert types is not None
        if reasons is None:
            reasons = np.where(gpus > 0, 0.0, float(Reason.POLICY))
        rows, total = note_reasons(self.jobs.matrix, gpus, types, reasons)
        if total > view.gpus + 1e-6:
            raise RuntimeError(
                f"policy {self.composition.policy.name!r} gave {total:g} of {view.gpus:g} GPUs"
            )
        if partner is not None or self._beside:
            rows = self._note_partners(rows, gpus, partner)
        if not self.composition.placement.names_gpus:
            return Changes(rows, gpus[rows], types[rows], None)
        placer = Placer(
            self.jobs,
            self.resources,
            self.composition.placement,
            self.slots,
            self.known,
            divides=self.composition.policy.divides,
        )
        if allocation.nodes is not None:
            rows = placer.with_moves(rows, allocation.nodes)
        return placer.place(rows, allocation, types)

    def _note_partners(
        self, rows: IntArray, gpus: FloatColumn, partner: FloatColumn | None
    ) -> IntArray:
        """Keep who shares GPUs with whom; also rows whose GPUs stay and whose neighbour changes."""
        if partner is None:
            partner = np.full(len(gpus), -1.0)
        numbers = self.jobs.matrix[Column.NUMBER, : self.jobs.count].astype(np.int64).tolist()
        changed = set(rows.tolist())
        for row, (number, other) in enumerate(zip(numbers, partner.tolist(), strict=True)):
            before = self._beside.get(number)
            if other != (-1 if before is None else before.number) and gpus[row] > 0:
                changed.add(row)
            if other >= 0:
                self._beside[number] = Neighbour(int(other), self.known[int(other)].spec.name)
            else:
                self._beside.pop(number, None)
        return np.array(sorted(changed), dtype=np.int64)

    def _choose_types(self, view: View, allocation: Allocation) -> Allocation:
        """Types for an allocation that only counts: jobs that run first, then by submission."""
        wanted = np.asarray(allocation.gpus, dtype=np.float64)
        order = rank(np.where(view.jobs.running, 0.0, 1.0), view.jobs)
        given = fill(
            self.jobs.matrix, order, wanted, wanted, view.capacity, view.quota, True, False
        )
        return Allocation(given[TARGET], given[TARGET_TYPE], allocation.reason, allocation.order)

    def _commit(self, changes: Changes) -> Decision:
        """Let the state hold the changes, and put them into words."""
        rows, gpus, types, slots = changes
        if not len(rows):
            return self._unchanged()
        if self._checkpoints:
            self._note_stops(rows[gpus == 0.0])
        numbers, rates, asked = unit_rates(self.jobs.matrix, rows, gpus)
        if slots is not None:
            self.slots.update(zip(numbers.tolist(), slots, strict=True))
        if asked:
            for i in np.isnan(rates).nonzero()[0].tolist():
                known = self.known[int(numbers[i])]
                rates[i] = self._rate(int(numbers[i]), known, rows[i], gpus[i], int(types[i]))
        attempts = apply(self.jobs.matrix, rows, gpus, types, rates, self.now)
        offsets = flat = NO_INTS
        if slots is not None:
            offsets = np.cumsum([0, *(len(taken) for taken in slots)])
            flat = np.concatenate(slots)
        return Decision(
            numbers,
            gpus,
            types.astype(np.int64),
            attempts,
            offsets,
            flat,
            tuple(self._rejected),
            tuple(self._concluded),
            self.wake_at(),
            self._partners(numbers) if self._beside else NO_INTS,
        )

    def _partners(self, numbers: IntArray) -> IntArray:
        """With whom each job shares its GPUs, -1 for nobody."""
        beside = (self._beside.get(number) for number in numbers.tolist())
        return np.array([-1 if one is None else one.number for one in beside], dtype=np.int64)

    def _unchanged(self) -> Decision:
        """The decision that all who stay keep what they hold."""
        return Decision(
            rejected=tuple(self._rejected),
            concluded=tuple(self._concluded),
            wake_at=self.wake_at(),
        )

    def _divide(self, decision: Decision, order: IntArray | None) -> Decision:
        """The decision with the CPUs and memory that go with its GPUs, where that changes."""
        division = divide(
            self.composition.policy,
            self.jobs,
            self.resources,
            self.known,
            self.amounts,
            decision.job,
            order,
        )
        if division is None:
            return decision
        self.amounts = division.amounts
        if not len(division.told):
            return decision
        matrix, told = self.jobs.matrix, division.told
        numbers, gpus = matrix[Column.NUMBER, told].astype(np.int64), matrix[Column.HELD, told]
        for number, row in zip(numbers.tolist(), told.tolist(), strict=True):
            known = self.known[number]
            if known.believed.sensitivity is not None:
                self._settle_work(row)
                held, gpu_type = float(matrix[Column.HELD, row]), int(matrix[Column.TYPE, row])
                matrix[Column.RATE, row] = self._rate(number, known, row, held, gpu_type)
        given = np.array([self.amounts[number] for number in numbers.tolist()]).T
        return msgspec.structs.replace(decision, sharing=Sharing(numbers, *(given * gpus)))


def _boundary_from(now: float, period: float) -> float:
    """The first multiple of ``period`` at or after ``now``."""
    index = math.floor(now / period)
    while index * period < now:
        index += 1
    return index * period


def next_multiple(now: float, period: float) -> float:
    """The first multiple of ``period`` after ``now``."""
    index = math.floor(now / period)
    while index * period <= now:
        index += 1
    return index * period


_FOLDS: dict[type, Callable[[Scheduler, Any], None]] = {
    JobSubmitted: Scheduler._submitted,
    JobStarted: Scheduler._started,
    JobFinished: Scheduler._finished,
    JobStopped: Scheduler._stopped,
    JobFailed: Scheduler._failed,
    JobCancelled: Scheduler._cancelled,
    BatchSizeChanged: Scheduler._batch_size_changed,
    TrainingReported: Scheduler._training_reported,
    LossReported: Scheduler._loss_reported,
    Recomposed: Scheduler._recomposed,
    NodeChanged: Scheduler._node_changed,
    WakeUp: Scheduler._woken,
}
