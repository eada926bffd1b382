"""Linear and integer programs, solved by HiGHS through ``highspy`` (the extra ``solvers``).

Callers bring an **incumbent**, a feasible answer found without the solver, and a
**bound**, a gain that no answer can exceed. The solver has a limit of work; where it fails, reaches that
or finds nothing better, the incumbent stands. Every answer comes with its **gap**: how much more, relative
to what it gains, an answer could at most gain. It is 0 for a proven optimum.

HiGHS runs on one thread, so that an answer does not depend on the machine (it would keep the
thread count of the first solve in a process anyway). Nor does an answer depend on how busy the machine is:
**seconds of work** are counted in steps of the solver (`_Work`) and never read from a clock. ``highspy`` and
``ortools`` cannot be imported into one process.
"""

from dataclasses import dataclass
from functools import cache
from threading import get_ident
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from volvelle.core.solver_clock import LATEST, present_clock
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.extras import install
from volvelle.model.problems import Problem
from volvelle.model.tolerances import LEAST_DIVISOR


class Rows:
    """Constraints ``lower <= coefficients @ x[variables] <= upper``, collected one by one or in blocks."""

    def __init__(self) -> None:
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.start: list[int] = [0]
        self.variables: list[IntColumn] = []
        self.coefficients: list[FloatColumn] = []

    def __len__(self) -> int:
        return len(self.lower)

    def add(
        self,
        variables: IntColumn,
        coefficients: FloatColumn,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> None:
        """One constraint."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.variables.append(variables)
        self.coefficients.append(coefficients)
        self.start.append(self.start[-1] + len(variables))

    def extend(
        self,
        sizes: IntColumn,
        variables: IntColumn,
        coefficients: FloatColumn,
        lower: FloatColumn,
        upper: FloatColumn,
    ) -> None:
        """Constraints of ``sizes`` variables each, one behind the other."""
        self.lower += lower.tolist()
        self.upper += upper.tolist()
        self.variables.append(variables)
        self.coefficients.append(coefficients)
        self.start += (self.start[-1] + np.cumsum(sizes)).tolist()


class Program(NamedTuple):
    """Maximise ``gain @ x`` where ``0 <= x <= upper`` and the ``rows`` hold.

    ``whole``: which x are whole numbers (None: none).
    """

    gain: FloatColumn
    upper: FloatColumn
    rows: Rows
    whole: BoolColumn | None = None


class Answer(NamedTuple):
    """A feasible ``x``, its ``value``, and a ``bound`` that no feasible x exceeds.

    ``duals`` of the rows, None where they are not those of an optimum. ``seconds`` of work that it took.
    """

    x: FloatColumn
    value: float
    bound: float
    duals: FloatColumn | None
    seconds: float

    @property
    def gap(self) -> float:
        """How much more, relative to ``value``, could at most be gained; 0 for a proven optimum."""
        return relative_gap(self.value, self.bound)


def maximise(
    program: Program, incumbent: FloatColumn, bound: float, seconds: float, gap: float = 0.0
) -> Answer:
    """The best x found within ``seconds`` of work, at worst ``incumbent``.

    ``bound``: no feasible x gains more. ``gap``: where x are whole numbers, one that is known to be as
    close to an optimum as this, relative to its value, will do; the search begins at ``incumbent``, which
    stands where reading the program would take all the work. Raises `Problem` where ``highspy`` is not
    installed.
    """
    kept = float(program.gain @ incumbent)
    read = _READ_SECONDS * program.rows.start[-1]
    if program.whole is not None and (relative_gap(kept, bound) <= gap or read > seconds):
        return Answer(incumbent, kept, bound, None, 0.0)
    highspy = _highspy()
    solver = _load(highspy, program)
    work = _Work.limiting(solver, program, seconds)
    if program.whole is not None:
        solver.setOptionValue("mip_rel_gap", gap)
        start = highspy.HighsSolution()
        start.col_value = incumbent.tolist()
        solver.setSolution(start)
    if (clock := present_clock()) is not None:
        solver.setOptionValue("time_limit", LATEST * seconds)
    solver.run()
    info = solver.getInfo()
    took = work.done(info.simplex_iteration_count)
    if clock is not None:
        clock.ended += solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    if program.whole is not None and np.isfinite(info.mip_dual_bound):
        bound = min(bound, max(float(info.mip_dual_bound), kept))
    feasible = highspy.SolutionStatus.kSolutionStatusFeasible
    if info.primal_solution_status != feasible:
        return Answer(incumbent, kept, bound, None, took)
    solution = solver.getSolution()
    x = np.clip(np.asarray(solution.col_value, dtype=np.float64), 0.0, program.upper)
    if program.whole is not None:
        x = np.where(program.whole, np.round(x), x)
    found = float(program.gain @ x)
    if program.whole is None and solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        duals = np.asarray(solution.row_dual, dtype=np.float64)
        return Answer(x, found, found, duals, took)
    if found < kept:
        return Answer(incumbent, kept, bound, None, took)
    return Answer(x, found, max(bound, found), None, took)


def relative_gap(found: float, bound: float) -> float:
    """How much more than ``found``, relative to it, the ``bound`` is."""
    return max(bound - found, 0.0) / max(abs(found), LEAST_DIVISOR)


def _highspy() -> ModuleType:
    try:
        import highspy  # noqa: PLC0415 - heavy, and few solve programs
    except ImportError:
        raise Problem(
            "a program is to be solved, and the solver HiGHS is not installed",
            mend=install("solvers"),
        ) from None
    return highspy


_READ_SECONDS = 1.5e-6
"""Work to read a coefficient, and to presolve it."""
_ITERATION_SECONDS, _PRICE_SECONDS = 2e-5, 1.5e-9
"""Work of an iteration of the simplex method, and of it for each coefficient."""
_MOST_ITERATIONS = 2**31 - 1
_SEARCH_SECONDS = 2e-6
"""Work for each coefficient between two times at which the search for whole numbers asks whether to go on.

All four were measured on windows of 50 to 3,000 jobs, so that a second of work is about one of a core.
"""


@dataclass
class _Work:
    """Seconds of work, by the coefficients of a program and what the solver does with them."""

    coefficients: int
    limit: float
    searched: int = 0

    @classmethod
    def limiting(cls, solver: Any, program: Program, seconds: float) -> "_Work":
        """The work of ``solver``, which ends after so many seconds of it."""
        work = cls(program.rows.start[-1], seconds)
        if program.whole is not None:
            solver.cbMipInterrupt += work.search
        elif np.isfinite(seconds):
            left = max(seconds - work.done(0), 0.0) / work.iteration
            solver.setOptionValue("simplex_iteration_limit", int(min(left, _MOST_ITERATIONS)))
        return work

    @property
    def iteration(self) -> float:
        """Seconds for an iteration of the simplex method."""
        return _ITERATION_SECONDS + _PRICE_SECONDS * self.coefficients

    def search(self, event: Any) -> None:
        """Count a step of the search for whole numbers; the last one ends it."""
        self.searched += 1
        if self.done(0) >= self.limit:
            event.interrupt()

    def done(self, iterations: int) -> float:
        """Seconds after so many iterations of the simplex method; those within a search are in its steps."""
        read = _READ_SECONDS * self.coefficients
        if self.searched:
            return read + _SEARCH_SECONDS * self.coefficients * self.searched
        return read + self.iteration * iterations


def _load(highspy: Any, program: Program) -> Any:
    """A solver that holds ``program`` (``highspy`` types its options loosely)."""
    rows = program.rows
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.gain), len(rows)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_, model.col_upper_ = program.gain, program.upper
    model.col_lower_ = np.zeros(len(program.gain))
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.start, dtype=np.int32)
    model.a_matrix_.index_ = np.concatenate(rows.variables).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate(rows.coefficients)
    if program.whole is None:
        solver = _linear_solver(highspy, get_ident())
        solver.resetOptions()
    else:
        solver = highspy.Highs()
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[int(one)] for one in program.whole]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(model)
    return solver


@cache
def _linear_solver(highspy: Any, thread: int) -> Any:
    """The solver of linear programs of a thread: making one takes as long as a small program."""
    return highspy.Highs()
