"""How many rounds of a window each job gets, and which: Shockwave's program (NSDI'23, equation 11) by
counts.

A job j that gets n rounds of a window of T gains ``gain[j, 0] + ... + gain[j, n - 1]`` (for Shockwave:
what its weighted logarithm of utility rises by). The objective is the sum of these, less
``makespan_weight`` times the lower bound of the makespan that equation 10 names, with run times R and both
halves of it::

    H(n) = max( sum over j of G[j] r[j] / M,  max over j of r[j] ),   r[j] = max(0, R[j] - n[j] D)

for rounds of D seconds. (Equation 10 adds up run times; for jobs of several GPUs only run times times GPUs
G are a bound, so these are taken.) The paper decides X[j, t] for each job and round. Here a job has a
number of rounds, in pieces of equal gain (increments made to fall where they do not, by their upper
concave envelope)::

    sum over j of G[j] n[j]  <=  M T

and jobs of which only q fit beside each other have q T rounds together. Rounds are then packed, the job
with most rounds left first (`volvelle.plan.packing`), and those that are left over go to whoever gains
most of them. The linear program is rounded first. Where that is not good enough, slots are chosen anew one by
one (`volvelle.systems.shockwave.exchange`), and only then whole numbers are asked for.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn, Ints
from volvelle.model.tolerances import WHOLE_ROUND
from volvelle.plan.packing import pack, restarts, wider_first
from volvelle.plan.plan import Plan, Window
from volvelle.plan.programs import Program, Rows, maximise, relative_gap
from volvelle.plan.sifting import sift
from volvelle.systems.shockwave.exchange import Cells, exchange
from volvelle.systems.shockwave.pieces import concave_pieces, fill_up, spread_out, top_up

SIDE_BY_SIDE = 3
"""Up to how many wide jobs beside each other rounds are counted for them."""


_SIFTED = 20_000
"""Pieces from which on a linear program is sifted."""

_SEARCHED = 2_000
"""Pieces up to which whole numbers are searched for quickly, so that rounding may be plain."""


class RoundJobs(NamedTuple):
    """Jobs that are to share a window, by row.

    gpus: the gang. gain: (jobs, slots) what the first, the second ... round adds to the objective.
    seconds: of run time that are left, on these GPUs. restart: what it costs the objective if a job gets
    any round that does not run right before the window (None: nothing). running: which jobs do (None:
    none).
    """

    number: IntColumn | FloatColumn
    gpus: FloatColumn
    gain: NDArray[np.float64]
    seconds: FloatColumn
    restart: FloatColumn | None = None
    running: BoolColumn | None = None


class RoundShare(NamedTuple):
    """A plan, and what it is worth.

    rounds: (jobs,) that each job has in it. value: of the objective, over that of nobody having any.
    bound: no plan is worth more.
    """

    plan: Plan
    rounds: IntColumn
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How much more, relative to ``value``, another plan could at most be worth."""
        return relative_gap(self.value, self.bound)


def share_rounds(
    jobs: RoundJobs,
    window: Window,
    gpus: float,
    *,
    makespan_weight: float = 0.0,
    gap: float = 5e-4,
    seconds: float = 2.0,
    direct: bool = False,
) -> RoundShare:
    """The best plan found for ``gpus`` GPUs: better than a greedy one, whatever the solver does.

    makespan_weight: what a second of the makespan's bound costs (lambda / Z0). gap: a plan this close to
    the bound will do. seconds: of work for all programs together. direct: decide X[j, t] by the
    solver instead of counts; for small windows, as a check. Raises ValueError where the jobs cannot be
    such, `Problem` where the solver is not installed.
    """
    left = seconds
    case = Case.of(jobs, window, gpus, makespan_weight)
    best = case.packed(case.topped_up(np.zeros(len(jobs.number), dtype=np.int64)))
    bound = np.inf if case.most.any() else 0.0
    for whole in (True,) if direct else (False, True):
        if left <= 0.0 or relative_gap(case.value(best), bound) <= gap:
            break
        model = _by_slots(case) if direct else _by_counts(case)
        large = not whole and len(model.program.gain) > _SIFTED
        answer = (sift if large else maximise)(
            model.program._replace(whole=model.whole if whole else None),
            model.start(best),
            min(bound, case.most_value),
            left,
            gap / 2,
        )
        left -= answer.seconds
        bound = min(bound, answer.bound)
        if direct:
            found = model.schedule(answer.x)
        else:
            counts = case.rounded(model.rounds(answer.x), up=len(model.row) > _SEARCHED)
            found = case.packed(case.topped_up(counts))
        best = max(best, found, key=case.worth)
        if not direct and relative_gap(case.value(best), bound) > gap:
            best = max(
                best, case.exchanged(best), case.exchanged(np.zeros_like(best)), key=case.worth
            )
    value = case.value(best)
    bound = max(min(bound, case.most_value), value)
    plan = Plan(window, jobs.number, best * case.gpus[:, None])
    return RoundShare(plan, best.sum(axis=1), value, bound)


