"""Linear programs, solved by HiGHS through ``highspy`` (the extra ``solvers``).

Whoever has a program to solve brings an **incumbent**, a feasible answer found without the solver, and a
**bound**, a gain that no answer can exceed. The solver has a time limit; where it fails, is late or finds
nothing better, the incumbent stands. Every answer comes with its **gap**: how much more, relative to what
it gains, an answer could at most gain. It is 0 for a proven optimum.

HiGHS is told to use one thread, so that an answer does not depend on the machine (it would keep the
thread count of the first solve in a process anyway). ``highspy`` and ``ortools`` cannot be imported into
one process.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from volvelle.core.view import FloatColumn, IntColumn
from volvelle.model.problems import Problem

_NOTHING = 1e-12
"""A gain below which a gap is not taken relative to it."""


class Rows:
    """Constraints ``lower <= coefficients @ x[variables] <= upper``, collected one by one."""

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


class Program(NamedTuple):
    """Maximise ``gain @ x`` where ``0 <= x <= upper`` and the ``rows`` hold."""

    gain: FloatColumn
    upper: FloatColumn
    rows: Rows


class Answer(NamedTuple):
    """A feasible ``x`` and its gap; ``duals`` of the rows, None where they are not those of an optimum."""

    x: FloatColumn
    gap: float
    duals: FloatColumn | None


def maximise(program: Program, incumbent: FloatColumn, bound: float, seconds: float) -> Answer:
    """The best x found within ``seconds`` of wall-clock time, at worst ``incumbent``.

    ``bound``: no feasible x gains more. Raises `Problem` where ``highspy`` is not installed.
    """
    highspy = _highspy()
    solver = _load(highspy, program, seconds)
    solver.run()
    kept = float(program.gain @ incumbent)
    feasible = highspy.SolutionStatus.kSolutionStatusFeasible
    if solver.getInfo().primal_solution_status != feasible:
        return Answer(incumbent, _gap(kept, bound), None)
    solution = solver.getSolution()
    x = np.clip(np.asarray(solution.col_value, dtype=np.float64), 0.0, program.upper)
    found = float(program.gain @ x)
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        return Answer(x, 0.0, np.asarray(solution.row_dual, dtype=np.float64))
    if found < kept:
        return Answer(incumbent, _gap(kept, bound), None)
    return Answer(x, _gap(found, bound), None)


def _gap(found: float, bound: float) -> float:
    return max(bound - found, 0.0) / max(abs(found), _NOTHING)


def _highspy() -> ModuleType:
    try:
        import highspy  # noqa: PLC0415 - heavy, and only some policies solve programs
    except ImportError:
        raise Problem(
            "this policy solves linear programs, and the solver HiGHS is not installed",
            mend="pip install 'volvelle[solvers]'",
        ) from None
    return highspy


def _load(highspy: Any, program: Program, seconds: float) -> Any:
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
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", seconds)
    solver.passModel(model)
    return solver
