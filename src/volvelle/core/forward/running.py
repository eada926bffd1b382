"""Running jobs by their keys: a sorted list in blocks, so that coming and going moves few entries.

A decision lists those that it may change (`list_from`) in `State.ranked`, with their keys in ``bound``, and
puts them back (`put_back`) by the keys that they have now.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *


@kernel
def rank(s: State, row: int) -> None:
    """Let the job in ``row`` be among the running ones, by its key."""
    if 2 * s.count[BLOCKS] > len(s.blocks.number):
        list_from(s, -INFINITY)
        s.count[BLOCKS] = 0
        for i in range(s.count[RANKED]):
            _append(s, s.ranked[i], s.bound[i])
    _insert(s, row, s.jobs.key[row])


@kernel
def join_pool(s: State, row: int) -> None:
    """Let the job in ``row`` be among those of its pool that run."""
    pool = int(s.jobs.pool[row])
    if pool >= 0:
        first = s.pools.running[pool]
        s.jobs.next[row] = first
        s.jobs.previous[row] = -1
        if first >= 0:
            s.jobs.previous[first] = row
        s.pools.running[pool] = row


@kernel
def leave_pool(s: State, row: int) -> None:
    """Take the job in ``row`` out of those of its pool that run."""
    pool, jobs = int(s.jobs.pool[row]), s.jobs
    if pool >= 0:
        before, after = jobs.previous[row], jobs.next[row]
        if before < 0:
            s.pools.running[pool] = after
        else:
            jobs.next[before] = after
        if after >= 0:
            jobs.previous[after] = before


@kernel
def list_pool(s: State, pool: int) -> None:
    """Write the jobs of a pool that run to `State.ranked`, in no order."""
    many, row = 0, s.pools.running[pool]
    while row >= 0:
        s.ranked[many] = row
        many += 1
        row = s.jobs.next[row]
    s.count[RANKED] = many


@kernel
def rank_no_more(s: State, row: int) -> None:
    """Take the job in ``row`` out of the running ones."""
    key, number = s.jobs.key[row], s.jobs.number[row]
    place = _block_of(s, key, number)
    block = s.blocks.number[place]
    first, many = block * BLOCK, s.blocks.jobs[block] - 1
    for i in range(_place_in(s, block, key, number), first + many):
        s.ranks.row[i] = s.ranks.row[i + 1]
        s.ranks.bound[i] = s.ranks.bound[i + 1]
    s.blocks.jobs[block] = many
    if many == 0:
        last = s.count[BLOCKS] - 1
        for i in range(place, last):
            s.blocks.number[i] = s.blocks.number[i + 1]
        s.blocks.number[last] = block
        s.count[BLOCKS] = last


@kernel
def list_from(s: State, key: float) -> None:
    """Write the running jobs with this key or a later one to `State.ranked` and ``bound``, in order."""
    many, place = 0, _block_of(s, key, -1.0)
    for p in range(place, s.count[BLOCKS]):
        block = s.blocks.number[p]
        first = _place_in(s, block, key, -1.0) if p == place else block * BLOCK
        for i in range(first, block * BLOCK + s.blocks.jobs[block]):
            s.ranked[many] = s.ranks.row[i]
            s.bound[many] = s.ranks.bound[i]
            many += 1
    s.count[RANKED] = many


@kernel
def list_running(s: State) -> None:
    """Write all running jobs to `State.ranked`, by their keys."""
    many = 0
    for place in range(s.count[BLOCKS]):
        block = s.blocks.number[place]
        for i in range(block * BLOCK, block * BLOCK + s.blocks.jobs[block]):
            s.ranked[many] = s.ranks.row[i]
            many += 1
    s.count[RANKED] = many


@kernel
def sort_ranked(s: State, gap: int) -> None:
    """Sort entries of `State.ranked` that are ``gap`` apart by their keys: a step of Shell's method."""
    ranked, bound, number = s.ranked, s.bound, s.jobs.number
    for i in range(gap, s.count[RANKED]):
        row, key, at = ranked[i], bound[i], i
        while at >= gap and (
            bound[at - gap] > key
            or (bound[at - gap] == key and number[ranked[at - gap]] > number[row])
        ):
            ranked[at] = ranked[at - gap]
            bound[at] = bound[at - gap]
            at -= gap
        ranked[at] = row
        bound[at] = key


@kernel
def list_served(s: State, rules: Rules) -> None:
    """Write all running jobs to `State.ranked` in the order in which a decision serves them.

    That is by submission where the decision is not by keys, or where there is enough for all
    (`volvelle.core.order_policy.all_served`).
    """
    jobs, row, many, pinned, need = s.jobs, s.count[OLDEST], 0, False, 0.0
    while row >= 0:
        need += jobs.most[row] if rules.elastic else jobs.gpus[row]
        pinned = pinned or jobs.pinned[row] > 0.0
        if jobs.held[row] > 0.0:
            s.ranked[many] = row
            many += 1
        row = jobs.younger[row]
    s.count[RANKED] = many
    only = len(s.types.capacity) == 1 and len(s.pools.quota) == 0
    if rules.decides == ORDER and (pinned or not only or need > s.types.capacity[0]):
        list_running(s)
        s.key(jobs, s.ranked, 0, many, s.clock[NOW], s.bound)
        sort_ranked(s, 1)