class Case(NamedTuple):
    """One window. most: rounds that a job can use. A schedule is who holds its GPUs when, (jobs, slots).

    width, slope: (jobs, pieces) how many rounds a piece of the concave envelope has, and what each of them
    gains.
    """

    window: Window
    there: float
    gpus: Floats
    gain: Floats
    seconds: Floats
    most: Ints
    running: BoolColumn
    width: Ints
    slope: Floats
    makespan_weight: float

    @classmethod
    def of(
        cls,
        jobs: RoundJobs,
        window: Window,
        there: float,
        makespan_weight: float,
        fits: BoolColumn | None = None,
    ) -> "Case":
        """fits: which gangs do (None: those no wider than ``there``). Raises ValueError for bad jobs."""
        _check(jobs, window, there, makespan_weight)
        none = np.zeros(len(jobs.number), dtype=np.bool_)
        running = none if jobs.running is None else jobs.running
        gain = jobs.gain.astype(np.float64)
        if jobs.restart is not None and window.slots:
            gain = gain.copy()
            gain[:, 0] -= np.where(running, 0.0, jobs.restart)
        most = np.minimum(np.ceil(jobs.seconds / window.slot_seconds), window.slots)
        most = np.where(jobs.gpus <= there if fits is None else fits, most, 0).astype(np.int64)
        width, slope = concave_pieces(gain, most)
        gpus, left = jobs.gpus.astype(np.float64), jobs.seconds.astype(np.float64)
        return cls(window, there, gpus, gain, left, most, running, width, slope, makespan_weight)

    def makespan(self, rounds: IntColumn | FloatColumn) -> float:
        """The bound of equation 10, seconds."""
        left = np.maximum(self.seconds - rounds * self.window.slot_seconds, 0.0)
        spread = float(self.gpus @ left) / self.there if self.there else 0.0
        return max(spread, float(left.max(initial=0.0)))

    def saved(self, rounds: IntColumn | FloatColumn) -> float:
        """Slots by which the bound of equation 10 falls, if a last round that is not needed whole counted
        whole, as in the programs."""
        left = self.seconds - rounds * self.window.slot_seconds
        then = max(float(self.gpus @ left) / self.there, float(left.max(initial=0.0)))
        saved = self.makespan(np.zeros_like(self.most)) - then
        return max(saved / self.window.slot_seconds, 0.0)

    def in_pieces(
        self, rounds: IntColumn | FloatColumn, row: IntColumn, piece: IntColumn
    ) -> FloatColumn:
        """So many rounds of each job as rounds of its pieces, the first ones first."""
        before = np.cumsum(self.width, axis=1) - self.width
        taken: FloatColumn = np.clip(rounds[row] - before[row, piece], 0, self.width[row, piece])
        return taken

    def value(self, held: Bools) -> float:
        """Of the objective, over that of nobody having any round."""
        rounds = held.sum(axis=1)
        taken = np.arange(self.gain.shape[1]) < rounds[:, None]
        saved = self.makespan(np.zeros_like(rounds)) - self.makespan(rounds)
        return float(self.gain[taken].sum()) + self.makespan_weight * saved

    def worth(self, held: Bools) -> tuple[float, int]:
        """By which schedules are compared: value, then restarts."""
        return self.value(held), -restarts(held, self.running)

    @property
    def alike(self) -> Floats:
        """(jobs, 1) speeds where there is one GPU type."""
        return np.ones((len(self.gpus), 1))

    @property
    def most_value(self) -> float:
        """A bound on `value` without a program: all that anybody could gain."""
        gain = float(np.maximum(self.width * self.slope, 0.0).sum())
        return gain + self.makespan_weight * self.makespan(np.zeros_like(self.most))

    def rounded(self, rounds: FloatColumn, *, up: bool) -> IntColumn:
        """Rounds rounded down; ``up``: unless the makespan is longer by it, as far as there is room."""
        down: IntColumn = np.floor(rounds + WHOLE_ROUND).astype(np.int64)
        if not up:
            return down
        seconds = self.window.slot_seconds
        longest = float((self.seconds - rounds * seconds).max(initial=0.0))
        short = self.seconds - down * seconds > longest + WHOLE_ROUND * seconds
        room = self.there * self.window.slots - float(self.gpus @ down)
        late = np.flatnonzero(short & (down < self.most))
        late = late[np.argsort(self.gpus[late], kind="stable")]
        down[late[np.cumsum(self.gpus[late]) <= room]] += 1
        return down

    def topped_up(self, rounds: IntColumn) -> IntColumn:
        """More rounds, for whoever gains most for a GPU, until GPUs or gains are used up."""
        topped = rounds.copy()
        room = self.there * self.window.slots - float(self.gpus @ topped)
        top_up(topped, self.gpus, self.most, self.width, self.slope, room)
        return topped

    def packed(self, rounds: IntColumn) -> Bools:
        """So many rounds of each job in slots, as far as they go, and what is left for whoever gains."""
        order = wider_first(self.gpus)
        capacity = np.full(self.window.slots, self.there)
        end = np.full(len(rounds), self.window.slots, dtype=np.int64)
        packed = []
        for keep in (True, False):
            held = pack(order, self.gpus, rounds, end, capacity, self.running, keep, False)
            fill_up(held, self.gpus, self.alike, self.gain, self.most, np.array([self.there]))
            packed.append(held)
        return max(packed, key=self.worth)

    def exchanged(self, held: Bools) -> Bools:
        """A schedule with its slots chosen anew, and packed again where nothing is lost by it."""
        if (self.gpus % 1.0).any():
            return held
        better, gpus = held.copy(), self.gpus.astype(np.int64)
        seconds, there = self.window.slot_seconds, np.array([int(self.there)])
        envelope = spread_out(self.width, self.slope)
        jobs = (gpus, self.alike, self.gain, envelope, self.most, self.seconds)
        exchange(better, Cells(*jobs, seconds, there, self.makespan_weight))
        return max(better, self.packed(better.sum(axis=1)), key=self.worth)


