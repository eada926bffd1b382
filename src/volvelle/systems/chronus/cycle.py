"""One decision of Chronus: what is guaranteed already, who is answered, who runs until the lease ends.

What decisions remember of each other is `Memory`; the rules are those of `volvelle.systems.chronus`.
"""

from collections.abc import Sequence

import numpy as np

from volvelle.core.columns import CHECKPOINT, GPUS, HELD, NUMBER, TYPE, TYPES
from volvelle.core.decision import Promise
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, fill
from volvelle.core.policy import Allocation
from volvelle.core.promises import LEAST_SLACK, over_share
from volvelle.core.state import Reason
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn
from volvelle.model.job import JobSpec
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.model.units import format_duration
from volvelle.systems.chronus.guarantees import Guarantees, Memory
from volvelle.systems.chronus.look import (
    HOLDS,
    LAST,
    MOST_STEPS,
    ROW,
    SEEN,
    STEPS,
    TOO_LARGE,
    Look,
)
from volvelle.systems.chronus.needs import Left, need_now
from volvelle.systems.chronus.reservations import Reservations
from volvelle.systems.chronus.selection import select
from volvelle.systems.chronus.standing import note_given, note_reservations
from volvelle.systems.chronus.terms import Terms
from volvelle.systems.chronus.within import turns

_ORDER = float(Reason.ORDER)


