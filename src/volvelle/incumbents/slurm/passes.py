"""The two passes of slurmctld over its queue: the main scheduler and the backfill scheduler.

Source: "Scheduling Configuration Guide" and slurm.conf(5), ``SchedulerParameters``. The main pass goes by
priority; the first job of a partition that finds no nodes keeps the others of that partition, and all others
from its nodes. Backfill goes through the whole queue and plans, by whole nodes and by limits, when each job
could start; a job starts now where that delays no job before it in the plan.
"""

from functools import cmp_to_key, partial

import numpy as np

from volvelle.incumbents.slurm.choosing import choose
from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.eligibility import lacks_licences, moments, waits_for
from volvelle.incumbents.slurm.entries import FOREVER, Entry, Place
from volvelle.incumbents.slurm.lines import (
    ASKED,
    ASKS_FIRST,
    KEPT,
    NEW,
    STARTED,
    STARTS,
    STOPS_NONE,
    Lines,
    Main,
    last_that_fits,
    next_in_order,
)
from volvelle.incumbents.slurm.planning import Running, next_start
from volvelle.incumbents.slurm.preemption import mode_of, stoppable, stops_by_class, victims_of
from volvelle.incumbents.slurm.queue import (
    ASKS,
    CLASS,
    GROUP,
    JOB,
    PARTITION,
    PRIORITY,
    RESOURCES,
    WATCHED,
    come_into_question,
)
from volvelle.incumbents.slurm.slots import Plan, forget, new_plan
from volvelle.model.arrays import Bools, Ints


def run_due(controller: Controller) -> None:
    """Run the passes that are due (``sched_interval``, ``bf_interval``; a main pass also after a change)."""
    rules, now = controller.rules, controller.now
    controller.moved.clear()
    full = now >= controller.next_main
    if controller.changed or full:
        main_pass(controller, len(controller.entries) * 9 if full else rules.main_depth)
        if full:
            controller.next_main = now + rules.main_interval
    if rules.backfills and now >= controller.next_backfill:
        backfill_pass(controller)
        controller.next_backfill = now + rules.backfill_interval
        controller.changed = False
    if controller.moved:
        controller.changed = True


def next_due(controller: Controller) -> float:
    """When the next pass may change something."""
    now = controller.now
    if len(controller.running) == len(controller.entries):
        return FOREVER
    due = min(moments(controller), default=FOREVER)
    if controller.changed:
        passes = controller.next_backfill, controller.next_main
        due = min([due, *(time for time in passes if time > now)])
    elif controller.running and not controller.rules.weights.basic:
        due = min(due, controller.priorities.due)
    return due if due > now else now + 1.0


def in_question(controller: Controller) -> Ints:
    """Rows of the jobs that come into question now, the first to be served first (``sort_job_queue``)."""
    queue, rules = controller.queue, controller.rules
    table, order = queue.table, queue.order
    if not len(order):
        return order
    for row in order[table[order, WATCHED] > 0.0].tolist() if queue.watched else ():
        entry = controller.place_of[row].entry
        controller.say(entry, waits_for(controller, entry))
    rows = np.empty_like(order)
    rows = rows[: come_into_question(table, order, controller.now, queue.reasons, rows)]
    stops = stops_by_class(rules)
    if rules.preempts_by != "none" and _out_of_order(
        table[rows, CLASS].astype(np.int64).tolist(), stops
    ):
        compared = cmp_to_key(partial(_compare, controller, stops))
        return np.array(sorted(rows.tolist(), key=compared), dtype=np.int64)
    return rows


def _out_of_order(classes: list[int], stops: Bools) -> bool:
    """Whether a job stands behind one that it may stop."""
    before: set[int] = set()
    last = -1
    for kind in classes:
        if kind != last:
            before.add(kind)
            if stops[kind, list(before)].any():
                return True
            last = kind
    return False


def _compare(controller: Controller, stops: Bools, one: int, other: int) -> int:
    queue = controller.queue
    mine, theirs = int(queue.table[one, CLASS]), int(queue.table[other, CLASS])
    if stops[mine, theirs]:
        return -1
    if stops[theirs, mine]:
        return 1
    first, second = queue.key(one), queue.key(other)
    return -1 if first < second else int(first > second)


def main_pass(controller: Controller, depth: int) -> None:
    """Start jobs in order of priority; a partition is left at its first job that finds no nodes."""
    rules, up = controller.rules, controller.up
    rows = in_question(controller)[:depth]
    if not len(rows):
        return
    lines = _lines(controller, rows)
    main = Main(
        np.ones(len(up), dtype=np.bool_),
        np.zeros(len(rules.partitions), dtype=np.bool_),
        np.zeros(len(up), dtype=np.bool_),
        np.zeros(len(up), dtype=np.bool_),
        rules.partition_nodes,
        rules.may_stop,
        np.zeros(1, dtype=np.int64),
    )
    at, stage = 0, NEW
    while True:
        at = next_in_order(
            *(rules.demands.ground, lines, controller.reserved, main, controller.free, up),
            *(controller.now, rules.limit_stops, at, stage),
        )
        if at < 0:
            return
        place, what = controller.place_of[int(lines.rows[at])], int(main.what[0])
        stage = NEW
        if what == ASKS_FIRST:
            reason = _is_kept(controller, place)
            if not reason:
                stage = ASKED
                continue
            controller.say(place.entry, reason)
            if rules.limit_stops and reason.startswith(("QOS", "Assoc")):
                main.failed[int(lines.table[lines.rows[at], PARTITION])] = True
        elif what == STARTS:
            controller.start(place, np.flatnonzero(main.chosen).tolist())
            _note_start(lines, at)
        elif _start(controller, place, main.there):
            _note_start(lines, at)
        else:
            stage = STOPS_NONE
            continue
        at += 1