class _Model(NamedTuple):
    """A program whose first variables are the rounds of each piece, and the last, if any, seconds saved.

    row: whose a piece is. whole: which variables are whole numbers. slots: behind the pieces, of the direct
    program, X by (job, slot), where a job can use rounds.
    """

    case: Case
    program: Program
    whole: BoolColumn
    row: IntColumn
    piece: IntColumn
    owner: IntColumn
    slot: IntColumn

    def rounds(self, x: FloatColumn) -> FloatColumn:
        """Of each job."""
        return np.bincount(self.row, x[: len(self.row)], len(self.case.gpus)).astype(np.float64)

    def schedule(self, x: FloatColumn) -> Bools:
        """Of the direct program."""
        held = np.zeros((len(self.case.gpus), self.case.window.slots), dtype=np.bool_)
        first = len(self.row)
        held[self.owner, self.slot] = x[first : first + len(self.owner)] > 0.5
        return held

    def start(self, held: Bools) -> FloatColumn:
        """A schedule as values of the variables."""
        case, rounds = self.case, held.sum(axis=1)
        x = np.zeros(len(self.program.gain))
        x[: len(self.row)] = case.in_pieces(rounds, self.row, self.piece)
        first = len(self.row)
        x[first : first + len(self.owner)] = held[self.owner, self.slot]
        if case.makespan_weight:
            x[-1] = min(case.saved(rounds), self.program.upper[-1])
        return x


def _by_counts(case: Case) -> _Model:
    """The program in rounds of each job."""
    rows = Rows()
    row, piece = np.nonzero(case.width)
    gpus, slots = case.gpus[row], case.window.slots
    rows.add(np.arange(len(row)), gpus, upper=case.there * slots)
    for beside in range(1, SIDE_BY_SIDE + 1):
        wide = np.flatnonzero(gpus > case.there / (beside + 1))
        rows.add(wide, np.ones(len(wide)), upper=float(beside * slots))
    nobody = np.zeros(0, dtype=np.int64)
    return _model(case, rows, row, piece, nobody, nobody)


