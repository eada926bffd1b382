"""The state of Slurm's controller as its scheduler sees it: who runs where, who waits, and what is free."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from volvelle.incumbents.slurm.choosing import Demands, shares
from volvelle.incumbents.slurm.fair_share import FairShare, Weights
from volvelle.incumbents.slurm.holdings import NONE
from volvelle.incumbents.slurm.limits import Book
from volvelle.incumbents.slurm.shapes import Bools, Hardware, Share, shape_of
from volvelle.incumbents.slurm.site import Job, Partition, Qos, Reservation, Site
from volvelle.incumbents.slurm.text import duration
from volvelle.model.problems import Problem

REQUEUE_HOLD = 121.0
"""Seconds for which a job that was requeued is held (measured; ``begin_time`` is now and 120 s, plus 1)."""
FOREVER = float("inf")


@dataclass(slots=True, eq=False)
class Place:
    """A job in one of its partitions, as it stands in the queue.

    demand: the number of what it takes there. line: what a backfill pass goes by (`planning.Lines`). key: by
    which places are sorted, the first to be served first (``sort_job_queue``). plain: nothing but nodes and
    amounts can keep it, once it comes into question.
    """

    entry: "Entry"
    partition: Partition
    demand: int
    line: tuple[float, ...]
    plain: bool
    priority: float = 0.0
    key: tuple[float, ...] = ()


_KEY = attrgetter("key")


@dataclass(slots=True, eq=False)
class Entry:
    """A job in the controller. Times are seconds on the run's clock.

    limit: seconds. eligible: it does not start before. accrue: from when its age counts. after: jobs that
    have to end first, by key. turn: the order of entering. shares: what it holds, None while it waits.
    """

    number: int
    job: Job
    limit: float
    partitions: tuple[Partition, ...]
    eligible: float
    accrue: float
    held: bool = False
    after: frozenset[str] = frozenset()
    turn: int = 0
    places: tuple[Place, ...] = ()
    fixed_priority: float | None = None
    shares: list[Share] | None = None
    partition: str = ""
    start: float = 0.0
    counted: float = 0.0
    reason: str = ""

    @property
    def ends(self) -> float:
        """When it is believed to end at the latest, by its limit."""
        return self.start + self.limit

    def place(self, partition: str) -> Place:
        """The job in one of its partitions."""
        return next(one for one in self.places if one.partition.name == partition)

    def fork(self) -> "Entry":
        """A copy that goes its own way."""
        copy = replace(self)
        copy.places = tuple(replace(place, entry=copy) for place in self.places)
        return copy


class Rules:
    """Constants of a controller: the site, its nodes by number, and how its scheduler was told to work.

    kinds: of each node, where a job has to keep to nodes of one kind.
    """

    def __init__(self, site: Site, kinds: Sequence[int] | None = None) -> None:
        self.site = site
        self.hardware = Hardware(site.nodes, kinds)
        self.demands = Demands(self.hardware)
        self.weights = Weights(site)
        self.partitions = {one.name: one for one in site.partitions}
        self.qos: Mapping[str, Qos] = {one.name: one for one in site.qos}
        config = site.config
        self.preempts_by = config.text("PreemptType", "preempt/none").rpartition("/")[2]
        self.preempt_modes = config.words("PreemptMode")
        for mode in sorted(self.preempt_modes & {"GANG", "SUSPEND"}):
            if self.preempts_by != "none":
                raise Problem(
                    f"PreemptMode {mode} is not modelled: two jobs would share nodes in turn",
                    mend="look at a site with REQUEUE or CANCEL",
                )
        self.exempt = duration(config.text("PreemptExemptTime")) or 0.0
        number = config.scheduler_number
        self.backfills = "backfill" in config.text("SchedulerType", "sched/backfill")
        self.backfill_interval = max(number("bf_interval", 30.0), 1.0)
        self.resolution = max(number("bf_resolution", 60.0), 1.0)
        self.backfill = (
            self.resolution,
            number("bf_window", 1440.0) * 60.0,
            number("bf_max_job_test", 500),
            number("bf_max_job_user", 0),
            number("bf_max_job_part", 0),
            number("bf_max_job_array_resv", 20),
        )
        """The numbers of a `planning.Plan`, without the time."""
        self.main_interval = max(number("sched_interval", 60.0), 1.0)
        self.main_depth = int(number("default_queue_depth", 100))
        self.reorders = int(number("preempt_reorder_count", 1))
        flags = config.scheduler_parameters
        self.strict_order = "preempt_strict_order" in flags
        self.youngest_first = "preempt_youngest_first" in flags
        self.limit_stops = "assoc_limit_stop" in flags
        self.up = np.array([node.usable for node in site.nodes], dtype=np.bool_)
        self.numbers: dict[Hashable, int] = {}
        """Numbers of users, partitions, arrays and groups, in the order in which they were met."""
        self.kinds: list[tuple[str, str]] = []
        self.stops = np.zeros((0, 0), dtype=np.bool_)
        """Which kinds may stop which."""

    def number(self, of: Hashable) -> int:
        """The number of what passes count by."""
        return self.numbers.setdefault(of, len(self.numbers))

    def kind(self, qos: str, partition: str) -> int:
        """The number of a QOS in a partition, by which preemption goes."""
        if (qos, partition) not in self.kinds:
            self.kinds.append((qos, partition))
        return self.kinds.index((qos, partition))

    def exempt_seconds(self, qos: str) -> float:
        """Seconds for which a job of a QOS runs before it is stopped for others."""
        own = self.qos.get(qos)
        return self.exempt if own is None or own.exempt_seconds is None else own.exempt_seconds

    def __repr__(self) -> str:
        """The cluster's name."""
        return f"Rules({self.site.cluster!r})"


