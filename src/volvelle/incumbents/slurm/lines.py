"""A pass goes through lines, one for each waiting job and partition: its columns, and the main pass."""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.incumbents.slurm.choosing import Ground, fill_tasks, find_among, suffices
from volvelle.incumbents.slurm.queue import (
    ASKS,
    CLASS,
    DEMAND,
    GROUP,
    IN_RESERVATION,
    JOB,
    LIMIT,
    NAMES_NODES,
    NO_REASON,
    NOT_AVAILABLE,
    PARTITION,
    PRIORITY,
    RESERVATION,
    RESERVED,
    RESOURCES,
)
from volvelle.model.arrays import Bools, Floats, Ints

KEPT, STARTED = 1, 2
"""Why a line is passed over: something other than nodes and limits keeps it, it starts."""

NEW, ASKED, STOPS_NONE = range(3)
"""How far a line of the main pass has come: Python was asked and keeps nothing; there are no victims."""

ASKS_FIRST, STARTS, MAY_STOP = range(3)
"""The work of Python on a line of the main pass: what keeps the job, its start, its victims."""


class Lines(NamedTuple):
    """The rows of a queue that come into question, the first to be served first.

    table: (rows, columns), of the queue. reasons: of jobs. state: by line, 0 or why it is passed over.
    tested: by job. users, partitions, arrays: how many of each were looked at. limits: by group, the reason
    of the limit that it is at, below 0 for one on numbers of jobs; 0 where there is none.
    """

    table: Floats
    rows: Ints
    reasons: Ints
    limits: Ints
    state: Ints
    tested: Bools
    users: Ints
    partitions: Ints
    arrays: Ints


class Reserved(NamedTuple):
    """Reservations. nodes: (reservations, nodes); others: those on which jobs of one may not run.

    names: the first of the same name, which is another time or another set of nodes of one reservation.
    """

    nodes: Bools
    others: Bools
    names: Ints
    begins: Floats
    ends: Floats


class Main(NamedTuple):
    """A main pass: nodes that no partition keeps, partitions at their end, and the job at hand.

    there: nodes that it may have; chosen: nodes on which it starts. partitions: (partitions, nodes).
    may_stop: classes of jobs that may stop others. what: the one number of what is to be done with it.
    """

    usable: Bools
    failed: Bools
    there: Bools
    chosen: Bools
    partitions: Bools
    may_stop: Bools
    what: Ints


@kernel
def take_reserved(reserved: Reserved, own: int, begin: float, end: float, usable: Bools) -> None:
    """Leave out nodes that reservations keep from a job of reservation ``own`` between two times.

    Before its reservation begins, and between two times of it, a job has no nodes; when the last is over, it
    has those of other jobs.
    """
    waits, inside = False, False
    for one in range(len(reserved.begins)):
        if reserved.names[one] == own:
            waits = waits or begin < reserved.begins[one]
            if reserved.begins[one] <= begin < reserved.ends[one]:
                inside = True
                _take_away(usable, reserved.others, one)
        elif reserved.begins[one] < end and reserved.ends[one] > begin:
            _take_away(usable, reserved.nodes, one)
    if waits and not inside:
        usable[:] = False


@kernel
def _take_away(usable: Bools, sets: Bools, at: int) -> None:
    """Leave out the nodes of a set."""
    for node in range(len(usable)):
        usable[node] = usable[node] and not sets[at, node]


@compiled
def next_in_order(
    ground: Ground,
    lines: Lines,
    reserved: Reserved,
    main: Main,
    free: Floats,
    up: Bools,
    now: float,
    stops_at_limits: bool,
    at: int,
    stage: int,
) -> int:
    """The next line of a main pass, from ``at`` on, with which Python does ``main.what``; -1: there is none.

    stage: how far the line ``at`` has come.
    """
    table, reasons, usable = lines.table, lines.reasons, main.usable
    tasks = np.zeros(len(usable))
    for line in range(at, len(lines.rows)):
        if lines.state[line] != 0:
            continue
        row = lines.rows[line]
        job, partition, demand = (
            int(table[row, JOB]),
            int(table[row, PARTITION]),
            int(table[row, DEMAND]),
        )
        if main.failed[partition]:
            if reasons[job] == NO_REASON:
                reasons[job] = PRIORITY
            continue
        come = stage if line == at else NEW
        limit = lines.limits[int(table[row, GROUP])]
        if come == NEW and (table[row, ASKS] != 0.0 or (stops_at_limits and limit < 0)):
            main.what[0] = ASKS_FIRST
            return line
        if limit != 0:
            reasons[job] = abs(limit)
            continue
        for node in range(len(usable)):
            main.there[node] = up[node]
        take_reserved(
            reserved, int(table[row, RESERVATION]), now, now + table[row, LIMIT], main.there
        )
        left = False
        for node in range(len(usable)):
            left = left or (main.there[node] and ground.allowed[demand, node])
            main.there[node] = main.there[node] and usable[node]
        if come != STOPS_NONE:
            fill_tasks(ground, demand, free, main.there, tasks)
            if find_among(ground, demand, free, tasks, main.there, main.chosen):
                main.what[0] = STARTS
                return line
            if main.may_stop[int(table[row, CLASS])]:
                main.what[0] = MAY_STOP
                return line
        reasons[job] = RESOURCES
        if table[row, RESERVED] != 0.0:
            reasons[job] = IN_RESERVATION
            continue
        if not left:
            reasons[job] = NOT_AVAILABLE
            if table[row, NAMES_NODES] != 0.0:
                continue
        main.failed[partition] = True
        _take_away(usable, main.partitions, partition)
    return -1


@compiled
def last_that_fits(
    ground: Ground, lines: Lines, free: Floats, up: Bools, may_stop: Bools, at: int
) -> int:
    """The last line from ``at`` on that no limit keeps and for which there is enough now; -1: there is none.

    No line behind it can start in this pass: nodes that are free would not do even if none was kept. Where a
    job may stop others, all that nodes have counts as free. Jobs for which there is enough, but for their
    limit, are said to wait for it.
    """
    table, none = lines.table, len(ground.demands)
    tasks, fits, last = np.zeros(len(up)), np.full((2, none), -1), -1
    for line in range(len(lines.rows) - 1, at - 1, -1):
        if lines.state[line] != 0:
            continue
        row = lines.rows[line]
        demand, limit = int(table[row, DEMAND]), lines.limits[int(table[row, GROUP])]
        if limit < 0:
            lines.reasons[int(table[row, JOB])] = -limit
            continue
        if limit == 0 and last >= 0:
            continue
        stops = 1 if may_stop[int(table[row, CLASS])] else 0
        if fits[stops, demand] < 0:
            there = ground.capacity if stops == 1 else free
            fill_tasks(ground, demand, there, up, tasks)
            fits[stops, demand] = 1 if suffices(ground, demand, there, tasks, up) else 0
        if fits[stops, demand] == 0:
            continue
        if limit == 0:
            last = line
        else:
            lines.reasons[int(table[row, JOB])] = limit
    return last