@kernel
def put_back(s: State, key: float) -> None:
    """Have in the place of those listed from ``key`` on the same jobs as they are in `State.ranked` now.

    Their keys are in ``bound``, in ascending order; some may belong further ahead.
    """
    blocks, many, place = s.count[BLOCKS], s.count[RANKED], _block_of(s, key, -1.0)
    if many == 0:
        return
    first = _place_in(s, s.blocks.number[place], key, -1.0)
    fallen = 0
    if place > 0 or first > s.blocks.number[0] * BLOCK:
        last = first - 1
        if first == s.blocks.number[place] * BLOCK:
            block = s.blocks.number[place - 1]
            last = block * BLOCK + s.blocks.jobs[block] - 1
        other, number = s.ranks.bound[last], s.jobs.number[s.ranks.row[last]]
        while fallen < many and (
            s.bound[fallen] < other
            or (s.bound[fallen] == other and s.jobs.number[s.ranked[fallen]] < number)
        ):
            fallen += 1
    i = fallen
    for p in range(place, blocks):
        block = s.blocks.number[p]
        start = block * BLOCK
        at, end = first if p == place else start, start + s.blocks.jobs[block]
        while at < end and i < many:
            s.ranks.row[at] = s.ranked[i]
            s.ranks.bound[at] = s.bound[i]
            at += 1
            i += 1
        s.blocks.jobs[block] = at - start
        if i == many:
            s.count[BLOCKS] = p + (1 if at > start else 0)
            break
    for i in range(fallen):
        _insert(s, s.ranked[i], s.bound[i])


@kernel
def _block_of(s: State, key: float, number: float) -> int:
    """In which block a job belongs, as a place in `Blocks.number`; 0 where there is none."""
    first, last = 0, s.count[BLOCKS]
    while last - first > 1:
        middle = (first + last) // 2
        start = s.blocks.number[middle] * BLOCK
        other = s.ranks.bound[start]
        if other < key or (other == key and s.jobs.number[s.ranks.row[start]] <= number):
            first = middle
        else:
            last = middle
    return first


@kernel
def _place_in(s: State, block: int, key: float, number: float) -> int:
    """Where in a block a job belongs."""
    first = block * BLOCK
    last = first + s.blocks.jobs[block]
    while first < last:
        middle = (first + last) // 2
        other = s.ranks.bound[middle]
        if other < key or (other == key and s.jobs.number[s.ranks.row[middle]] < number):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _insert(s: State, row: int, key: float) -> None:
    number, blocks = s.jobs.number[row], s.count[BLOCKS]
    if blocks == 0:
        _append(s, row, key)
        return
    last = s.blocks.number[blocks - 1]
    end = last * BLOCK + s.blocks.jobs[last] - 1
    other = s.ranks.bound[end]
    if other < key or (other == key and s.jobs.number[s.ranks.row[end]] < number):
        _append(s, row, key)
        return
    place = _block_of(s, key, number)
    block = s.blocks.number[place]
    if s.blocks.jobs[block] == BLOCK:
        _split(s, place)
        place = _block_of(s, key, number)
        block = s.blocks.number[place]
    at, end = _place_in(s, block, key, number), block * BLOCK + s.blocks.jobs[block]
    for i in range(end, at, -1):
        s.ranks.row[i] = s.ranks.row[i - 1]
        s.ranks.bound[i] = s.ranks.bound[i - 1]
    s.ranks.row[at] = row
    s.ranks.bound[at] = key
    s.blocks.jobs[block] += 1


@kernel
def _append(s: State, row: int, key: float) -> None:
    """Let the job in ``row`` be the last."""
    blocks = s.count[BLOCKS]
    block = s.blocks.number[blocks - 1] if blocks > 0 else 0
    if blocks == 0 or s.blocks.jobs[block] == BLOCK:
        block = s.blocks.number[blocks]
        s.blocks.jobs[block] = 0
        s.count[BLOCKS] = blocks + 1
    at = block * BLOCK + s.blocks.jobs[block]
    s.ranks.row[at] = row
    s.ranks.bound[at] = key
    s.blocks.jobs[block] += 1


@kernel
def _split(s: State, place: int) -> None:
    """Let half of a full block be a block behind it."""
    numbers, blocks = s.blocks.number, s.count[BLOCKS]
    block, new, half = numbers[place], numbers[blocks], BLOCK // 2
    for i in range(blocks, place + 1, -1):
        numbers[i] = numbers[i - 1]
    numbers[place + 1] = new
    for i in range(half):
        s.ranks.row[new * BLOCK + i] = s.ranks.row[block * BLOCK + half + i]
        s.ranks.bound[new * BLOCK + i] = s.ranks.bound[block * BLOCK + half + i]
    s.blocks.jobs[block] = s.blocks.jobs[new] = half
    s.count[BLOCKS] = blocks + 1
