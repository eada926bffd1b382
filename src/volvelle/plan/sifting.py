"""Large linear programs by sifting: solved in the few variables whose value is in doubt.

A window of 10,000 jobs has 100,000 variables and a handful of rows that bind, so that nearly all variables
are at a bound. The others are found in turns (Bixby et al., 1992): variables are held at the incumbent's
values but for a sample; the duals of that small program say of every other variable at which bound it
belongs, and those that are elsewhere are let go. The duals bound the gain of the whole program too, so that
the last turn's answer is known to be optimal, or how far it is from that.
"""

import numpy as np

from volvelle.model.arrays import BoolColumn, FloatColumn
from volvelle.model.tolerances import SAME_SHARE
from volvelle.plan.programs import Answer, Program, Rows, maximise, relative_gap

_SAMPLE = 40
"""One in so many variables is free in the first turn."""


def sift(
    program: Program, incumbent: FloatColumn, bound: float, seconds: float, gap: float
) -> Answer:
    """As `volvelle.plan.programs.maximise`, of a program without whole numbers."""
    matrix = _Matrix(program.rows, len(program.gain))
    x = np.clip(incumbent, 0.0, program.upper)
    free = (x > 0.0) & (x < program.upper)
    free[::_SAMPLE] = True
    value, duals, took = float(program.gain @ x), None, 0.0
    while took < seconds:
        answer = maximise(matrix.part(program, free, x), x[free], np.inf, seconds - took)
        took += answer.seconds
        x[free] = answer.x
        value = float(program.gain @ x)
        if answer.duals is None:
            break
        duals = answer.duals
        reduced = program.gain - matrix.weighted(duals)
        elsewhere = np.where(reduced > 0.0, program.upper - x, x)
        missed = np.where(free, 0.0, np.abs(reduced) * elsewhere)
        bound = min(bound, value + float(missed.sum()))
        if relative_gap(value, bound) <= max(gap, SAME_SHARE):
            break
        duals = None
        free |= missed > 0.0
    return Answer(x, value, max(bound, value), duals, took)


class _Matrix:
    """The coefficients of all rows, one after another."""

    def __init__(self, rows: Rows, variables: int) -> None:
        self._count = variables
        self._lower, self._upper = np.array(rows.lower), np.array(rows.upper)
        self._variables = np.concatenate(rows.variables)
        self._coefficients = np.concatenate(rows.coefficients)
        self._row = np.repeat(np.arange(len(rows)), np.diff(rows.start))

    def part(self, program: Program, free: BoolColumn, x: FloatColumn) -> Program:
        """The program in ``free`` variables, others being as in ``x``."""
        kept = free[self._variables]
        fixed = np.where(kept, 0.0, self._coefficients * x[self._variables])
        used = np.bincount(self._row, fixed, len(self._lower))
        place = np.cumsum(free) - 1
        ends = np.cumsum(np.bincount(self._row[kept], minlength=len(self._lower)))
        rows = Rows()
        rows.lower, rows.upper = (self._lower - used).tolist(), (self._upper - used).tolist()
        rows.start = [0, *ends.tolist()]
        rows.variables = [place[self._variables[kept]]]
        rows.coefficients = [self._coefficients[kept]]
        return Program(program.gain[free], program.upper[free], rows)

    def weighted(self, duals: FloatColumn) -> FloatColumn:
        """Of each variable, its coefficients weighted by ``duals``."""
        weighted: FloatColumn = np.bincount(
            self._variables, self._coefficients * duals[self._row], self._count
        ).astype(np.float64)
        return weighted