class Controller:
    """The state that changes: `volvelle.incumbents.slurm.passes` read it, and start and stop jobs in it."""

    def __init__(self, rules: Rules, now: float) -> None:
        self.rules = rules
        self.now = now
        self.entries: dict[int, Entry] = {}
        self.running: dict[int, Entry] = {}
        self.entered = 0
        self.keys: dict[str, int] = {}
        """Numbers of the jobs that are here, by key."""
        self.waiting: list[Place] = []
        """Places of the jobs that wait, sorted."""
        self.free = rules.hardware.capacity.copy()
        self.holdings = NONE
        self.up = rules.up
        self.book = Book(rules.site)
        self.fair = FairShare(rules.site.associations, rules.site.config)
        self.factors = self.fair.factors()
        self.licences = dict(rules.site.licences)
        self.reservations: tuple[Reservation, ...] = rules.site.reservations
        self.tasks: dict[int, int] = {}
        """How many tasks of an array run, by its id."""
        self.calculated = now
        self.changed = True
        """Whether anything happened since the last pass."""
        self.cancelled: list[int] = []
        """Jobs that were stopped for others and do not come again."""

    def __repr__(self) -> str:
        """Its knowledge of jobs and nodes: two controllers are alike where these are."""
        return f"Controller({self.now}, {self.entries}, {self.free.tolist()}, {self.book.held})"

    def fork(self) -> "Controller":
        """A copy that goes its own way."""
        copy = object.__new__(Controller)
        copy.__dict__.update(self.__dict__)
        copy.entries = {number: entry.fork() for number, entry in self.entries.items()}
        copy.running = {number: copy.entries[number] for number in self.running}
        copy.keys, copy.tasks = self.keys.copy(), self.tasks.copy()
        copy.free = self.free.copy()
        copy.book, copy.fair = self.book.fork(), self.fair.fork()
        copy.licences = self.licences.copy()
        copy.cancelled = self.cancelled.copy()
        waiting = (entry for entry in copy.entries.values() if entry.shares is None)
        copy.waiting = sorted((one for entry in waiting for one in entry.places), key=_KEY)
        return copy

    # ------------------------------------------------------------------ jobs come and go

    def enter(self, entry: Entry, allowed: Bools | None = None) -> None:
        """A job was submitted. allowed: nodes that will do (None: all)."""
        self.entries[entry.number] = entry
        self.entered += 1
        entry.turn = self.entered
        self.keys[entry.job.key] = entry.number
        entry.places = tuple(self._place(entry, one, allowed) for one in entry.partitions)
        self._rate(entry)
        self._queue(entry)
        self.changed = True

    def _place(self, entry: Entry, partition: Partition, allowed: Bools | None) -> Place:
        job, rules, name = entry.job, self.rules, partition.name
        shape = shape_of(job, partition, rules.hardware, rules.site)
        if allowed is not None:
            shape = shape._replace(allowed=shape.allowed & allowed)
        demand, number = rules.demands.number(shape), rules.number
        asked = tuple(sorted(job.asked.items()))
        group = "group", job.user, job.account, job.qos, name, asked
        names = [one.name for one in self.reservations]
        line = (
            float(demand),
            entry.limit,
            float(number(("user", job.user))),
            float(number(("partition", name))),
            -1.0 if job.array is None else float(number(("array", job.array))),
            float(names.index(job.reservation)) if job.reservation in names else -1.0,
            float(rules.kind(job.qos, name)),
            float(number(group)),
            0.0,
        )
        counted = self.book.counts_jobs(job.user, job.account, job.qos, name)
        plain = not (counted or job.licences or job.throttle or "singleton" in job.dependency)
        return Place(entry, partition, demand, line, plain)

    def leave(self, number: int) -> None:
        """A job ended."""
        entry = self.entries.pop(number)
        if self.keys.get(entry.job.key) == number:
            del self.keys[entry.job.key]
        if entry.shares is not None:
            self.release(entry)
        self._leave_queue(entry)
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
        entry.shares, entry.partition, entry.start = held, partition, start
        entry.counted, entry.reason = max(start, self.calculated), ""
        job, rules = entry.job, self.rules
        for share in held:
            self.free[:, share.node] -= (share.cpus, share.memory, share.gpus)
        exempt = FOREVER if job.reservation else start + rules.exempt_seconds(job.qos)
        kind = rules.kind(job.qos, partition)
        self.holdings = self.holdings.plus(entry.number, held, entry.ends, kind, exempt)
        self.running[entry.number] = entry
        self.book.add(job.user, job.account, job.qos, partition, self.holds(entry), 1.0)
        if job.array is not None:
            self.tasks[job.array] = self.tasks.get(job.array, 0) + 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) - amount

    def requeue(self, entry: Entry) -> None:
        """Stop a job that begins anew later: it is held for two minutes, and its age begins again."""
        self.release(entry)
        self._leave_queue(entry)
        entry.eligible = entry.accrue = self.now + REQUEUE_HOLD
        entry.reason = "BeginTime"
        self._rate(entry)
        self._queue(entry)

    def release(self, entry: Entry) -> None:
        """A job holds nothing any more, and waits."""
        held = self.holds(entry)
        job = entry.job
        self.book.add(job.user, job.account, job.qos, entry.partition, held, -1.0)
        self._count_usage(entry)
        for share in entry.shares or ():
            self.free[:, share.node] += (share.cpus, share.memory, share.gpus)
        entry.shares = None
        self.holdings = self.holdings.without(entry.number)
        del self.running[entry.number]
        self._queue(entry)
        if job.array is not None:
            self.tasks[job.array] -= 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) + amount

    def _queue(self, entry: Entry) -> None:
        for place in entry.places:
            insort(self.waiting, place, key=_KEY)

    def _leave_queue(self, entry: Entry) -> None:
        for place in entry.places if entry.shares is None else ():
            at = bisect_left(self.waiting, place.key, key=_KEY)
            del self.waiting[self.waiting.index(place, at)]

    def holds(self, entry: Entry) -> dict[str, float]:
        """The resources that a running job holds, by Slurm's names."""
        return held_by(entry.shares or [], self.rules.hardware)

    # ------------------------------------------------------------------ priorities

    def begin(self, calculated: float, usage: Mapping[tuple[str, str], float]) -> None:
        """The past is told: priorities were worked out last at ``calculated``, when usage was this."""
        self.calculated = calculated
        self.fair.usage.clear()
        self.fair.usage.update(usage)
        self.factors = self.fair.factors()
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
        self.factors = self.fair.factors()
        for entry in self.entries.values():
            if entry.shares is None:
                entry.fixed_priority = None
                self._rate(entry)
        self.waiting.sort(key=_KEY)

    def _count_usage(self, entry: Entry) -> None:
        seconds = self.now - entry.counted
        if seconds > 0.0:
            cpus = sum(share.cpus for share in entry.shares or ())
            who = entry.job.account, entry.job.user
            self.fair.usage[who] = self.fair.usage.get(who, 0.0) + cpus * seconds
            entry.counted = self.now

    def _rate(self, entry: Entry) -> None:
        """Work out the priority of a waiting job in each of its partitions, and its place in the queue."""
        job, weights = entry.job, self.rules.weights
        for place in entry.places:
            partition = place.partition
            if entry.fixed_priority is not None:
                value = entry.fixed_priority
            elif weights.basic:
                value = -float(job.id)
            else:
                value = weights.priority(
                    age=self.now - entry.accrue,
                    fair_share=self.factors.get((job.account, job.user), 0.0),
                    nodes=job.asked.get("node", job.least_nodes),
                    cpus=job.asked.get("cpu", job.cpus),
                    partition=partition,
                    qos=self.rules.qos.get(job.qos),
                    nice=job.nice,
                )
            place.priority = value
            place.key = (
                not job.reservation,
                -partition.tier,
                -int(value),
                job.array if job.array is not None else job.id,
                job.task if job.task is not None else -1,
                entry.turn,
            )

    # ------------------------------------------------------------------ who may start at all

    def waits_for(self, entry: Entry) -> str:
        """Why a job does not come into question now, in Slurm's words; empty: it does."""
        job = entry.job
        if entry.held:
            return "JobHeldUser"
        if entry.eligible > self.now:
            return "BeginTime"
        if any(key in self.keys for key in entry.after) or self._is_not_alone(entry):
            return "Dependency"
        running = 0 if job.array is None else self.tasks.get(job.array, 0)
        return "JobArrayTaskLimit" if job.throttle and running >= job.throttle else ""

    def _is_not_alone(self, entry: Entry) -> bool:
        """Whether a singleton waits for a job of the same name and user (sbatch(1), ``--dependency``)."""
        if "singleton" not in entry.job.dependency:
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

    def unreserved(self, entry: Entry, begin: float, end: float) -> Bools:
        """The nodes that reservations leave to a job from ``begin`` to ``end``."""
        hardware, own = self.rules.hardware, entry.job.reservation
        left = self.up.copy()
        for one in self.reservations:
            if one.name == own:
                if not one.start <= begin < one.end:
                    left[:] = False
                elif one.nodes:
                    left &= hardware.mask(one.nodes)
            elif one.start < end and one.end > begin and one.nodes:
                left &= ~hardware.mask(one.nodes)
        return left

    def moments(self) -> Iterator[float]:
        """Later times at which something is known to change though nothing ends: holds, reservations."""
        for entry in self.entries.values():
            if entry.shares is None and not entry.held and entry.eligible > self.now:
                yield entry.eligible
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
