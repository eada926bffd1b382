"""Jobs that wait: for each class of jobs that need the same, a pairing heap by (key, number).

Keys stand still while jobs wait. Of a class only the first can be served next, so a decision looks at one job
a class. A push costs a step, taking out any job costs steps that grow with the logarithm of their number.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT


@kernel
def before(jobs: Jobs, row: int, other: int) -> bool:
    """Whether the job in ``row`` is served before that in ``other``."""
    one, two = jobs.key[row], jobs.key[other]
    return bool(one < two or (one == two and jobs.number[row] < jobs.number[other]))


@kernel
def class_of(s: State, rules: Rules, row: int) -> int:
    """The class of the job in ``row``, a new one where it is the first that needs so much."""
    jobs, classes = s.jobs, s.classes
    least = jobs.least[row] if rules.elastic else jobs.gpus[row]
    most = jobs.most[row] if rules.elastic else jobs.gpus[row]
    types, pool = jobs.types[row], jobs.pool[row]
    last = s.count[CLASSES]
    for k in range(last):
        if (
            classes.least[k] == least
            and classes.most[k] == most
            and classes.types[k] == types
            and classes.pool[k] == pool
        ):
            return k
    classes.least[last] = least
    classes.most[last] = most
    classes.types[last] = types
    classes.pool[last] = pool
    s.classes.first[last] = -1
    s.count[CLASSES] = last + 1
    return int(last)


@kernel
def wait(s: State, row: int) -> None:
    """Let the job in ``row`` wait with the others of its class, by its key."""
    jobs = s.jobs
    jobs.child[row] = -1
    jobs.next[row] = -1
    jobs.previous[row] = -1
    k = jobs.kind[row]
    s.classes.first[k] = _meld(s, s.classes.first[k], row)


@kernel
def wait_no_more(s: State, row: int) -> None:
    """Take the job in ``row`` out of the waiting jobs."""
    jobs = s.jobs
    k = jobs.kind[row]
    rest = _meld_children(s, row)
    if s.classes.first[k] == row:
        s.classes.first[k] = rest
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


@kernel
def type_for(s: State, types: int, least: float, pool: int) -> int:
    """The first GPU type with its bit set in ``types`` of which ``least`` are free, -1 for none.

    By what is ``free`` and ``left`` to the pool in this decision.
    """
    if pool >= 0 and s.pools.left[pool] + SAME_AMOUNT < least:
        return -1
    free = s.types.free
    for gpu_type in range(len(free)):
        fits = free[gpu_type] > SAME_AMOUNT and free[gpu_type] + SAME_AMOUNT >= least
        if fits and (types >> gpu_type) & 1 == 1:
            return gpu_type
    return -1


@kernel
def first_waiting(s: State, fitting: bool) -> int:
    """The row of the waiting job that is served next, or of the next whose class fits; -1: none."""
    best = -1
    classes = s.classes
    for k in range(s.count[CLASSES]):
        row = classes.first[k]
        if row < 0 or (best >= 0 and not before(s.jobs, row, best)):
            continue
        if fitting:
            types, pool = int(classes.types[k]), int(classes.pool[k])
            if type_for(s, types, classes.least[k], pool) < 0:
                continue
        best = row
    return best
