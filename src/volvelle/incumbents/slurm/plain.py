"""A cluster whose Slurm is not described: one partition, first come, which machine code decides.

No job of it is stopped for another or waits for anything but nodes and its pool's quota, so that both passes
of `volvelle.incumbents.slurm.passes` need no Python. The kernel yields to these where nodes have joined.
"""

import numpy as np

from volvelle.core.columns import (
    DECLARED_CPUS,
    ESTIMATE,
    EXCLUSIVE,
    GPUS,
    HELD,
    ID_NUMBER,
    NODES,
    NUMBER,
    POOL,
    TIME_LIMIT,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_TYPE, ClusterNow
from volvelle.core.sorting import in_order
from volvelle.core.state import INFINITY
from volvelle.incumbents.slurm import choosing, queue, shapes
from volvelle.incumbents.slurm.choosing import Ground, fill_shares, find
from volvelle.incumbents.slurm.lines import (
    NEW,
    STARTED,
    Lines,
    Main,
    Reserved,
    last_that_fits,
    next_in_order,
)
from volvelle.incumbents.slurm.plain_memory import (
    BACKFILL,
    BACKFILL_EVERY,
    CHANGED,
    KERNELS,
    MAIN_DEPTH,
    MAIN_EVERY,
    NEXT_BACKFILL,
    NEXT_MAIN,
    RUNS,
    SHARE_END,
    SHARE_GPUS,
    SHARE_NODE,
    SHARE_NUMBER,
    SHARE_POOL,
    SHARE_START,
    SHARES,
    SITE_NODES,
    STATE,
    TURN,
    Site,
    follow,
    parts_of,
)
from volvelle.incumbents.slurm.planning import NEVER, Running, next_start
from volvelle.incumbents.slurm.records import LONG
from volvelle.incumbents.slurm.slots import NOW, RESOLUTION, new_plan
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import GRANTED


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where it is Python's."""
    if memory[STATE] != KERNELS or len(cluster.up) != memory[SITE_NODES]:
        return -INFINITY
    return _decide(jobs, cluster, parts_of(memory), out)


@kernel
def _decide(jobs: Floats, cluster: ClusterNow, site: Site, out: Floats) -> float:
    now, head = cluster.now, site.head
    follow(jobs, cluster.up, site)
    before, started = int(head[SHARES]), False
    full = now >= head[NEXT_MAIN]
    main, fills = head[CHANGED] == 1.0 or full, now >= head[NEXT_BACKFILL]
    waiting = _waiting(jobs)
    if (main or fills) and _may_any_start(jobs, waiting, site):
        ground, lines = _ground_and_lines(jobs, waiting, site)
        if main:
            depth = jobs.shape[1] * 9 if full else int(site.rules[MAIN_DEPTH])
            first = _first(lines, min(depth, len(waiting)))
            _main_pass(jobs, waiting, ground, first, site, now)
        if fills:
            _backfill(jobs, waiting, ground, lines, site, now)
        started = head[SHARES] > before
    if full:
        head[NEXT_MAIN] = now + site.rules[MAIN_EVERY]
    if fills:
        head[NEXT_BACKFILL] = now + site.rules[BACKFILL_EVERY]
        head[CHANGED] = 0.0
    if started:
        head[CHANGED] = 1.0
    there, waits = 0.0, False
    for gpus in cluster.capacity:
        there += gpus
    if _write(jobs, cluster, site, before, out) > there + GRANTED:
        return -INFINITY  # nodes are gone whose GPUs jobs have by count: Python says that
    for row in waiting:
        waits = waits or jobs[RUNS, row] == 0.0
    if head[CHANGED] == 0.0 or not waits:
        return INFINITY
    due = INFINITY
    for time in (head[NEXT_BACKFILL], head[NEXT_MAIN]):
        if time > now:
            due = min(due, time)
    return float(due)


@kernel
def _waiting(jobs: Floats) -> Ints:
    """Rows of the jobs that wait, those of the lowest id first (``sort_job_queue``)."""
    rows, count = np.empty(jobs.shape[1], np.int64), 0
    for row in range(jobs.shape[1]):
        if jobs[RUNS, row] == 1.0:
            continue
        at, key, turn = count, jobs[ID_NUMBER, row], jobs[TURN, row]
        while at > 0:
            before = rows[at - 1]
            if jobs[ID_NUMBER, before] < key or (
                jobs[ID_NUMBER, before] == key and jobs[TURN, before] < turn
            ):
                break
            rows[at] = before
            at -= 1
        rows[at] = row
        count += 1
    return rows[:count]


@kernel
def _may_any_start(jobs: Floats, waiting: Ints, site: Site) -> bool:
    """Whether so many GPUs are free as the smallest of the jobs that wait asks for."""
    least, free = INFINITY, 0.0
    for row in waiting:
        least = min(least, jobs[GPUS, row])
    for node in range(len(site.up)):
        free += site.up[node] * site.free[shapes.GPUS, node]
    return bool(least <= free)


@kernel
def _ground_and_lines(jobs: Floats, waiting: Ints, site: Site) -> tuple[Ground, Lines]:
    """The demands of jobs that wait, and a line for each."""
    count, nodes = len(waiting), len(site.types)
    table, demands = np.zeros((count, queue.COLUMNS)), np.zeros((count, choosing.REQUIRES + 1))
    types, rows, many = np.empty(count), np.empty(count, np.int64), 0
    for line in range(count):
        row, rows[line] = waiting[line], line
        _write_demand(jobs, row, nodes, demands[many])
        types[many], demand = jobs[TYPES, row], 0
        while types[demand] != jobs[TYPES, row] or not _is_alike(demands, demand, many):
            demand += 1
        many = max(many, demand + 1)
        table[line, queue.DEMAND], table[line, queue.LIMIT] = demand, _limit(jobs, row)
        table[line, queue.ARRAY] = table[line, queue.RESERVATION] = -1.0
        table[line, queue.GROUP] = table[line, queue.JOB] = line
    allowed = np.zeros((many, nodes), np.bool_)
    for demand in range(many):
        for node in range(nodes):
            allowed[demand, node] = (int(types[demand]) >> int(site.types[node])) & 1 == 1
    last = 0
    for node in range(nodes):
        last = max(last, int(site.kinds[node]))
    kinds = np.zeros((last + 1, nodes), np.bool_)
    for node in range(nodes):
        kinds[int(site.kinds[node]), node] = True
    none = np.zeros((many, nodes), np.bool_)
    ground = Ground(site.capacity, np.ones(nodes), kinds, demands, allowed, none)
    lines = Lines(
        table,
        rows,
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )
    _note_limits(jobs, waiting, lines, site)
    return ground, lines


@kernel
def _is_alike(demands: Floats, one: int, other: int) -> bool:
    """Whether two demands are the same."""
    same = True
    for column in range(demands.shape[1]):
        same = same and demands[one, column] == demands[other, column]
    return same


@kernel
def _first(lines: Lines, depth: int) -> Lines:
    """So many lines alone."""
    return Lines(
        lines.table,
        lines.rows[:depth],
        lines.reasons,
        lines.limits,
        lines.state,
        lines.tested,
        lines.users,
        lines.partitions,
        lines.arrays,
    )


@kernel
def _write_demand(jobs: Floats, row: int, nodes: int, demand: Floats) -> None:
    """The demand of a job that only a trace declares (`job_of_spec`, `shape_of`)."""
    asked, gpus = max(jobs[NODES, row], 1.0), jobs[GPUS, row]
    evenly = jobs[NODES, row] > 0.0 and gpus % asked == 0.0
    demand[choosing.LEAST] = demand[choosing.MOST] = demand[choosing.TASKS] = asked
    if not evenly and asked == 1.0:
        demand[choosing.MOST] = nodes
    cpus = max(jobs[DECLARED_CPUS, row], asked)
    demand[choosing.TASK_CPUS] = max(cpus / asked, 1.0)
    demand[choosing.MOST_TASKS], demand[choosing.NODE_CPUS] = shapes.MANY, 1.0
    if evenly:
        demand[choosing.NODE_GPUS], demand[choosing.JOB_GPUS] = gpus / asked, 0.0
    else:
        demand[choosing.NODE_GPUS], demand[choosing.JOB_GPUS] = 0.0, gpus
    demand[choosing.WHOLE] = jobs[EXCLUSIVE, row]


@kernel
def _limit(jobs: Floats, row: int) -> float:
    """Seconds after which a job is believed to be over."""
    return float(jobs[TIME_LIMIT, row] or jobs[ESTIMATE, row] or LONG)


@kernel
def _note_limits(jobs: Floats, waiting: Ints, lines: Lines, site: Site) -> None:
    """Note which jobs would exceed the quota of their pool now."""
    if len(site.quota) == 0:
        return
    held = np.zeros(len(site.quota))
    for share in range(int(site.head[SHARES])):
        pool = int(site.shares[SHARE_POOL, share])
        if pool >= 0:
            held[pool] += site.shares[SHARE_GPUS, share]
    for line in range(len(waiting)):
        row = waiting[line]
        pool = int(jobs[POOL, row])
        if pool >= 0:
            over = held[pool] + jobs[GPUS, row] > site.quota[pool] + 1e-6
            lines.limits[line] = queue.RESOURCES if over else 0


@kernel
def _no_reservations(nodes: int) -> Reserved:
    none = np.zeros((0, nodes), np.bool_)
    return Reserved(none, none, np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


@kernel
def _main_pass(
    jobs: Floats, waiting: Ints, ground: Ground, lines: Lines, site: Site, now: float
) -> None:
    """`volvelle.incumbents.slurm.passes.main_pass`."""
    nodes, up = len(site.up), site.up > 0.0
    main = Main(
        np.ones(nodes, np.bool_),
        np.zeros(1, np.bool_),
        np.zeros(nodes, np.bool_),
        np.zeros(nodes, np.bool_),
        np.ones((1, nodes), np.bool_),
        np.zeros(1, np.bool_),
        np.zeros(1, np.int64),
    )
    reserved, line = _no_reservations(nodes), 0
    while True:
        line = next_in_order(ground, lines, reserved, main, site.free, up, now, False, line, NEW)
        if line < 0:
            return
        _start(jobs, waiting, ground, lines, line, main.chosen, site, now)
        line += 1


@kernel
def _backfill(
    jobs: Floats, waiting: Ints, ground: Ground, lines: Lines, site: Site, now: float
) -> None:
    """`volvelle.incumbents.slurm.passes.backfill_pass`."""
    nodes, up, none = len(site.up), site.up > 0.0, np.zeros(1, np.bool_)
    last = last_that_fits(ground, lines, site.free, up, none, 0)
    if last < 0:
        return
    numbers = np.empty(len(site.rules) - BACKFILL + 1)
    numbers[NOW] = now
    for at in range(1, len(numbers)):
        numbers[at] = site.rules[BACKFILL + at - 1]
    reserved = _no_reservations(nodes)
    plan = new_plan(numbers, reserved, len(waiting), len(ground.demands))
    running = _running(site, up, now)
    chosen, found, line, late = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_), 0, NEVER
    while True:
        line = next_start(ground, lines, running, reserved, plan, none, chosen, line, last, late)
        if line < 0:
            return
        late = NEVER
        demand = int(lines.table[line, queue.DEMAND])
        if not find(ground, demand, site.free, chosen, found):
            late = now + numbers[RESOLUTION]
            continue
        _start(jobs, waiting, ground, lines, line, found, site, now)
        line += 1
        last = last_that_fits(ground, lines, site.free, up, none, line)
        if last < 0:
            return
        running = _running(site, up, now)


@kernel
def _running(site: Site, up: Bools, now: float) -> Running:
    """The running jobs by their end, and what they leave free."""
    count = int(site.head[SHARES])
    ends, held = np.empty(count), np.empty((5, count))
    for share in range(count):
        ends[share] = max(site.shares[SHARE_END, share], now + 1.0)
    order = in_order(ends)
    for at in range(count):
        for part in range(4):
            held[part, at] = site.shares[SHARE_NODE + part, order[at]]
        held[4, at] = ends[order[at]]
    return Running(site.free, up, held, np.zeros((1, count), np.bool_))


@kernel
def _start(
    jobs: Floats,
    waiting: Ints,
    ground: Ground,
    lines: Lines,
    line: int,
    chosen: Bools,
    site: Site,
    now: float,
) -> None:
    """Let the job of a line start on the chosen nodes."""
    head, shares, row = site.head, site.shares, waiting[line]
    taken = fill_shares(ground, int(lines.table[line, queue.DEMAND]), site.free, chosen)
    for each in range(taken.shape[1]):
        share, node = int(head[SHARES]), int(taken[0, each])
        shares[SHARE_NUMBER, share] = jobs[NUMBER, row]
        for part in range(4):
            shares[SHARE_NODE + part, share] = taken[part, each]
        shares[SHARE_START, share] = now
        shares[SHARE_END, share] = now + lines.table[line, queue.LIMIT]
        shares[SHARE_POOL, share] = jobs[POOL, row]
        for resource in range(3):
            site.free[resource, node] -= taken[1 + resource, each]
        head[SHARES] += 1.0
    jobs[RUNS, row], lines.state[line] = 1.0, STARTED
    _note_limits(jobs, waiting, lines, site)


@kernel
def _write(jobs: Floats, cluster: ClusterNow, site: Site, before: int, out: Floats) -> float:
    """All jobs as they run, and those of the shares from ``before`` on as they start; GPUs of all."""
    shares, named, granted = site.shares, 0, 0.0
    for row in range(jobs.shape[1]):
        out[TARGET, row], out[TARGET_TYPE, row] = jobs[HELD, row], jobs[TYPE, row]
        granted += jobs[HELD, row]
    for share in range(before, int(site.head[SHARES])):
        row, node = 0, int(shares[SHARE_NODE, share])
        while jobs[NUMBER, row] != shares[SHARE_NUMBER, share]:
            row += 1
        if out[TARGET, row] == 0.0:
            out[TARGET_TYPE, row] = site.types[node]
        out[TARGET, row] += shares[SHARE_GPUS, share]
        granted += shares[SHARE_GPUS, share]
        if cluster.places.shape[1] > 1:
            cluster.places[0, named], cluster.places[1, named] = row, node
            cluster.places[2, named] = shares[SHARE_GPUS, share]
            named += 1
    cluster.places[0, named] = -1.0
    return granted
