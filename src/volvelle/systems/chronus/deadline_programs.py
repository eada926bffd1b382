"""The aggregated and the direct program of `volvelle.systems.chronus.deadlines`, as HiGHS takes them.

Fixed jobs that the schedule begun with keeps have to take a step in the answer too. For others a step is
worth more than all steps of all jobs together.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import Bools, FloatColumn, IntColumn
from volvelle.plan.programs import Program, Rows, maximise
from volvelle.systems.chronus.deadline_case import Case


class _Steps(NamedTuple):
    """Steps that are possible, one after another: of which job, which step, and what they gain.

    lost: how much the steps of fixed jobs gain that the schedule begun with does not keep; ``extra`` each.
    """

    row: IntColumn
    step: IntColumn
    gain: FloatColumn
    needed: IntColumn
    extra: float
    lost: int

    @classmethod
    def of(cls, case: Case, held: Bools) -> "_Steps":
        row, step = np.nonzero(case.worths)
        gain = case.worths[row, step]
        kept = case.steps(held) >= 0
        lost = case.fixed & ~kept & case.worths.any(axis=1)
        extra = 1.0 + float(case.worths.max(axis=1, initial=0.0).sum()) if lost.any() else 0.0
        gain = gain + extra * lost[row]
        needed = np.flatnonzero(case.fixed & kept)
        return cls(row, step, gain, needed, extra, int(np.count_nonzero(lost)))

    def taken(self, case: Case, held: Bools) -> FloatColumn:
        """1 for each step that is taken."""
        taken: FloatColumn = (case.steps(held)[self.row] == self.step).astype(np.float64)
        return taken

    def one_each(self, case: Case, rows: Rows) -> None:
        """A job takes one step at most, and one if it is needed."""
        first = np.searchsorted(self.row, np.arange(len(case.jobs.number) + 1))
        needed = set(self.needed.tolist())
        for job in np.flatnonzero(np.diff(first)).tolist():
            mine = np.arange(first[job], first[job + 1])
            least = 1.0 if job in needed else -np.inf
            rows.add(mine, np.ones(len(mine)), least, 1.0)

    def chosen(self, case: Case, x: FloatColumn) -> IntColumn:
        """The step of each job, -1 for none."""
        step = np.full(len(case.jobs.number), -1, dtype=np.int64)
        on = x[: len(self.step)] > 0.5
        step[self.row[on]] = self.step[on]
        return step


def by_steps(
    case: Case, held: Bools, bound: float, gap: float, seconds: float, *, relaxed: bool = False
) -> tuple[Bools, float, float]:
    """The better of ``held`` and what the aggregated program says, packed; the new bound; seconds left.

    The linear program is rounded first, which is enough where jobs are many, and all where ``relaxed``.
    """
    left = seconds
    steps = _Steps.of(case, held)
    many = len(steps.gain)
    if not many:
        return held, 0.0, left
    rows = Rows()
    steps.one_each(case, rows)
    _demand(steps, case, rows)
    gain = np.concatenate([steps.gain, np.zeros(2 * case.window.slots)])
    work = np.full(case.window.slots, np.inf)
    upper = np.concatenate([np.ones(many), work, np.cumsum(case.capacity)])
    most = bound + steps.extra * steps.lost
    best = held
    for whole in (None,) if relaxed else (None, np.arange(len(gain)) < many):
        if left <= 0.0 or not case.is_open(best, bound, gap):
            break
        program = Program(gain, upper, rows, whole)
        start = _with_demand(steps, case, steps.taken(case, held))
        answer = maximise(program, start, most, left, 0.0 if steps.lost else gap / 2)
        left -= answer.seconds
        packed = case.by_slack(steps.chosen(case, answer.x))
        best = max(best, packed, key=case.worth)
        if not steps.lost:
            bound = most = min(bound, answer.bound)
            held = best
    return best, bound, left


def _latest_work(steps: _Steps, case: Case) -> tuple[IntColumn, IntColumn, FloatColumn]:
    """From which slot until which each step has its job work at the latest, and on how many GPUs."""
    until = case.deadline[steps.row, steps.step]
    return until - case.jobs.slots[steps.row], until, case.jobs.gpus[steps.row]


def _demand(steps: _Steps, case: Case, rows: Rows) -> None:
    """Work that is due by the end of each slot, as two variables for each slot behind the steps.

    The first is the GPUs of jobs that work in the slot if all work as late as they can; the second adds
    these up. So a step appears where it begins and where it ends, and not in every slot.
    """
    begin, until, gpus = _latest_work(steps, case)
    many, slots = len(steps.gain), case.window.slots
    for slot in range(slots):
        begins, ends = np.flatnonzero(begin == slot), np.flatnonzero(until == slot)
        own = [many + slot - 1, many + slot][slot == 0 :]  # of the slot before and of this one
        rows.add(
            np.concatenate([begins, ends, own]).astype(np.int64),
            np.concatenate([gpus[begins], -gpus[ends], [1.0, -1.0][slot == 0 :]]),
            0.0,
            0.0,
        )
        sums = [many + slots + slot, many + slot, many + slots + slot - 1][: 2 if slot == 0 else 3]
        rows.add(np.array(sums), np.array([1.0, -1.0, -1.0][: len(sums)]), 0.0, 0.0)


def _with_demand(steps: _Steps, case: Case, taken: FloatColumn) -> FloatColumn:
    """Steps that are taken, and the variables of `_demand` that follow from them."""
    begin, until, gpus = _latest_work(steps, case)
    change = np.zeros(case.window.slots + 1)
    np.add.at(change, begin, gpus * taken)
    np.add.at(change, until, -gpus * taken)
    work = np.cumsum(change)[:-1]
    return np.concatenate([taken, work, np.cumsum(work)])


def by_slots(
    case: Case, held: Bools, bound: float, gap: float, seconds: float
) -> tuple[Bools, float]:
    """The better of ``held`` and what the direct program says; the new bound."""
    steps = _Steps.of(case, held)
    many = len(steps.gain)
    latest = np.where(case.worths > 0.0, case.deadline, 0).max(axis=1, initial=0)
    ends = many + np.cumsum(latest)
    first = ends - latest  # a job's variables are for its slots before its latest deadline
    total = int(ends[-1]) if len(ends) else many
    rows = Rows()
    steps.one_each(case, rows)
    for slot in range(case.window.slots):
        some = np.flatnonzero(latest > slot)
        if case.jobs.gpus[some].sum() > case.capacity[slot]:
            rows.add(first[some] + slot, case.jobs.gpus[some], upper=float(case.capacity[slot]))
    for variable, (row, step) in enumerate(zip(steps.row, steps.step, strict=True)):
        mine = first[row] + np.arange(case.deadline[row, step])
        needed = float(case.jobs.slots[row])
        rows.add(
            np.concatenate([mine, [variable]]),
            np.concatenate([np.ones(len(mine)), [-needed]]),
            lower=0.0,
        )
    start = np.concatenate([steps.taken(case, held), np.zeros(total - many)])
    owner = np.repeat(np.arange(len(case.jobs.number)), latest)
    slot = np.arange(many, total) - first[owner]
    start[many:] = held[owner, slot]
    gain = np.concatenate([steps.gain, np.zeros(total - many)])
    program = Program(gain, np.ones(total), rows, np.ones(total, dtype=np.bool_))
    most = bound + steps.extra * steps.lost
    answer = maximise(program, start, most, seconds, 0.0 if steps.lost else gap)
    found = np.zeros_like(held)
    found[owner, slot] = answer.x[many:] > 0.5
    better = max(held, case.completed(found), key=case.worth)
    return better, bound if steps.lost else min(bound, answer.bound)
