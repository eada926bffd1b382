"""The state of Slurm's controller as its scheduler sees it: who runs where, who waits, and what is free."""

from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from volvelle.incumbents.slurm.choosing import shares
from volvelle.incumbents.slurm.entries import FOREVER, Entry, Place
from volvelle.incumbents.slurm.holdings import NONE, Holdings
from volvelle.incumbents.slurm.limits import Book
from volvelle.incumbents.slurm.lines import Reserved
from volvelle.incumbents.slurm.priorities import Past, Priorities
from volvelle.incumbents.slurm.queue import Queue
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.shapes import Hardware, Share, shape_of
from volvelle.incumbents.slurm.site import Reservation
from volvelle.model.arrays import Bools, Floats, Ints

REQUEUE_HOLD = 121.0
"""Seconds for which a job that was requeued is held (measured; ``begin_time`` is now and 120 s, plus 1)."""
_MOST = 1 << 62
"""Numbers of jobs above this sort alike."""

UNKNOWN, WAITS, RUNS, CANCELLED = range(4)
"""States of jobs."""


@dataclass(eq=False)
class Controller:
    """The state that changes: `volvelle.incumbents.slurm.passes` read it, and start and stop jobs in it.

    entered: how many jobs have come. keys: numbers of the jobs that are here, by key. tasks: how many tasks
    of an array run, by its id.
    changed: whether anything happened since the last pass. cancelled: jobs that were stopped for others and
    do not come again. next_main, next_backfill: when each pass is due.
    """

    rules: Rules
    now: float
    free: Floats
    up: Bools
    book: Book
    priorities: Priorities
    licences: dict[str, float]
    reservations: tuple[Reservation, ...]
    entries: dict[int, Entry] = field(default_factory=dict)
    running: dict[int, Entry] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    tasks: dict[int, int] = field(default_factory=dict)
    changed: bool = True
    cancelled: list[int] = field(default_factory=list)
    entered: int = 0
    next_main: float = -FOREVER
    next_backfill: float = -FOREVER
    queue: Queue = field(default_factory=Queue)

    @classmethod
    def of(cls, rules: Rules, now: float) -> "Controller":
        """The controller of a site without jobs."""
        site = rules.site
        return cls(
            rules,
            now,
            free=rules.hardware.capacity.copy(),
            up=rules.up,
            book=Book.of(site),
            priorities=Priorities(rules, now),
            licences=dict(site.licences),
            reservations=site.reservations,
        )

    def __post_init__(self) -> None:
        self.running = {number: self.entries[number] for number in self.running}
        self.holdings = NONE
        for entry in self.running.values():
            self.holdings = self._with(entry)
        self.place_of: dict[int, Place] = {}
        """All places, by their row in the queue."""
        self._states: Ints = np.zeros(16, dtype=np.int64)
        """By a job's number."""
        self.moved: set[int] = set()
        """The jobs that run and did not, or did and do not, since a reader emptied the set."""
        self._note(WAITS, *self.entries)
        self._note(RUNS, *self.running)
        self._note(CANCELLED, *self.cancelled)
        self.reserve(self.reservations)
        for entry in self.entries.values():
            self._describe(entry)

    def reserve(self, reservations: tuple[Reservation, ...], origin: float = 0.0) -> None:
        """Plan around these reservations and no others. origin: 0 s of the run on their clock."""
        self.reservations = there = tuple(
            replace(one, start=one.start - origin, end=one.end - origin) for one in reservations
        )
        hardware, names = self.rules.hardware, [one.name for one in there]
        nodes = np.zeros((len(there), len(hardware.nodes)), dtype=np.bool_)
        for at, one in enumerate(there):
            nodes[at] = hardware.mask(one.nodes)
        self.reserved = Reserved(
            nodes,
            ~nodes & nodes.any(axis=1, keepdims=True),
            np.array([names.index(name) for name in names], dtype=np.int64),
            np.array([one.start for one in there], dtype=np.float64),
            np.array([one.end for one in there], dtype=np.float64),
        )

    def fork(self) -> "Controller":
        """A copy that goes its own way."""
        other = copy(self)
        other.free, other.book = self.free.copy(), self.book.fork()
        other.priorities = self.priorities.fork()
        other.licences, other.keys = self.licences.copy(), self.keys.copy()
        other.tasks, other.cancelled = self.tasks.copy(), self.cancelled.copy()
        other.queue, other._states = self.queue.fork(), self._states.copy()
        other.entries = {number: replace(entry) for number, entry in self.entries.items()}
        other.place_of = {
            row: replace(place, entry=other.entries[place.entry.number])
            for row, place in self.place_of.items()
        }
        other.running = {number: other.entries[number] for number in self.running}
        other.moved = self.moved.copy()
        return other

    # ------------------------------------------------------------------ jobs come and go

    def states(self, numbers: Ints) -> Ints:
        """The states of jobs."""
        if len(numbers) and (most := int(numbers.max())) >= len(self._states):
            self._note(UNKNOWN, most)
        return self._states[numbers]

    def _note(self, state: int, *numbers: int) -> None:
        most = max(numbers, default=0)
        if most >= len(self._states):
            more = np.zeros(2 * most - len(self._states), dtype=np.int64)
            self._states = np.concatenate([self._states, more])
        self._states[list(numbers)] = state

    def cancel(self, number: int) -> None:
        """A job is stopped for another, and does not come again."""
        self.leave(number)
        self.cancelled.append(number)
        self._note(CANCELLED, number)

    def enter(self, entry: Entry, *, accepted: bool = False) -> None:
        """A job was submitted. accepted: it ran once, so that no rule on single jobs keeps it."""
        if not accepted and entry.job.pending:
            bars = [self.book.bars(entry.job, entry.limit, one) for one in entry.partitions]
            entry.barred = bars[0] if bars and all(bars) else ""
            if not entry.barred:
                allowed = zip(entry.partitions, bars, strict=True)
                entry.partitions = tuple(one for one, bar in allowed if not bar)
        self._note(WAITS, entry.number)
        self.entries[entry.number] = entry
        self.entered += 1
        entry.turn = self.entered
        entry.waits_for_time_only = not (
            entry.held or entry.barred or entry.after or entry.job.throttle or entry.is_singleton
        )
        self.keys[entry.job.key] = entry.number
        number = entry.job.array if entry.job.array is not None else entry.job.id
        task = entry.job.task if entry.job.task is not None else -1
        fixed = -float(entry.job.id) if self.rules.weights.basic else np.nan
        self.queue.add(
            entry.number,
            len(entry.partitions),
            (min(number, _MOST), task, entry.turn),
            fixed if entry.fixed_priority is None else entry.fixed_priority,
        )
        self._describe(entry)
        self._rate(entry)
        self._queue(entry)
        self.changed = True

    def _describe(self, entry: Entry) -> None:
        """Note the places of a job, and their columns in the queue."""
        job, rules, rows = entry.job, self.rules, self.queue.rows[entry.number]
        names = [one.name for one in self.reservations]
        for partition, row in zip(entry.partitions, rows, strict=True):
            shape = shape_of(job, partition, rules.hardware, rules.site)
            if entry.allowed is not None:
                shape = shape._replace(allowed=shape.allowed & entry.allowed)
            demand = rules.demands.number(shape)
            standing = rules.weights.standing(
                job.asked.get("node", job.least_nodes),
                job.asked.get("cpu", job.cpus),
                partition,
                rules.qos.get(job.qos),
            )
            columns = (
                demand,
                entry.limit,
                rules.number(("user", job.user)),
                rules.partition_number[partition.name],
                -1 if job.array is None else rules.number(("array", job.array)),
                names.index(job.reservation) if job.reservation in names else -1,
                rules.class_of(job.qos, partition.name),
                self.book.group(job, partition.name),
                rows[0],
                entry.eligible,
                2.0 if entry.held else float(not entry.waits_for_time_only),
                bool(job.licences or job.throttle or entry.is_singleton),
                partition.up,
                bool(job.reservation),
                bool(job.required_nodes),
                entry.accrue,
                rules.association(job.account, job.user),
                *standing,
                job.nice,
            )
            self.queue.describe(row, columns)
            self.place_of[row] = Place(entry, partition, demand, row)

    def leave(self, number: int) -> None:
        """A job ended."""
        entry = self.entries.pop(number)
        if self.keys.get(entry.job.key) == number:
            del self.keys[entry.job.key]
        if entry.shares is not None:
            self._let_go(entry)
        else:
            self._leave_queue(entry)
        self._note(UNKNOWN, number)
        for row in self.queue.drop(number):
            del self.place_of[row]
        self.changed = True

    def start(self, place: Place, nodes: list[int]) -> None:
        """Let a job start on nodes that can serve it."""
        held = shares(self.rules.demands.ground, place.demand, self.free, nodes)
        self.hold(place.entry, place.partition.name, held, self.now)

    def hold(self, entry: Entry, partition: str, held: list[Share], start: float) -> None:
        """Let a job run on what it holds since ``start``."""
        self._leave_queue(entry)
        self.say(entry, "")
        entry.shares, entry.partition, entry.start = held, partition, start
        entry.counted = max(start, self.priorities.calculated)
        entry.cpus = sum(share.cpus for share in held)
        job = entry.job
        for share in held:
            self.free[:, share.node] -= (share.cpus, share.memory, share.gpus)
        self.holdings = self._with(entry)
        self.running[entry.number] = entry
        self.moved ^= {entry.number}
        self._note(RUNS, entry.number)
        self.book.add(job.user, job.account, job.qos, partition, self.holds(entry), 1.0)
        if job.array is not None:
            self.tasks[job.array] = self.tasks.get(job.array, 0) + 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) - amount

    def _with(self, entry: Entry) -> Holdings:
        """All that is held, and what a job holds that starts."""
        job, rules = entry.job, self.rules
        exempt = FOREVER if job.reservation else entry.start + rules.exempt_seconds(job.qos)
        of = rules.class_of(job.qos, entry.partition)
        return self.holdings.plus(entry.number, entry.shares or (), entry.ends, of, exempt)

    def requeue(self, entry: Entry) -> None:
        """Stop a job that begins anew later: it is held for two minutes, and its age begins again."""
        self._let_go(entry)
        entry.eligible = entry.accrue = self.now + REQUEUE_HOLD
        self.queue.delay(entry.number, entry.eligible)
        self.say(entry, "BeginTime")
        self._rate(entry)
        self._queue(entry)

    def release(self, entry: Entry) -> None:
        """A job holds nothing any more, and waits."""
        self._let_go(entry)
        self._queue(entry)

    def _let_go(self, entry: Entry) -> None:
        held = self.holds(entry)
        job = entry.job
        self.book.add(job.user, job.account, job.qos, entry.partition, held, -1.0)
        self.priorities.count(entry, self.now)
        for share in entry.shares or ():
            self.free[:, share.node] += (share.cpus, share.memory, share.gpus)
        entry.shares = None
        self._note(WAITS, entry.number)
        self.holdings = self.holdings.without(entry.number)
        del self.running[entry.number]
        self.moved ^= {entry.number}
        if job.array is not None:
            self.tasks[job.array] -= 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) + amount

    def _queue(self, entry: Entry) -> None:
        for row in self.queue.rows[entry.number]:
            self.queue.insert(row)

    def _leave_queue(self, entry: Entry) -> None:
        for row in self.queue.rows[entry.number] if entry.shares is None else ():
            self.queue.remove(row)

    def say(self, entry: Entry, reason: str) -> None:
        """Note why a job waits, in Slurm's words."""
        for row in self.queue.rows[entry.number][:1]:
            self.queue.reasons[row] = self.book.words.number(reason)

    def reason(self, entry: Entry) -> str:
        """Why a job waits, in Slurm's words; empty for one that runs, or that no pass has looked at."""
        rows = self.queue.rows[entry.number]
        return self.book.words.of[self.queue.reasons[rows[0]]] if rows else ""

    def holds(self, entry: Entry) -> dict[str, float]:
        """The resources that a running job holds, by Slurm's names."""
        return held_by(entry.shares or [], self.rules.hardware)

    def _rate(self, entry: Entry) -> None:
        """Work out the priority of a waiting job in each of its partitions."""
        rows = np.array(self.queue.rows[entry.number], dtype=np.int64)
        self.priorities.rank(self.queue, rows, self.now)

    # ------------------------------------------------------------------ the past

    def begin(self, past: Past) -> None:
        """The past is told (`Priorities.begin`)."""
        self.priorities.begin(past)
        for entry in self.running.values():
            entry.counted = max(entry.start, past.calculated)

    def recalculate(self) -> None:
        """Let priorities move, where a period is over."""
        self.priorities.recalculate(self.now, self.running.values(), self.queue)


def held_by(held: list[Share], hardware: Hardware) -> dict[str, float]:
    """Amounts by Slurm's names."""
    found = {"cpu": 0.0, "mem": 0.0, "node": float(len(held)), "gres/gpu": 0.0}
    for share in held:
        found["cpu"] += share.cpus
        found["mem"] += share.memory
        if share.gpus:
            found["gres/gpu"] += share.gpus
            kind = next(iter(hardware.nodes[share.node].gpus), "")
            if kind:
                name = f"gres/gpu:{kind}"
                found[name] = found.get(name, 0.0) + share.gpus
    found["billing"] = found["cpu"]
    return found
