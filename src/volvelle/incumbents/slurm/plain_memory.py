"""The memory of the kernel of a cluster whose Slurm is not described: nodes, and what running jobs hold."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT, HELD, NUMBER
from volvelle.core.compiled import kernel
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.incumbents.slurm import shapes
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.shapes import Share
from volvelle.model.arrays import Floats

TURN, RUNS = range(COUNT, COUNT + 2)
"""Own columns: the order in which jobs came, 1 for the first; 1 for a job that was started."""

(
    STATE,
    NEXT_MAIN,
    NEXT_BACKFILL,
    CHANGED,
    KNOWN,
    TURNS,
    SHARES,
    SITE_NODES,
    _ROOM,
    _POOLS,
    _HEAD,
) = range(11)
"""Memory: by whom the last decision was; as `Controller` has these; how many jobs are known, have come; how
many shares there are; and of the site its nodes, its GPUs and its pools."""
CLOSED, PYTHONS, KERNELS = range(3)
"""States: nothing was decided, only Python may decide, the kernel decides."""
(SHARE_NUMBER, SHARE_NODE, SHARE_CPUS, SHARE_MEMORY, SHARE_GPUS, SHARE_START, SHARE_END) = range(7)
SHARE_POOL, _SHARE = 7, 8
"""Rows of what running jobs hold, in the order of their starts: a column for each of a job's nodes."""
MAIN_EVERY, BACKFILL_EVERY, MAIN_DEPTH = range(3)
BACKFILL = 3
"""The numbers of `Rules` that a site has: how often passes run, how deep; then those of a `slots.Plan`."""

PASSES = slice(NEXT_MAIN, CHANGED + 1)
"""Of the memory: when each pass is due, and whether anything happened since the last."""


class Site(NamedTuple):
    """The memory in its parts. up: by node, at the last decision. kinds: of nodes, by number."""

    head: Floats
    rules: Floats
    quota: Floats
    types: Floats
    kinds: Floats
    up: Floats
    capacity: Floats
    free: Floats
    shares: Floats


@kernel
def parts_of(memory: Floats) -> Site:
    """The parts, which lie one behind another."""
    nodes, room, pools = int(memory[SITE_NODES]), int(memory[_ROOM]), int(memory[_POOLS])
    at = _HEAD + BACKFILL + 6
    quota = memory[at : at + pools]
    at += pools
    types, kinds, up = (
        memory[at : at + nodes],
        memory[at + nodes : at + 2 * nodes],
        memory[at + 2 * nodes : at + 3 * nodes],
    )
    at += 3 * nodes
    capacity = memory[at : at + 3 * nodes].reshape((3, nodes))
    free = memory[at + 3 * nodes : at + 6 * nodes].reshape((3, nodes))
    at += 6 * nodes
    shares = memory[at : at + _SHARE * room].reshape((_SHARE, room))
    rules = memory[_HEAD : _HEAD + BACKFILL + 6]
    return Site(memory[:_HEAD], rules, quota, types, kinds, up, capacity, free, shares)


def begin() -> Floats:
    """The memory before the first decision."""
    return np.zeros(_HEAD)


def opened(rules: Rules, view: View) -> Floats:
    """The memory of a site of which nothing is held."""
    types = view.resources.node_type.astype(np.float64)
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(types.tolist()))}
    capacity = rules.hardware.capacity
    nodes, room, pools = len(types), int(capacity[shapes.GPUS].sum()), len(view.quota)
    memory = np.zeros(_HEAD + BACKFILL + 6 + pools + 9 * nodes + _SHARE * room)
    memory[STATE], memory[NEXT_MAIN], memory[NEXT_BACKFILL] = KERNELS, -INFINITY, -INFINITY
    memory[CHANGED], memory[SITE_NODES], memory[_ROOM], memory[_POOLS] = 1.0, nodes, room, pools
    parts = parts_of(memory)
    parts.rules[:BACKFILL] = rules.main_interval, rules.backfill_interval, rules.main_depth
    parts.rules[BACKFILL:] = rules.backfill
    parts.quota[:], parts.types[:], parts.up[:] = view.quota, types, rules.up
    parts.kinds[:] = [kinds[kind] for kind in types.tolist()]
    parts.capacity[:] = parts.free[:] = capacity
    return memory


def holdings(site: Site) -> dict[int, tuple[float, list[Share]]]:
    """Since when jobs run, and what they hold, by number, in the order of their starts."""
    found: dict[int, tuple[float, list[Share]]] = {}
    for share in site.shares[:, : int(site.head[SHARES])].T.tolist():
        number, node, *amounts = share[: SHARE_GPUS + 1]
        _, held = found.setdefault(int(number), (share[SHARE_START], []))
        held.append(Share(int(node), *amounts))
    return found


@kernel
def follow(jobs: Floats, up: Floats, site: Site) -> None:
    """Let jobs enter and leave, and stop where they did in the core, and nodes come and go."""
    head, shares = site.head, site.shares
    for node in range(len(up)):
        if site.up[node] != up[node]:
            site.up[node], head[CHANGED] = up[node], 1.0
    known = 0
    for row in range(jobs.shape[1]):
        known += int(jobs[TURN, row] > 0.0)
    for _ in range(int(head[KNOWN]) - known):  # those that have ended, by number
        gone = INFINITY
        for share in range(int(head[SHARES])):
            if shares[SHARE_NUMBER, share] < gone and not _is_there(
                jobs, shares[SHARE_NUMBER, share]
            ):
                gone = shares[SHARE_NUMBER, share]
        if gone == INFINITY:
            break
        _let_go(site, gone)
    if known < head[KNOWN]:
        head[CHANGED] = 1.0
    for row in range(jobs.shape[1]):
        if jobs[TURN, row] == 0.0:
            head[TURNS] += 1.0
            jobs[TURN, row], head[CHANGED] = head[TURNS], 1.0
        elif jobs[RUNS, row] == 1.0 and jobs[HELD, row] == 0.0:
            _let_go(site, jobs[NUMBER, row])
            jobs[RUNS, row], head[CHANGED] = 0.0, 1.0
    head[KNOWN] = jobs.shape[1]


@kernel
def _is_there(jobs: Floats, number: float) -> bool:
    """Whether a job is in the system: jobs are by number."""
    low, high = 0, jobs.shape[1]
    while low < high:
        middle = (low + high) // 2
        if jobs[NUMBER, middle] < number:
            low = middle + 1
        else:
            high = middle
    return bool(low < jobs.shape[1] and jobs[NUMBER, low] == number)


@kernel
def _let_go(site: Site, number: float) -> None:
    """A job holds nothing any more."""
    shares, kept = site.shares, 0
    for share in range(int(site.head[SHARES])):
        if shares[SHARE_NUMBER, share] == number:
            node = int(shares[SHARE_NODE, share])
            for resource in range(3):
                site.free[resource, node] += shares[SHARE_CPUS + resource, share]
            continue
        if kept < share:
            for part in range(_SHARE):
                shares[part, kept] = shares[part, share]
        kept += 1
    site.head[SHARES] = kept