def _by_slots(case: Case) -> _Model:
    """The program in X[j, t], of which the rounds of a job are the sum."""
    rows = Rows()
    row, piece = np.nonzero(case.width)
    slots = case.window.slots
    owner = np.repeat(np.flatnonzero(case.most), slots)
    slot = np.tile(np.arange(slots), len(owner) // max(slots, 1))
    first = len(row)
    for one in range(slots):
        some = np.flatnonzero(slot == one)
        rows.add(first + some, case.gpus[owner[some]], upper=case.there)
    for job in np.flatnonzero(case.most).tolist():
        pieces, used = np.flatnonzero(row == job), first + np.flatnonzero(owner == job)
        coefficients = np.concatenate([np.ones(len(pieces)), -np.ones(len(used))])
        rows.add(np.concatenate([pieces, used]), coefficients, 0.0, 0.0)
    return _model(case, rows, row, piece, owner, slot)


def _model(
    case: Case, rows: Rows, row: IntColumn, piece: IntColumn, owner: IntColumn, slot: IntColumn
) -> _Model:
    """Gains, and the slots by which the makespan's bound falls, as the last variable."""
    gain = np.concatenate([case.slope[row, piece], np.zeros(len(owner))])
    upper = np.concatenate([case.width[row, piece].astype(np.float64), np.ones(len(owner))])
    whole = np.ones(len(gain), dtype=np.bool_)
    if case.makespan_weight:
        gain, upper = with_makespan(case, rows, row, gain, upper)
        whole = np.append(whole, False)
    return _Model(case, Program(gain, upper, rows), whole, row, piece, owner, slot)


def with_makespan(
    case: Case, rows: Rows, row: IntColumn, gain: FloatColumn, upper: FloatColumn
) -> tuple[FloatColumn, FloatColumn]:
    """``gain`` and ``upper`` with one more variable: the slots by which the makespan's bound falls.

    row: whose piece each of the first variables is, ascending. Its constraints go to ``rows``.
    """
    seconds, first, saved = case.window.slot_seconds, len(row), len(gain)
    longest = case.makespan(np.zeros_like(case.most))
    least = float((case.seconds - case.most * seconds).max(initial=0.0))
    spread = float(case.gpus @ case.seconds) / case.there
    rows.add(
        np.append(np.arange(first), saved),
        np.append(-case.gpus[row] / case.there, 1.0),
        upper=(longest - spread) / seconds,
    )
    begins = np.searchsorted(row, np.arange(len(case.gpus) + 1))
    for job in np.flatnonzero(case.seconds > least).tolist():
        pieces = np.arange(begins[job], begins[job + 1])
        rows.add(
            np.append(pieces, saved),
            np.append(-np.ones(len(pieces)), 1.0),
            upper=(longest - case.seconds[job]) / seconds,
        )
    return (
        np.append(gain, case.makespan_weight * seconds),
        np.append(upper, max(longest - least, 0.0) / seconds),
    )


def _check(jobs: RoundJobs, window: Window, there: float, makespan_weight: float) -> None:
    count = len(jobs.number)
    for name in ("gpus", "seconds", "restart", "running"):
        column = getattr(jobs, name)
        if column is not None and column.shape != (count,):
            raise ValueError(f"{name} of {count} jobs has the shape {column.shape}")
    if jobs.gain.shape != (count, window.slots):
        raise ValueError(
            f"gain of {count} jobs in {window.slots} slots has the shape {jobs.gain.shape}"
        )
    if not (jobs.gpus > 0.0).all():
        raise ValueError("gpus: each job needs more than none")
    if not ((jobs.seconds >= 0.0) & np.isfinite(jobs.seconds)).all():
        raise ValueError("seconds: run time that is left cannot be negative, nor infinite")
    if not np.isfinite(jobs.gain).all():
        raise ValueError("gain: a round cannot gain infinitely much")
    if not there >= 0.0 or not makespan_weight >= 0.0:
        raise ValueError("neither GPUs nor the weight of the makespan can be negative")
