"""The scheduler: a pure state machine. Events in, one decision out; no clock, no I/O, no threads.

A cycle (`Scheduler.handle`) reads top to bottom::

    events ─▶ fold into state ─▶ admit ─▶ due? ─▶ allocate (policy) ─▶ place ─▶ commit ─▶ decision
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from volvelle.core.columns import Column, Reason
from volvelle.core.decision import NO_INTS, Decision, IntArray, Rejection, Sharing
from volvelle.core.dividing import divide
from volvelle.core.events import (
    Event,
    JobCancelled,
    JobSubmitted,
)
from volvelle.core.folding import Folding
from volvelle.core.kernels import (
    TARGET,
    TARGET_TYPE,
    apply,
    fill,
    note_reasons,
    unit_rates,
)
from volvelle.core.parts import Verdict
from volvelle.core.placing import Changes, Placer
from volvelle.core.policy import Allocation, View, rank
from volvelle.core.standing import Neighbour
from volvelle.core.state import FloatColumn


class Scheduler(Folding):
    """The cycle: fold, admit, ask the policy, place, commit."""

    # ------------------------------------------------------------------ the cycle

    def handle(self, now: float, events: Sequence[Event]) -> Decision:
        """Take all that happened at ``now`` and answer what changes."""
        self._take_in(now, events)
        decision = self._decide() if self._due() else self._unchanged()
        return self._with_stops(decision) if self._stopped_by_hand else decision

    def follow(self, now: float, events: Sequence[Event], decision: Decision) -> None:
        """Let ``decision`` be what was decided then, by another policy or another version of this one.

        The policy is not asked and so remembers nothing of it; it is asked at the next `handle`.
        """
        self._take_in(now, events)
        gone = {rejection.number for rejection in decision.rejected}
        gone |= {conclusion.number for conclusion in decision.concluded}
        for number in sorted(gone):
            self._fold(JobCancelled(now, number))
        numbers = decision.job.tolist()
        for event in [event for event in self._door if event.number in numbers]:
            self._door.remove(event)
            self._add(event)
        followed = [i for i, number in enumerate(numbers) if number in self.jobs.row_of]
        rows = np.array([self.jobs.row_of[numbers[i]] for i in followed], dtype=np.int64)
        for i, other in enumerate(decision.partner.tolist()):
            self._pair(numbers[i], other)
        slots = None
        if self.composition.placement.names_gpus:
            slots = [decision.slots_of(i) for i in followed]
            for i in followed:
                self._release(numbers[i])
            for i, taken in zip(followed, slots, strict=True):
                self.resources.take(taken, numbers[i])
        types = decision.gpu_type[followed].astype(np.float64)
        self._commit(Changes(rows, decision.gpus[followed], types, slots))
        self.jobs.matrix[Column.ATTEMPT, rows] = decision.attempt[followed]
        self._dirty = True

    def _take_in(self, now: float, events: Sequence[Event]) -> None:
        """Let the state follow what happened, and admit who may enter."""
        self.now = now
        self._rejected = []
        self._concluded = []
        self._stopped_by_hand = []
        for event in events:
            self._fold(event)
        if self._door:
            self._admit()

    def _decide(self) -> Decision:
        """Ask the policy, place, commit."""
        self._dirty = False
        view = self.view()
        allocation = self.composition.policy.allocate(view)
        changes = self._changes(view, allocation)
        self._named_wake = self.composition.policy.next_wake(view)
        decision = self._commit(changes)
        if self.composition.policy.divides:
            return self._divide(decision, allocation.order)
        return decision

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
        if partner is not None or self.sharing:
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
            before = self.sharing.get(number)
            if other != (-1 if before is None else before.number) and gpus[row] > 0:
                changed.add(row)
            self._pair(number, int(other))
        return np.array(sorted(changed), dtype=np.int64)

    def _pair(self, number: int, other: int) -> None:
        """Note that a job shares its GPUs with ``other``, -1 for nobody."""
        if other >= 0:
            self.sharing[number] = Neighbour(other, self.known[other].spec.name)
        else:
            self.sharing.pop(number, None)

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
            self._partners(numbers) if self.sharing else NO_INTS,
        )

    def _with_stops(self, decision: Decision) -> Decision:
        """``decision``, and before it that jobs held by their users stop."""
        stopped, attempts = np.array(self._stopped_by_hand, dtype=np.int64).T
        nothing = np.zeros(len(stopped), dtype=np.int64)
        return msgspec.structs.replace(
            decision,
            job=np.concatenate([stopped, decision.job]),
            gpus=np.concatenate([nothing.astype(np.float64), decision.gpus]),
            gpu_type=np.concatenate([nothing - 1, decision.gpu_type]),
            attempt=np.concatenate([attempts, decision.attempt]),
            slot_offsets=np.concatenate([nothing, decision.slot_offsets])
            if len(decision.slot_offsets)
            else NO_INTS,
            partner=np.concatenate([nothing - 1, decision.partner])
            if len(decision.partner)
            else NO_INTS,
        )

    def _partners(self, numbers: IntArray) -> IntArray:
        """With whom each job shares its GPUs, -1 for nobody."""
        beside = (self.sharing.get(number) for number in numbers.tolist())
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
