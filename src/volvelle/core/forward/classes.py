"""Classes of jobs: which job that waits is served next, of all or of those that fit, without a look at each.

A tournament over classes: an entry has the first job that waits of the classes below, and the fewest GPUs
that one of these needs. Entries lie in the order of a walk through the tree, with leaves at even places: more
classes lie behind those there are.
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
    types, pool = jobs.types[row], int(jobs.pool[row])
    first = s.pools.classes[pool] if pool >= 0 else s.count[UNPOOLED]
    k = first
    while k >= 0:
        if classes.least[k] == least and classes.most[k] == most and classes.types[k] == types:
            return int(k)
        k = classes.next[k]
    k = s.count[CLASSES]
    classes.least[k] = least
    classes.most[k] = most
    classes.types[k] = types
    classes.pool[k] = pool
    classes.next[k] = first
    classes.first[k] = -1
    classes.only[k] = -1
    for gpu_type in range(len(s.types.free)):
        if int(types) >> gpu_type & 1:
            classes.only[k] = gpu_type if classes.only[k] == -1 else -2
    s.count[CLASSES] = k + 1
    if pool >= 0:
        s.pools.classes[pool] = k
    else:
        s.count[UNPOOLED] = k
    return int(k)


@kernel
def no_classes(s: State) -> None:
    """Let no job be of any class."""
    nobody_waits(s)
    s.count[CLASSES] = 0
    s.count[UNPOOLED] = -1
    for pool in range(len(s.pools.classes)):
        s.pools.classes[pool] = s.pools.running[pool] = -1


@kernel
def nobody_waits(s: State) -> None:
    """Let no job wait."""
    for k in range(s.count[CLASSES]):
        s.classes.first[k] = -1
    tree = s.tournament
    for at in range(len(tree.need)):
        tree.first[at] = -1
        tree.need[at] = INFINITY


@kernel
def note_first(s: State, k: int) -> None:
    """Enter which job of a class is the first that waits now."""
    classes, tree = s.classes, s.tournament
    row, at, step = classes.first[k], 2 * k, 1
    need = classes.least[k] if row >= 0 else INFINITY
    while tree.first[at] != row or tree.need[at] != need:
        tree.first[at] = row
        tree.need[at] = need
        if step == len(classes.first):
            return
        at += step if k % 2 == 0 else -step
        k = k // 2
        one, two = at - step, at + step
        step = 2 * step
        row = _sooner(s.jobs, tree.first[one], tree.first[two])
        need = min(tree.need[one], tree.need[two])


@kernel
def _sooner(jobs: Jobs, row: int, other: int) -> int:
    if row < 0 or (other >= 0 and before(jobs, other, row)):
        return other
    return row


@kernel
def set_left(s: State, pool: int, gpus: float) -> None:
    """Let so many GPUs be left to the jobs of a pool, in this decision."""
    pools = s.pools
    if pools.left[pool] < -SAME_AMOUNT:
        s.count[OVERDRAWN] -= 1
    if gpus < -SAME_AMOUNT:
        s.count[OVERDRAWN] += 1
    pools.left[pool] = gpus
    touch(s, pool)


@kernel
def touch(s: State, pool: int) -> None:
    """Count anew in the next decision what is left to a pool."""
    pools = s.pools
    if pools.touched[pool] == 0:
        pools.touched[pool] = 1
        pools.list[s.count[TOUCHED]] = pool
        s.count[TOUCHED] += 1


@kernel
def count_left(s: State) -> None:
    """Count what is left to pools, of which something has changed since that was done."""
    pools = s.pools
    for i in range(s.count[TOUCHED]):
        pool = pools.list[i]
        set_left(s, pool, pools.quota[pool] - pools.taken[pool])
    for i in range(s.count[TOUCHED]):
        pools.touched[pools.list[i]] = 0
    s.count[TOUCHED] = 0


@kernel
def type_for(s: State, types: int, least: float, pool: int) -> int:
    """The first GPU type with its bit set in ``types`` of which ``least`` are free, -1 for none.

    By what is ``free`` and ``left`` to the pool in this decision.
    """
    if pool >= 0 and s.pools.left[pool] + SAME_AMOUNT < least:
        return -1
    free, gpu_type = s.types.free, 0
    while gpu_type < len(free):  # the bit of the 64th type makes it negative to machine code
        if types & 255 == 0:
            types = types >> 8
            gpu_type += 8
            continue
        fits = free[gpu_type] > SAME_AMOUNT and free[gpu_type] + SAME_AMOUNT >= least
        if fits and types & 1 == 1:
            return gpu_type
        types = types >> 1
        gpu_type += 1
    return -1


@kernel
def first_waiting(s: State, pool: int, fitting: bool) -> int:
    """The row of the waiting job that is served next, or of the next whose class fits; -1: none.

    pool: whose jobs are meant, `EVERY_POOL` for all jobs.
    """
    classes, tree, size = s.classes, s.tournament, len(s.classes.first)
    if pool != EVERY_POOL:
        return _first_of_pool(s, pool, fitting)
    if not fitting:
        return int(tree.first[size - 1])
    most = 0.0
    for gpu_type in range(len(s.types.free)):
        most = max(most, s.types.free[gpu_type])
    best, at, step, k = -1, size - 1, size, 0
    while True:
        row = tree.first[at]
        if (
            row >= 0
            and tree.need[at] <= most + SAME_AMOUNT
            and (best < 0 or before(s.jobs, row, best))
        ):
            if step > 1:
                step = step // 2
                at -= step
                k = 2 * k
                continue
            types, pool = int(classes.types[k]), int(classes.pool[k])
            if type_for(s, types, classes.least[k], pool) >= 0:
                best = row
        while k % 2 == 1:
            at -= step
            k = k // 2
            step = 2 * step
        if step == size:
            return int(best)
        at += 2 * step
        k += 1


@kernel
def note_first_keys(s: State) -> None:
    """Note of each GPU type the key of the first job that waits for it.

    Types that jobs of one class may use count as one.
    """
    classes, keys, changed = s.classes, s.types.first_key, False
    for gpu_type in range(len(keys)):
        keys[gpu_type] = INFINITY
    for k in range(s.count[CLASSES]):
        if classes.only[k] < 0:
            changed = True
        elif classes.first[k] >= 0:
            keys[classes.only[k]] = min(keys[classes.only[k]], s.jobs.key[classes.first[k]])
    while changed:
        changed = False
        for k in range(s.count[CLASSES]):
            if classes.only[k] < 0:
                types, least = int(classes.types[k]), INFINITY
                if classes.first[k] >= 0:
                    least = s.jobs.key[classes.first[k]]
                for gpu_type in range(len(keys)):
                    if types >> gpu_type & 1:
                        least = min(least, keys[gpu_type])
                for gpu_type in range(len(keys)):
                    if types >> gpu_type & 1 and keys[gpu_type] > least:
                        keys[gpu_type] = least
                        changed = True


@kernel
def _first_of_pool(s: State, pool: int, fitting: bool) -> int:
    classes, best, k = s.classes, -1, s.pools.classes[pool]
    while k >= 0:
        row = classes.first[k]
        if row >= 0 and (best < 0 or before(s.jobs, row, best)):
            types = int(classes.types[k])
            if not fitting or type_for(s, types, classes.least[k], pool) >= 0:
                best = row
        k = classes.next[k]
    return int(best)
