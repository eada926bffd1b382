"""The cheapest matching of jobs with places: shortest augmenting paths over potentials (Crouse, 2016).

Of equally cheap matchings it finds the one that ``scipy.optimize.linear_sum_assignment`` finds, which is of
the same kind: the search looks at free columns from the last one on, and prefers one that nobody has.
"""

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints


@compiled
def cheapest(cost: Floats) -> Ints:
    """The column of each row (-1: none) in the matching of all rows, or of all columns if there are fewer."""
    rows, columns = cost.shape
    if columns >= rows:
        return _match_rows(cost)
    found = np.full(rows, -1)
    for column, row in enumerate(_match_rows(cost.T.copy())):
        found[row] = column
    return found


@kernel
def _match_rows(cost: Floats) -> Ints:
    """The column of each row; there are at least as many columns."""
    rows, columns = cost.shape
    of_row, of_column = np.zeros(rows), np.zeros(columns)  # potentials
    column_of, row_of = np.full(rows, -1), np.full(columns, -1)
    length, via, open_ = np.empty(columns), np.full(columns, -1), np.empty(columns, np.int64)
    for start in range(rows):
        length[:] = INFINITY
        remaining = columns
        for at in range(columns):
            open_[at] = columns - at - 1
        row, so_far, end = start, 0.0, -1
        while end < 0:
            nearest, least = -1, INFINITY
            for at in range(remaining):
                column = open_[at]
                reach = so_far + cost[row, column] - of_row[row] - of_column[column]
                if reach < length[column]:
                    via[column], length[column] = row, reach
                free = row_of[column] < 0
                if length[column] < least or (length[column] == least and free):
                    nearest, least = at, length[column]
            so_far, column = least, open_[nearest]
            if row_of[column] < 0:
                end = column
            else:
                row = row_of[column]
            remaining -= 1
            open_[nearest], open_[remaining] = open_[remaining], column
        of_row[start] += so_far
        for at in range(remaining, columns):
            column = open_[at]
            if row_of[column] >= 0:
                of_row[row_of[column]] += so_far - length[column]
            of_column[column] -= so_far - length[column]
        row, column = -1, end
        while row != start:
            row = via[column]
            row_of[column], column, column_of[row] = row, column_of[row], column
    return column_of
