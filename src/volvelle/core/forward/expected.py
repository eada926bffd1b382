"""Expected events: a binary heap by (time, kind, job number).

An entry of an earlier rate of a job is outdated (its STAMP is not the job's TOKEN) and dropped when it is
met.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *


@kernel
def expect(
    s: State, time: float, kind: int, number: float, row: int, stamp: float, value: float
) -> None:
    """Add an entry."""
    heap, i = s.expected, s.count[EXPECTED]
    s.count[EXPECTED] = i + 1
    at, kinds, numbers, columns = heap.at, heap.kind, heap.of, heap.floats
    while i > 0:
        up = (i - 1) // 2
        if at[up] < time or (
            at[up] == time and (kinds[up] < kind or (kinds[up] == kind and numbers[up] <= number))
        ):
            break
        for column in range(len(columns)):
            columns[column][i] = columns[column][up]
        i = up
    _write(s, i, time, kind, number, row, stamp, value)


@kernel
def _write(
    s: State,
    i: int,
    time: float,
    kind: float,
    number: float,
    row: float,
    stamp: float,
    value: float,
) -> None:
    """Have this entry at ``i``."""
    heap = s.expected
    heap.at[i] = time
    heap.kind[i] = kind
    heap.of[i] = number
    heap.row[i] = row
    heap.stamp[i] = stamp
    heap.value[i] = value


@kernel
def next_expected(s: State) -> float:
    """When the first entry that is not outdated comes, infinite where there is none."""
    while s.count[EXPECTED] > 0:
        if is_current(s, 0):
            return float(s.expected.at[0])
        take_expected(s)
    return INFINITY


@kernel
def is_current(s: State, i: int) -> bool:
    """Whether entry ``i`` is not outdated."""
    heap = s.expected
    if heap.kind[i] == STOPPED:
        return True
    row = int(heap.row[i])
    return bool(s.jobs.token[row] == heap.stamp[i] and s.jobs.number[row] == heap.of[i])


@kernel
def take_expected(s: State) -> None:
    """Take out the first entry."""
    last = s.count[EXPECTED] - 1
    s.count[EXPECTED] = last
    if last > 0:
        _settle(s, 0, last, last)


@kernel
def _settle(s: State, i: int, source: int, size: int) -> None:
    """Put the entry that stands at ``source`` where it belongs at or below ``i``."""
    heap = s.expected
    at, kinds, numbers, columns = heap.at, heap.kind, heap.of, heap.floats
    time, kind, number = at[source], kinds[source], numbers[source]
    row, stamp, value = heap.row[source], heap.stamp[source], heap.value[source]
    while True:
        down = 2 * i + 1
        if down >= size:
            break
        if down + 1 < size and (
            at[down + 1] < at[down]
            or (
                at[down + 1] == at[down]
                and (
                    kinds[down + 1] < kinds[down]
                    or (kinds[down + 1] == kinds[down] and numbers[down + 1] < numbers[down])
                )
            )
        ):
            down += 1
        if time < at[down] or (
            time == at[down]
            and (kind < kinds[down] or (kind == kinds[down] and number <= numbers[down]))
        ):
            break
        for column in range(len(columns)):
            columns[column][i] = columns[column][down]
        i = down
    _write(s, i, time, kind, number, row, stamp, value)


@kernel
def drop_outdated(s: State) -> None:
    """Take out all entries that are outdated."""
    columns, kept = s.expected.floats, 0
    for i in range(s.count[EXPECTED]):
        if is_current(s, i):
            if kept < i:
                for column in range(len(columns)):
                    columns[column][kept] = columns[column][i]
            kept += 1
    s.count[EXPECTED] = kept
    for i in range(kept // 2 - 1, -1, -1):
        _settle(s, i, i, kept)


@kernel
def drop_stop(s: State, number: float, attempt: float) -> None:
    """Expect no longer that the checkpoint of this attempt is written."""
    heap = s.expected
    for i in range(s.count[EXPECTED]):
        if heap.kind[i] == STOPPED and heap.of[i] == number and heap.stamp[i] == attempt:
            heap.kind[i] = MILESTONE  # of no token that any job has: outdated
            heap.stamp[i] = -1.0
