"""Who has which CPUs and memory, where a policy divides them (`volvelle.core.policy.Policy.divides`)."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import IntArray
from volvelle.core.demand import Amounts
from volvelle.core.parts import KnownJob
from volvelle.core.policy import Policy
from volvelle.core.state import JobColumns, Resources
from volvelle.core.stock import Standing


class Division(NamedTuple):
    """What the jobs have from now on, per GPU: all of them, and the rows of those that are to be told."""

    amounts: dict[int, Amounts]
    told: IntArray


def divide(
    policy: Policy,
    jobs: JobColumns,
    resources: Resources,
    known: dict[int, KnownJob],
    before: dict[int, Amounts],
    restarted: IntArray,
    order: IntArray | None,
) -> Division | None:
    """Let ``policy`` divide CPUs and memory among the jobs that have GPUs; None where there are none.

    ``before``: what jobs had per GPU; those in ``restarted`` (numbers) are told in any case. ``order``: the
    rows in the order in which they are served, by submission where it is None.
    """
    stock = resources.stock if resources.named else resources.stock_by_type()
    rows = _served(jobs, order)
    if stock is None or resources.stock is None or not len(rows):
        return None
    numbers = jobs.matrix[Column.NUMBER, rows].astype(np.int64)
    standing = _on_nodes(rows, numbers, resources) if resources.named else _by_type(rows, jobs)
    found = policy.divide([known[number] for number in numbers.tolist()], standing, stock)
    if resources.named:
        held = resources.owner >= 0
        at = _positions(numbers, resources.owner[held])
        resources.given[:, held] = found[:, at]
    amounts = dict(zip(numbers.tolist(), map(tuple, found.T.tolist()), strict=True))
    again = set(restarted.tolist())
    told = [number in again or before.get(number) != amounts[number] for number in numbers.tolist()]
    return Division(amounts, rows[np.array(told, dtype=np.bool_)])


def _served(jobs: JobColumns, order: IntArray | None) -> IntArray:
    """The rows of the jobs that have GPUs, in the order in which they are served."""
    if order is None:
        order = np.argsort(jobs.matrix[Column.NUMBER, : jobs.count])
    served: IntArray = order[jobs.matrix[Column.HELD, order] > 0]
    return served


def _by_type(rows: IntArray, jobs: JobColumns) -> Standing:
    return Standing(
        np.arange(len(rows) + 1),
        jobs.matrix[Column.TYPE, rows].astype(np.int64),
        jobs.matrix[Column.HELD, rows],
    )


def _on_nodes(rows: IntArray, numbers: IntArray, resources: Resources) -> Standing:
    slots = np.flatnonzero(resources.owner >= 0)
    nodes = len(resources.nodes)
    where = _positions(numbers, resources.owner[slots]) * nodes + resources.slot_node[slots]
    places, gpus = np.unique(where, return_counts=True)
    first = np.searchsorted(places // nodes, np.arange(len(rows) + 1))
    return Standing(first, places % nodes, gpus.astype(np.float64))


def _positions(numbers: IntArray, wanted: IntArray) -> IntArray:
    """Where in ``numbers`` each of ``wanted`` stands."""
    by_number = np.argsort(numbers)
    positions: IntArray = by_number[np.searchsorted(numbers, wanted, sorter=by_number)]
    return positions