def _is_kept(controller: Controller, place: Place) -> str:
    """The cause that keeps a job of the queue whatever nodes are free, in Slurm's words; empty: nothing."""
    group = int(controller.queue.table[place.row, GROUP])
    reason = waits_for(controller, place.entry) or controller.book.counts(group)
    return reason or ("Licenses" if lacks_licences(controller, place.entry) else "")


def _start(controller: Controller, place: Place, usable: Bools) -> bool:
    """Start a job on ``usable`` nodes, also by stopping others; False where it cannot."""
    nodes = choose(controller.rules.demands.ground, place.demand, controller.free, usable)
    if nodes is None:
        found = victims_of(controller, place, usable)
        if found is None:
            return False
        nodes, victims = found
        for victim in victims:
            _stop(controller, victim)
    controller.start(place, nodes)
    return True


def _stop(controller: Controller, victim: Entry) -> None:
    """Stop a job for another: it is requeued, or cancelled where that is its mode."""
    if mode_of(controller.rules, victim) == "CANCEL":
        controller.cancel(victim.number)
    else:
        controller.requeue(victim)


def backfill_pass(controller: Controller) -> None:
    """Start jobs where that delays nobody before them, as far as there are jobs that may start at all."""
    rules, reasons = controller.rules, controller.queue.reasons
    wanted_nodes = reasons == RESOURCES
    rows = in_question(controller)
    if not len(rows):
        return
    lines = _lines(controller, rows)
    ground = rules.demands.ground
    numbers = np.array([controller.now, *rules.backfill])
    kinds = len(ground.demands) * len(rules.classes)
    plan: Plan | None = None
    chosen = np.zeros(len(controller.up), dtype=np.bool_)
    at, late, running = 0, FOREVER, None
    while True:
        if running is None or plan is None:
            _keep_back(controller, lines, at)
            last = last_that_fits(ground, lines, controller.free, controller.up, rules.may_stop, at)
            if last < 0:
                break
            running = _running(controller)
            if plan is None:
                plan = new_plan(numbers, controller.reserved, len(lines.rows), kinds)
            forget(plan)
        at = next_start(
            *(ground, lines, running, controller.reserved, plan, rules.may_stop, chosen),
            *(at, last, late),
        )
        if at < 0:
            break
        late = FOREVER
        if _start(controller, controller.place_of[int(lines.rows[at])], chosen):
            _note_start(lines, at)
            running = None
            at += 1
        else:
            late = controller.now + rules.resolution
    jobs = lines.table[lines.rows, JOB].astype(np.int64)
    silent = jobs[(reasons[jobs] == 0) & (lines.state != STARTED)]
    reasons[silent] = np.where(wanted_nodes[silent], RESOURCES, PRIORITY)


def _lines(controller: Controller, rows: Ints) -> Lines:
    queue, rules = controller.queue, controller.rules
    numbers = len(rules.numbers)
    return Lines(
        queue.table,
        rows,
        queue.reasons,
        controller.book.reached(),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(queue.table), dtype=np.bool_),
        np.zeros(numbers, dtype=np.int64),
        np.zeros(len(rules.partitions), dtype=np.int64),
        np.zeros(numbers, dtype=np.int64),
    )


def _note_start(lines: Lines, at: int) -> None:
    """A job has started: its lines are passed over."""
    jobs = lines.table[lines.rows, JOB]
    lines.state[jobs == jobs[at]] = STARTED


def _running(controller: Controller) -> Running:
    """The running jobs by their end, and what they leave free."""
    holdings = controller.holdings
    ends = np.maximum(holdings.ends, controller.now + 1.0)
    order = np.argsort(ends, kind="stable")
    stops = stoppable(controller).take(order, 1)
    held = np.empty((5, len(order)))
    held[:4], held[4] = holdings.shares.take(order, 0).T, ends.take(order)
    return Running(controller.free, controller.up, held, stops)


def _keep_back(controller: Controller, lines: Lines, begin: int) -> None:
    """Note which lines, from one on, something other than nodes and limits keeps back now."""
    if not controller.queue.asks:
        return
    asks = lines.table[lines.rows[begin:], ASKS] > 0.0
    for at in (begin + np.flatnonzero(asks)).tolist():
        if lines.state[at] not in (0, KEPT):
            continue
        place = controller.place_of[int(lines.rows[at])]
        reason = _is_kept(controller, place)
        lines.state[at] = KEPT if reason else 0
        if reason:
            controller.say(place.entry, reason)
