"""Jobs that wait: for each class of jobs that need the same, a pairing heap by (key, number).

Keys stand still while jobs wait. Of a class only the first can be served next, so a decision looks at one job
a class. A push costs a step, taking out any job costs steps that grow with the logarithm of their number.
"""

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import before, note_first
from volvelle.core.state import *


@kernel
def wait(s: State, row: int) -> None:
    """Let the job in ``row`` wait with the others of its class, by its key."""
    jobs = s.jobs
    jobs.child[row] = -1
    jobs.next[row] = -1
    jobs.previous[row] = -1
    k = jobs.kind[row]
    s.classes.first[k] = _meld(s, s.classes.first[k], row)
    note_first(s, k)


@kernel
def wait_no_more(s: State, row: int) -> None:
    """Take the job in ``row`` out of the waiting jobs."""
    jobs = s.jobs
    k = jobs.kind[row]
    rest = _meld_children(s, row)
    if s.classes.first[k] == row:
        s.classes.first[k] = rest
        note_first(s, k)
        return
    previous, following = jobs.previous[row], jobs.next[row]
    if jobs.child[previous] == row:
        jobs.child[previous] = following
    else:
        jobs.next[previous] = following
    if following >= 0:
        jobs.previous[following] = previous
    s.classes.first[k] = _meld(s, s.classes.first[k], rest)


@kernel
def _meld(s: State, row: int, other: int) -> int:
    """One heap of two; its first job."""
    if row < 0:
        return other
    if other < 0:
        return row
    jobs = s.jobs
    first, second = row, other
    if before(s.jobs, other, row):
        first, second = other, row
    child = jobs.child[first]
    jobs.next[second] = child
    if child >= 0:
        jobs.previous[child] = second
    jobs.previous[second] = first
    jobs.child[first] = second
    return first


@kernel
def _meld_children(s: State, row: int) -> int:
    """The heap of the children of ``row``, in two passes."""
    jobs = s.jobs
    child = jobs.child[row]
    jobs.child[row] = -1
    pairs = -1
    while child >= 0:
        other = jobs.next[child]
        rest = -1
        jobs.next[child] = -1
        if other >= 0:
            rest = jobs.next[other]
            jobs.next[other] = -1
        child = _meld(s, child, other)
        jobs.next[child] = pairs
        pairs = child
        child = rest
    first = -1
    while pairs >= 0:
        rest = jobs.next[pairs]
        jobs.next[pairs] = -1
        first = _meld(s, first, pairs)
        pairs = rest
    return first
