"""The Eisenberg-Gale program in any variables, by Clarabel: largest welfare under linear constraints."""

from typing import Any

import numpy as np

from volvelle.model.arrays import Floats
from volvelle.model.problems import Problem

Rows = tuple[Any, Floats]
"""A sparse matrix and a right-hand side."""


def sparse_matrices() -> Any:
    """SciPy's. Raises `Problem` where the extra is not installed."""
    try:
        import clarabel  # noqa: F401, PLC0415 - an extra
        from scipy import sparse  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem(
            "markets are solved by Clarabel, which is not installed",
            mend="install volvelle with the extra market",
        ) from None
    return sparse


def most_welfare(
    worth: Any, budgets: Floats, equal: Rows | None, most: Rows, tolerance: float
) -> tuple[Floats, Floats]:
    """Variables x >= 0 of the largest sum of B log U, and multipliers of ``most``, for budgets that sum to 1.

    worth: (buyers, variables) sparse, U = worth x. equal, most: A x = b, A x <= b. Raises `Problem` where
    the solver is not installed or does not get there.

    Behind x come a bound t of each buyer's log U, for which (t, 1, U) is in the exponential cone.
    """
    sparse = sparse_matrices()
    import clarabel  # noqa: PLC0415 - an extra

    buyers, variables = worth.shape
    scale = np.maximum(abs(worth).max(axis=1).toarray().ravel(), 1e-300)
    none = sparse.csc_matrix((0, variables)), np.zeros(0)
    a_equal, b_equal = equal or none
    a_most, b_most = most
    scaled = (sparse.diags(1.0 / scale) @ worth).tocoo()
    cones = sparse.csc_matrix(
        (
            np.concatenate([-np.ones(buyers), -scaled.data]),
            (
                np.concatenate([3 * np.arange(buyers), 3 * scaled.row + 2]),
                np.concatenate([variables + np.arange(buyers), scaled.col]),
            ),
        ),
        shape=(3 * buyers, variables + buyers),
    )
    constant = np.zeros(3 * buyers)
    constant[1::3] = 1.0
    linear = sparse.vstack([a_equal, a_most, -sparse.identity(variables)])
    padded = sparse.hstack([linear, sparse.csc_matrix((linear.shape[0], buyers))])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((variables + buyers, variables + buyers)),
        np.concatenate([np.zeros(variables), -budgets / budgets.sum()]),
        sparse.vstack([padded, cones], format="csc"),
        np.concatenate([b_equal, b_most, np.zeros(variables), constant]),
        [
            *([clarabel.ZeroConeT(len(b_equal))] if len(b_equal) else []),
            clarabel.NonnegativeConeT(len(b_most) + variables),
            *(clarabel.ExponentialConeT() for _ in range(buyers)),
        ],
        settings,
    ).solve()
    if str(solution.status) not in {"Solved", "AlmostSolved"}:
        raise Problem(f"the market's program was not solved: {solution.status}")
    x = np.maximum(np.array(solution.x[:variables]), 0.0)
    paid = np.array(solution.z[len(b_equal) : len(b_equal) + len(b_most)])
    return x, np.maximum(paid, 0.0)