class Cycle:
    """One decision. kept: what is guaranteed already; ``told``: guarantees that it makes or changes."""

    def __init__(self, policy: Terms, memory: Memory, look: Look) -> None:
        self.policy, self.memory, self.look, self.view = policy, memory, look, look.view
        self.kept = Guarantees(policy, memory, look)
        self.told, self.counted = self.kept.told, self.kept.counted
        self._refusal = ""
        """Why the last job that was to be guaranteed something was not."""

    @property
    def book(self) -> Reservations:
        """Reservations."""
        return self.memory.book

    # ------------------------------------------------------------------ answers

    def answer(self) -> None:
        """Tell jobs that are seen for the first time what is guaranteed to them."""
        look, view = self.look, self.view
        new = np.flatnonzero(look.matrix[SEEN] == 0.0)
        if not len(new):
            return
        self.kept.learn_starts()
        look.matrix[SEEN, new] = 1.0
        gpu_seconds = look.least_seconds[new] * look.matrix[GPUS, new]
        self.memory.recent.add(np.full(len(new), view.now), gpu_seconds)
        given = [view.promises.get(look.number(at)) for at in new.tolist()]
        until = [np.inf if one is None or one.finish_by is None else one.finish_by for one in given]
        order = np.lexsort((look.matrix[NUMBER, new], np.array(until), look.gangs[new]))
        for i in order.tolist():
            self._answer_one(int(new[i]), given[i])

    def _answer_one(self, at: int, given: Promise | None) -> None:
        look, number = self.look, self.look.number(at)
        spec = self.view.spec(number)
        if spec.rewards:
            last = max(reward.deadline_seconds for reward in spec.rewards)
            look.matrix[LAST, at] = spec.submit_time + last
            due = [until for until, _ in steps_of(spec)]
            if len(due) > MOST_STEPS:
                look.matrix[STEPS, at] = np.nan
            else:
                look.matrix[STEPS : STEPS + len(due), at] = due
        if not look.gangs[at]:
            if look.matrix[HELD, at] > 0.0:
                self._hold_to_end(at, int(look.matrix[TYPE, at]))
            elif spec.rewards and given is None:
                reason = "it may not be preempted, so nothing is guaranteed before it starts"
                self.told.append(Promise(number, reason=reason))
        elif given is not None and given.finish_by is not None:
            row = self.kept.enter(at)
            self.book.finish_by[row] = given.finish_by
            self.book.type[row] = next(iter(look.types(at)), 0)
            look.matrix[ROW, at] = row + 1.0
            if not self.kept.reserve(at, row, given.finish_by):
                self.kept.arrange()
        elif spec.rewards and (limit := self._limit(at, spec)):
            self.told.append(Promise(number, reason=limit))
        elif spec.rewards and not self._promise(at, steps_of(spec)) and given is None:
            self._offer(at, spec)

    def _limit(self, at: int, spec: JobSpec) -> str:
        """Which limit, its own or that of its user or pool, a guarantee to it would exceed; or empty."""
        if (most := spec.time_limit_seconds) is not None and self.look.least_seconds[at] > most:
            return "its time limit ends it before it is done"
        shares = {"user": self.policy.user_share, "pool": self.policy.pool_share}
        if min(shares.values()) == 1.0:
            return ""
        last = dict(self.view.promises) | {one.number: one for one in self.told}
        here = set(self.book.number[self.book.rows].tolist())
        made = (number for number, one in last.items() if one.finish_by is not None)
        promised = (self.view.spec(number) for number in made if number in here)
        return over_share(spec, promised, self.view.gpus, shares)

    def _promise(self, at: int, steps: Sequence[tuple[float, int]]) -> bool:
        """Guarantee the first of these finishes that can be, if there is one. They are (seconds, step)."""
        look, book = self.look, self.book
        work = float(look.least_seconds[at] * look.matrix[GPUS, at])
        if look.matrix[CHECKPOINT, at] > self.memory.wait:
            self._refusal = (
                "guarantees made before leave no time for a checkpoint as long as its own"
            )
            return False
        if work >= self._too_large:
            look.matrix[SEEN, at] = TOO_LARGE
            return False
        now, rate = self.view.now, self.memory.recent.rate_of_smaller(work, self.view.now)
        row = self.kept.enter(at)
        self._refusal = "guarantees to jobs of its pool need all of its GPUs"
        if self._pool_has_room(row):
            self._refusal = "GPUs are kept for guarantees made before and for smaller jobs to come"
            for finish_by, step in steps:
                room = book.has_room(look.slot, now, finish_by, work, rate)
                if room:
                    more = f" and {margin:.0%} more" if (margin := self.memory.margin.now) else ""
                    self._refusal = (
                        f"whole leases for its estimate{more}, beside those of guarantees made before, end "
                        "after its deadline"
                    )
                if room and self.kept.reserve(at, row, finish_by):
                    look.matrix[ROW, at] = row + 1.0
                    self.told.append(Promise(look.number(at), finish_by, step))
                    return True
        book.leave(np.array([row]))
        return False

    def _offer(self, at: int, spec: JobSpec) -> None:
        """Tell a job by when it could be through, or guarantee that if it accepts it."""
        look, book, number = self.look, self.book, self.look.number(at)
        if look.matrix[SEEN, at] == TOO_LARGE:
            period = format_duration(self.policy.period)
            reason = f"with the jobs no larger of the last {period} it needs all GPUs for longer than that"
            self.told.append(Promise(number, reason=reason))
            return
        gap, gpus = self.kept.gap_of(at), float(self.counted[at])
        earliest = np.inf
        for gpu_type in look.types(at):
            start, need = self.kept.first_slot(at), self.kept.need_of(gpu_type, at)
            over = bool(look.starts_over[at])
            finish = book.earliest(gpu_type, self.view.now, start, gpus, need, gap, over)
            earliest = min(earliest, finish)
        earliest += (earliest - self.view.now) * max(self.memory.margin.now, LEAST_SLACK)
        work = float(look.least_seconds[at]) * gpus
        rate = self.memory.recent.rate_of_smaller(work, self.view.now)
        earliest = book.first_with_room(look.slot, self.view.now, earliest, work, rate)
        if spec.accept_later and earliest < np.inf and self._promise(at, [(earliest, -1)]):
            return
        able = earliest if earliest < np.inf else None
        self.told.append(Promise(number, earliest=able, reason=self._refusal))

    @property
    def _too_large(self) -> float:
        """GPU-seconds of a job that would have to wait if smaller ones went first."""
        able = float(self.book.capacity.sum()) * self.policy.period
        return self.memory.recent.largest_within(able)

    def _pool_has_room(self, row: int) -> bool:
        """Whether all of a pool that have reservations could run at once."""
        pool, rows = self.book.pool[row], self.book.rows
        if pool < 0:
            return True
        all_of_it = self.book.gpus[rows[self.book.pool[rows] == pool]].sum()
        return bool(all_of_it <= self.view.quota[pool])

    def select(self) -> None:
        """An SLO lease ended: guarantee something to jobs that were guaranteed nothing, as a program says."""
        look, own, now = self.look, self.look.matrix, self.view.now
        open_yet = (own[LAST] > 0.0) & (own[ROW] == 0.0) & look.gangs & (own[SEEN] < TOO_LARGE)
        open_yet &= now + look.least_seconds + look.gap <= own[LAST]
        found = np.flatnonzero(open_yet)
        if not len(found):
            return
        specs = {at: self.view.spec(look.number(at)) for at in found.tolist()}
        worth = {
            at: [(spec.submit_time + each.deadline_seconds, each.value) for each in spec.rewards]
            for at, spec in specs.items()
        }
        lease, parts, gaps = self.policy.lease, self.policy.parts, self.memory.gaps
        for at in select(look, self.book, found, worth, lease, parts, gaps):
            if not self._limit(at, specs[at]):
                self._promise(at, steps_of(specs[at]))

    # ------------------------------------------------------------------ who runs

    def serve(self) -> Allocation:
        """Jobs that have GPUs until the lease ends."""
        look, matrix = self.look, self.look.matrix
        waiting = look.waiting
        idle = self.view.gpus - matrix[HELD].sum()
        due = self._note_reservations()
        anew = look.fresh or due
        if not due and not (waiting.any() and (anew or idle >= 1.0)):
            return self._decided(
                matrix[HELD].copy(), matrix[TYPE].copy(), np.where(waiting, _ORDER, 0.0), None
            )
        most = matrix[GPUS].copy()
        most[waiting & (matrix[CHECKPOINT] > self.memory.wait)] = 0.0
        needs = self._need_this_slot()
        given, order = self._filled(most, needs, anew)
        while self._started_for_good(given, most) or self._beyond_cells(given, order, most, anew):
            given, order = self._filled(most, needs, anew)
        reason = np.where(given[TARGET_REASON] == 0.0, _ORDER, given[TARGET_REASON])
        reason = np.where(given[TARGET] > 0.0, 0.0, reason)
        return self._decided(given[TARGET], given[TARGET_TYPE], reason, order)

    def _decided(
        self, gpus: FloatColumn, types: FloatColumn, reason: FloatColumn, order: IntColumn | None
    ) -> Allocation:
        """The allocation; the memory knows whether a guaranteed job runs on a type that it is to leave."""
        booked = self.book.booked(self.look.slot)
        self.memory.elsewhere = note_given(self.look.matrix, booked, gpus, types, self.view.now)
        return Allocation(gpus, types, reason, order, promises=tuple(self.told))

    def _filled(
        self, most: FloatColumn, needs: BoolColumn, anew: bool
    ) -> tuple[FloatColumn, IntColumn]:
        """GPUs by turn, and the turns; jobs with a reservation on their type."""
        look, view, matrix = self.look, self.view, self.look.matrix
        yielding, fresh, gap = self.policy.yielding, look.fresh, look.gap
        order = turns(matrix, look.least_seconds, gap, needs, fresh, view.now, yielding)
        if len(view.capacity) > 1:
            rows = np.flatnonzero(matrix[HOLDS])
            matrix = matrix.copy()
            types = self.book.type[look.row[rows]]
            matrix[TYPES, rows] = 2.0**types
            matrix[TYPE, rows] = np.where(matrix[TYPE, rows] == types, types, -1.0)
        gpus = matrix[GPUS]
        given = fill(matrix, order, gpus, most, view.capacity, view.quota, anew, False)
        return given, order

    def _need_this_slot(self) -> BoolColumn:
        """Which jobs without a guarantee keep a deadline only if they run now, if smaller ones go first."""
        look, book, memory = self.look, self.book, self.memory
        if not look.fresh:
            return np.zeros(len(look.gap), dtype=np.bool_)
        left = Left(look.seconds, look.starting, look.gap, self.counted)
        terms = np.array(
            [
                self.view.now,
                look.slot,
                book.first,
                book.slot_seconds,
                memory.wait,
                memory.late,
                memory.pace,
                memory.margin.now,
                self._too_large,
            ]
        )
        needs, width = need_now(look.matrix, left, self._due(), book.free, book.capacity, terms)
        book.widen(width)
        return needs

    def _due(self) -> Floats:
        """(steps, jobs) when steps of jobs are due, as `volvelle.systems.chronus.look.STEPS`."""
        matrix = self.look.matrix
        due, many = matrix[STEPS : STEPS + MOST_STEPS], np.flatnonzero(np.isnan(matrix[STEPS]))
        steps = {at: steps_of(self.view.spec(self.look.number(at))) for at in many.tolist()}
        if steps:
            most = max(map(len, steps.values()))
            due = np.pad(due, ((0, most - MOST_STEPS), (0, 0)))
            for at, each in steps.items():
                due[: len(each), at] = [until for until, _ in each]
        return due

    def _note_reservations(self) -> bool:
        """Note in the jobs' columns what is reserved for them in this slot; whether one does not hold it."""
        return note_reservations(self.look.matrix, self.book.booked(self.look.slot))

    def _beyond_cells(
        self, given: FloatColumn, order: IntColumn, most: FloatColumn, anew: bool
    ) -> bool:
        """Let gangs start only as far as all fit as counted (Eq. 6); whether some of ``most`` changed."""
        if not self.policy.rounded:
            return False
        room, beyond = self.view.capacity.copy(), False
        stays = ~self.look.waiting & (~self.look.gangs | (not anew))
        turns = order[np.argsort(~stays[order], kind="stable")]
        for at in turns[given[TARGET, turns] > 0.0].tolist():
            gpu_type = int(given[TARGET_TYPE, at])
            if stays[at] or self.counted[at] <= room[gpu_type] + SAME_AMOUNT:
                room[gpu_type] -= self.counted[at]
            else:
                most[at], beyond = 0.0, True
        return beyond

    def _started_for_good(self, given: FloatColumn, most: FloatColumn) -> bool:
        """Let jobs that may not be preempted start only where they can run to their end.

        Whether some of ``most`` changed, because one cannot.
        """
        look = self.look
        starts = look.waiting & ~look.gangs & (given[TARGET] > 0.0) & (look.matrix[ROW] == 0.0)
        refused = False
        for at in np.flatnonzero(starts).tolist():
            if not self._hold_to_end(at, int(given[TARGET_TYPE, at])):
                most[at], refused = 0.0, True
        if starts.any():
            self._note_reservations()
        return refused

    def _hold_to_end(self, at: int, gpu_type: int) -> bool:
        """Reserve GPUs for a job from now until it ends, and guarantee that; whether it is possible."""
        look, row = self.look, self.kept.enter(at)
        seconds = float(look.seconds[gpu_type, at])
        if not look.runs_on(at, gpu_type):
            seconds += self.kept.gap_of(at)
        if not (
            self._pool_has_room(row)
            and self.book.reserve_now(row, gpu_type, self.view.now, seconds)
        ):
            self.book.leave(np.array([row]))
            return False
        self.book.fixed[row] = True
        look.matrix[ROW, at] = row + 1.0
        finish, spec = self.view.now + seconds, self.view.spec(look.number(at))
        for finish_by, step in [] if self._limit(at, spec) else steps_of(spec):
            if finish <= finish_by:
                self.told.append(Promise(look.number(at), finish_by, step))
                break
        return True


def steps_of(spec: JobSpec) -> list[tuple[float, int]]:
    """When each step of a job is due, seconds, and which it is: the most valuable first, then the latest."""
    steps = [
        (-reward.value, -reward.deadline_seconds, step)
        for step, reward in enumerate(spec.rewards)
        if reward.value > 0.0
    ]
    return [(spec.submit_time - due, step) for _, due, step in sorted(steps)]
