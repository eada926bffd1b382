"""How many rounds of a window each job gets on which GPU type, and which: `rounds`, by type.

A round of job j on type y counts as ``speed[j, y]`` rounds on its quickest type. Gains and run times are
told in rounds on that type, and a part of a round gains in proportion. A job has n[j, y] rounds of each
type, and uses x[j] of what they count as::

    x[j]  <=  sum over y of speed[j, y] n[j, y]        sum over y of n[j, y]  <=  T
    sum over j of G[j] n[j, y]  <=  M[y] T             for each type y

for windows of T rounds and M[y] GPUs of each type; the objective is that of
`volvelle.systems.shockwave.rounds` in x. A gang holds GPUs of one type at a time. Rounds are packed into the
cells (slot, type) in turn, widest gangs first; cells are then chosen anew one by one
(`volvelle.systems.shockwave.exchange`) where that is not good enough.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn, Ints
from volvelle.model.tolerances import WHOLE_NUMBER, WHOLE_ROUND
from volvelle.plan.packing import in_turn, wider_first
from volvelle.plan.plan import Plan, Window
from volvelle.plan.programs import Program, Rows, maximise, relative_gap
from volvelle.systems.shockwave.exchange import Cells, exchange
from volvelle.systems.shockwave.pieces import fill_up, spread_out
from volvelle.systems.shockwave.rounds import (
    SIDE_BY_SIDE,
    Case,
    RoundJobs,
    RoundShare,
    with_makespan,
)


def share_typed_rounds(
    jobs: RoundJobs,
    speed: Floats,
    ran_on: IntColumn,
    window: Window,
    gpus: FloatColumn,
    *,
    makespan_weight: float = 0.0,
    gap: float = 5e-4,
    seconds: float = 2.0,
) -> RoundShare:
    """The best plan found for ``gpus`` GPUs of each type; the plan names types.

    speed: (jobs, types) at most 1, rounds on a job's quickest type that a round counts as; 0: it cannot run
    there. ran_on: (jobs,) the type that each holds right before, -1 for none. jobs.seconds, jobs.gain: on
    the quickest type; a jobs.restart cannot be told by type. Else as
    `volvelle.systems.shockwave.rounds.share_rounds`. Raises ValueError where jobs or speeds cannot be such,
    `Problem` where the solver is not installed.
    """
    left = seconds
    _check(jobs, speed, ran_on, gpus)
    case = _TypedCase.of(jobs, speed, ran_on, window, gpus, makespan_weight)
    best = case.packed(np.zeros(speed.shape, dtype=np.int64))
    bound = np.inf if case.alike.most.any() else 0.0
    for whole in (False, True):
        if left <= 0.0 or relative_gap(case.value(best), bound) <= gap:
            break
        model = _model(case)
        answer = maximise(
            model.program._replace(whole=model.whole if whole else None),
            model.start(case, best),
            min(bound, case.alike.most_value),
            left,
            gap / 2,
        )
        left -= answer.seconds
        bound = min(bound, answer.bound)
        best = max(best, case.packed(model.counts(case, answer.x)), key=case.value)
        if relative_gap(case.value(best), bound) > gap:
            best = max(
                best, case.exchanged(best), case.exchanged(np.zeros_like(best)), key=case.value
            )
    value = case.value(best)
    bound = max(min(bound, case.alike.most_value), value)
    plan = Plan.of_cells(window, jobs.number, case.alike.gpus, best)
    rounds = np.count_nonzero(plan.gpus, axis=1)
    return RoundShare(plan, rounds, value, bound)


class _TypedCase(NamedTuple):
    """A window with GPU types. A schedule is who holds its GPUs in which cells, (jobs, slots * types).

    alike: the window as if every GPU were of each job's quickest type, which is worth no less. speed: 0 also
    where a gang does not fit.
    """

    alike: Case
    speed: Floats
    ran_on: IntColumn
    there: FloatColumn

    @classmethod
    def of(
        cls,
        jobs: RoundJobs,
        speed: Floats,
        ran_on: IntColumn,
        window: Window,
        there: FloatColumn,
        makespan_weight: float,
    ) -> "_TypedCase":
        fits = np.where(jobs.gpus[:, None] <= there, speed, 0.0)
        somewhere: BoolColumn = np.max(fits, axis=1, initial=0.0) > 0.0
        alike = Case.of(jobs, window, float(there.sum()), makespan_weight, somewhere)
        return cls(alike, fits, ran_on, there.astype(np.float64))

    def counts(self, held: Bools) -> Ints:
        """(jobs, types) rounds of each type."""
        cells = held.reshape(len(held), self.alike.window.slots, self.speed.shape[1])
        counts: Ints = cells.sum(axis=1)
        return counts

    def used(self, held: Bools) -> FloatColumn:
        """(jobs,) what its rounds count as, as far as a job can use it."""
        work = (self.speed * self.counts(held)).sum(axis=1)
        used: FloatColumn = np.minimum(work, self.alike.most)
        return used

    def value(self, held: Bools) -> float:
        """Of the objective, over that of nobody having any round."""
        alike, used = self.alike, self.used(held)
        share = np.clip(used[:, None] - np.arange(alike.window.slots), 0.0, 1.0)
        saved = alike.makespan(np.zeros_like(used)) - alike.makespan(used)
        return float((alike.gain * share).sum()) + alike.makespan_weight * saved

    def packed(self, counts: Ints) -> Bools:
        """So many rounds in cells, as far as they go, and what is left for whoever gains."""
        alike = self.alike
        order = wider_first(alike.gpus)
        held = in_turn(order, alike.gpus, counts, alike.window.slots, self.there, self.ran_on)
        fill_up(held, alike.gpus, self.speed, alike.gain, alike.most, self.there)
        return held

    def exchanged(self, held: Bools) -> Bools:
        """A schedule with its cells chosen anew."""
        alike, better = self.alike, held.copy()
        if (alike.gpus % 1.0).any():
            return better
        gpus, there = alike.gpus.astype(np.int64), self.there.astype(np.int64)
        jobs = (alike.gain, spread_out(alike.width, alike.slope), alike.most, alike.seconds)
        seconds, weight = alike.window.slot_seconds, alike.makespan_weight
        exchange(better, Cells(gpus, self.speed, *jobs, seconds, there, weight))
        return better


class _TypedModel(NamedTuple):
    """A program whose variables are rounds used, by piece, then n by (job, type), then the slots saved.

    row, piece: of the first. owner, kind: of the second. whole: which are whole numbers.
    """

    program: Program
    whole: BoolColumn
    row: IntColumn
    piece: IntColumn
    owner: IntColumn
    kind: IntColumn

    def counts(self, case: _TypedCase, x: FloatColumn) -> Ints:
        """(jobs, types) rounds of each type, rounded down."""
        counts = np.zeros(case.speed.shape, dtype=np.int64)
        first = len(self.row)
        counts[self.owner, self.kind] = np.floor(x[first : first + len(self.owner)] + WHOLE_ROUND)
        return counts

    def start(self, case: _TypedCase, held: Bools) -> FloatColumn:
        """A schedule as values of the variables."""
        used = case.used(held)
        pieces = case.alike.in_pieces(used, self.row, self.piece)
        x = np.concatenate([pieces, case.counts(held)[self.owner, self.kind].astype(np.float64)])
        if case.alike.makespan_weight:
            x = np.append(x, min(case.alike.saved(used), self.program.upper[-1]))
        return x


def _model(case: _TypedCase) -> _TypedModel:
    """The program in rounds of each job and type."""
    alike, rows = case.alike, Rows()
    slots, (jobs, types) = alike.window.slots, case.speed.shape
    row, piece = np.nonzero(alike.width)
    owner, kind = np.nonzero((case.speed > 0.0) & (alike.most[:, None] > 0))
    first, speed, gpus = len(row), case.speed[owner, kind], alike.gpus[owner]
    of_pieces, of_types = (np.searchsorted(one, np.arange(jobs + 1)) for one in (row, owner))
    for job in np.flatnonzero(alike.most).tolist():
        pieces = np.arange(of_pieces[job], of_pieces[job + 1])
        mine = np.arange(of_types[job], of_types[job + 1])
        coefficients = np.append(np.ones(len(pieces)), -speed[mine])
        rows.add(np.append(pieces, first + mine), coefficients, upper=0.0)
        if len(mine) > 1:
            rows.add(first + mine, np.ones(len(mine)), upper=float(slots))
    for one in range(types):
        there = case.there[one]
        some = np.flatnonzero(kind == one)
        rows.add(first + some, gpus[some], upper=there * slots)
        for beside in range(1, SIDE_BY_SIDE + 1):
            wide = some[gpus[some] > there / (beside + 1)]
            rows.add(first + wide, np.ones(len(wide)), upper=float(beside * slots))
    gain = np.concatenate([alike.slope[row, piece], np.zeros(len(owner))])
    needed = np.ceil(alike.most[owner] / speed - WHOLE_NUMBER)
    upper = np.concatenate([alike.width[row, piece], np.minimum(needed, slots)])
    whole = np.repeat([False, True], [first, len(owner)])
    if alike.makespan_weight:
        gain, upper = with_makespan(alike, rows, row, gain, upper)
        whole = np.append(whole, False)
    return _TypedModel(Program(gain, upper, rows), whole, row, piece, owner, kind)


def _check(jobs: RoundJobs, speed: Floats, ran_on: IntColumn, gpus: FloatColumn) -> None:
    count = len(jobs.number)
    if speed.shape != (count, len(gpus)):
        raise ValueError(f"speed of {count} jobs on {len(gpus)} types has the shape {speed.shape}")
    if ran_on.shape != (count,):
        raise ValueError(f"ran_on of {count} jobs has the shape {ran_on.shape}")
    if not ((speed >= 0.0) & (speed <= 1.0)).all():
        raise ValueError("speed: at most 1, that of the quickest type, and not negative")
    if not speed.any(axis=1).all():
        nowhere = int(jobs.number[~speed.any(axis=1)][0])
        raise ValueError(f"speed: job {nowhere} can run on no GPU type")
    if not (gpus >= 0.0).all():
        raise ValueError("gpus: of no type can there be fewer than none")
    if jobs.restart is not None:
        raise ValueError("restart: what a restart costs cannot be told by GPU type")
