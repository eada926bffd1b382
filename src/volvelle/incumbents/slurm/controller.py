"""The state of Slurm's controller as its scheduler sees it: who runs where, who waits, and what is free."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from volvelle.incumbents.slurm.choosing import shares
from volvelle.incumbents.slurm.entries import FOREVER, Entry, Place
from volvelle.incumbents.slurm.fair_share import FairShare
from volvelle.incumbents.slurm.holdings import NONE, Holdings
from volvelle.incumbents.slurm.limits import Book
from volvelle.incumbents.slurm.lines import Reserved
from volvelle.incumbents.slurm.queue import (
    ACCRUE,
    ASSOCIATION,
    ELIGIBLE,
    NICE,
    PARTITION,
    QOS,
    SIZE,
    WATCHED,
    Queue,
)
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
    fair: FairShare
    factors: dict[tuple[str, str], float]
    licences: dict[str, float]
    reservations: tuple[Reservation, ...]
    calculated: float
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
        site, fair = rules.site, FairShare.of(rules.site.associations, rules.site.config)
        return cls(
            rules,
            now,
            free=rules.hardware.capacity.copy(),
            up=rules.up,
            book=Book.of(site),
            fair=fair,
            factors=fair.factors(),
            licences=dict(site.licences),
            reservations=site.reservations,
            calculated=now,
        )

    def __post_init__(self) -> None:
        self.running = {number: self.entries[number] for number in self.running}
        self._shares: Floats = np.zeros(0)
        """The factors by number of association, as far as they were asked for."""
        self.holdings = NONE
        for entry in self.running.values():
            self.holdings = self._with(entry)
        self.place_of: dict[int, Place] = {}
        """All places, by their row in the queue."""
        self._states: Ints = np.zeros(16, dtype=np.int64)
        """By a job's number."""
        self._note(WAITS, *self.entries)
        self._note(RUNS, *self.running)
        self._note(CANCELLED, *self.cancelled)
        self._reserve()
        for entry in self.entries.values():
            self._describe(entry)

    def _reserve(self) -> None:
        hardware, there = self.rules.hardware, self.reservations
        nodes = np.zeros((len(there), len(hardware.nodes)), dtype=np.bool_)
        for at, one in enumerate(there):
            nodes[at] = hardware.mask(one.nodes)
        self.reserved = Reserved(
            nodes,
            ~nodes & nodes.any(axis=1, keepdims=True),
            np.array([one.start for one in there], dtype=np.float64),
            np.array([one.end for one in there], dtype=np.float64),
        )

    def fork(self) -> "Controller":
        """A copy that goes its own way."""
        other = copy(self)
        other.free, other.book, other.fair = self.free.copy(), self.book.fork(), self.fair.fork()
        other.licences, other.keys = self.licences.copy(), self.keys.copy()
        other.tasks, other.cancelled = self.tasks.copy(), self.cancelled.copy()
        other.queue, other._states = self.queue.fork(), self._states.copy()
        other.entries = {number: replace(entry) for number, entry in self.entries.items()}
        other.place_of = {
            row: replace(place, entry=other.entries[place.entry.number])
            for row, place in self.place_of.items()
        }
        other.running = {number: other.entries[number] for number in self.running}
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
        demands = self.rules.demands
        shape = demands.shapes[place.demand]
        held = shares(demands.ground, place.demand, shape, self.free, nodes)
        self.hold(place.entry, place.partition.name, held, self.now)

    def hold(self, entry: Entry, partition: str, held: list[Share], start: float) -> None:
        """Let a job run on what it holds since ``start``."""
        self._leave_queue(entry)
        self.say(entry, "")
        entry.shares, entry.partition, entry.start = held, partition, start
        entry.counted = max(start, self.calculated)
        entry.cpus = sum(share.cpus for share in held)
        job = entry.job
        for share in held:
            self.free[:, share.node] -= (share.cpus, share.memory, share.gpus)
        self.holdings = self._with(entry)
        self.running[entry.number] = entry
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
        self._count_usage(entry)
        for share in entry.shares or ():
            self.free[:, share.node] += (share.cpus, share.memory, share.gpus)
        entry.shares = None
        self._note(WAITS, entry.number)
        self.holdings = self.holdings.without(entry.number)
        del self.running[entry.number]
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

    # ------------------------------------------------------------------ priorities

    def begin(
        self,
        calculated: float,
        usage: Mapping[tuple[str, str], float],
        since: Mapping[tuple[str, str], float],
    ) -> None:
        """The past is told: usage when priorities were worked out last, and what ended jobs used since."""
        self.calculated = calculated
        self.fair.usage.clear()
        self.fair.usage.update(usage)
        self.factors, self._shares = self.fair.factors(), np.zeros(0)
        for who, amount in since.items():
            self.fair.usage[who] = self.fair.usage.get(who, 0.0) + amount
        for entry in self.running.values():
            entry.counted = max(entry.start, calculated)

    def recalculate(self) -> None:
        """Let usage decay and priorities move, where a period is over (``PriorityCalcPeriod``)."""
        weights = self.rules.weights
        if weights.basic or self.now < self.calculated + weights.period:
            return
        steps = int((self.now - self.calculated) / weights.period)
        at = self.calculated + steps * weights.period
        self.fair.decay(at - self.calculated)
        self.calculated = at
        for entry in self.running.values():
            self._count_usage(entry)
        self.factors, self._shares = self.fair.factors(), np.zeros(0)
        self.queue.fixed[self.queue.order] = np.nan
        self._rate_rows(self.queue.order)
        self.queue.sort()

    def _count_usage(self, entry: Entry) -> None:
        seconds = self.now - entry.counted
        if seconds > 0.0:
            who = entry.job.account, entry.job.user
            self.fair.usage[who] = self.fair.usage.get(who, 0.0) + entry.cpus * seconds
            entry.counted = self.now

    def _rate(self, entry: Entry) -> None:
        """Work out the priority of a waiting job in each of its partitions, and its place in the queue."""
        self._rate_rows(np.array(self.queue.rows[entry.number], dtype=np.int64))

    def _rate_rows(self, rows: Ints) -> None:
        rules, table = self.rules, self.queue.table[rows].T
        if len(self._shares) < len(rules.associations):
            self._shares = np.array([self.factors.get(who, 0.0) for who in rules.associations])
        moving = rules.weights.priorities(
            self.now - table[ACCRUE],
            self._shares[table[ASSOCIATION].astype(np.int64)],
            table[SIZE : QOS + 1],
            table[NICE],
        )
        fixed = self.queue.fixed[rows]
        values = np.where(np.isnan(fixed), moving, fixed)
        self.queue.rank(rows, rules.tiers[table[PARTITION].astype(np.int64)], values)

    # ------------------------------------------------------------------ who may start at all

    def waits_for(self, entry: Entry) -> str:
        """Why a job does not come into question now, in Slurm's words; empty: it does."""
        if entry.waits_for_time_only:
            return "BeginTime" if entry.eligible > self.now else ""
        job = entry.job
        if entry.held:
            return "JobHeldUser"
        if entry.barred:
            return entry.barred
        if entry.eligible > self.now:
            return "BeginTime"
        if any(key in self.keys for key in entry.after) or self._is_not_alone(entry):
            return "Dependency"
        running = 0 if job.array is None else self.tasks.get(job.array, 0)
        return "JobArrayTaskLimit" if job.throttle and running >= job.throttle else ""

    def _is_not_alone(self, entry: Entry) -> bool:
        """Whether a singleton waits for a job of the same name and user (sbatch(1), ``--dependency``)."""
        if not entry.is_singleton:
            return False
        mine = entry.job.user, entry.job.name
        return any(
            other.number != entry.number
            and (other.shares is not None or other.job.id < entry.job.id)
            and (other.job.user, other.job.name) == mine
            for other in self.entries.values()
        )

    def lacks_licences(self, entry: Entry) -> bool:
        """Whether licences are in use, or reserved for others while the job may run."""
        end = self.now + entry.limit
        for name, amount in entry.job.licences.items():
            free = self.licences.get(name, 0.0)
            for one in self.reservations:
                if one.start < end and one.end > self.now and one.name != entry.job.reservation:
                    free -= one.licences.get(name, 0.0)
            if free < amount:
                return True
        return False

    def moments(self) -> Iterator[float]:
        """Later times at which something is known to change though nothing ends: holds, reservations."""
        queue = self.queue
        if queue.latest > self.now:
            times, held = queue.table[queue.order][:, [ELIGIBLE, WATCHED]].T
            yield from times[(times > self.now) & (held < 2.0)].tolist()
        for one in self.reservations:
            yield from (time for time in (one.start, one.end) if time > self.now)


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
