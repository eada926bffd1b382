"""The state of Slurm's controller as its scheduler sees it: who runs where, who waits, and what is free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from volvelle.incumbents.slurm.fair_share import FairShare, Weights
from volvelle.incumbents.slurm.limits import Book
from volvelle.incumbents.slurm.shapes import Bools, Floats, Hardware, Shape, Share, shape_of, shares
from volvelle.incumbents.slurm.site import Job, Partition, Qos, Reservation, Site
from volvelle.incumbents.slurm.text import duration
from volvelle.model.problems import Problem

REQUEUE_HOLD = 121.0
"""Seconds for which a job that was requeued is held (measured; ``begin_time`` is now and 120 s, plus 1)."""
FOREVER = float("inf")


@dataclass(slots=True)
class Entry:
    """A job in the controller. Times are seconds on the run's clock.

    limit: seconds. eligible: it does not start before. accrue: from when its age counts. after: jobs that
    have to end first, by key. priority: by partition. shares: what it holds, None while it waits.
    """

    number: int
    job: Job
    limit: float
    partitions: tuple[Partition, ...]
    eligible: float
    accrue: float
    held: bool = False
    after: frozenset[str] = frozenset()
    shapes: dict[str, Shape] = field(default_factory=dict)
    priority: dict[str, float] = field(default_factory=dict)
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


@dataclass(eq=False)
class Rules:
    """Constants of a controller: the site, its nodes by number, and how its scheduler was told to work.

    kinds: of each node, where a job has to keep to nodes of one kind.
    """

    site: Site
    kinds: Sequence[int] | None = None

    def __post_init__(self) -> None:
        site = self.site
        self.hardware = Hardware(site.nodes, self.kinds)
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
        self.window = number("bf_window", 1440.0) * 60.0
        self.resolution = max(number("bf_resolution", 60.0), 1.0)
        self.depth = int(number("bf_max_job_test", 500))
        self.user_depth = int(number("bf_max_job_user", 0))
        self.partition_depth = int(number("bf_max_job_part", 0))
        self.array_reservations = int(number("bf_max_job_array_resv", 20))
        self.main_interval = max(number("sched_interval", 60.0), 1.0)
        self.main_depth = int(number("default_queue_depth", 100))
        self.reorders = int(number("preempt_reorder_count", 1))
        flags = config.scheduler_parameters
        self.strict_order = "preempt_strict_order" in flags
        self.youngest_first = "preempt_youngest_first" in flags
        self.limit_stops = "assoc_limit_stop" in flags
        self.up = np.array([node.usable for node in site.nodes], dtype=np.bool_)


@dataclass(eq=False)
class Controller:
    """The state that changes: `volvelle.incumbents.slurm.passes` read it, and start and stop jobs in it.

    keys: numbers of the jobs that are here, by key. tasks: how many tasks of an array run, by its id.
    changed: whether anything happened since the last pass. cancelled: jobs that were stopped for others and
    do not come again.
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

    def fork(self) -> "Controller":
        """A copy that goes its own way."""
        return replace(
            self,
            free=self.free.copy(),
            book=self.book.fork(),
            fair=self.fair.fork(),
            licences=self.licences.copy(),
            entries={
                number: replace(entry, priority=entry.priority.copy())
                for number, entry in self.entries.items()
            },
            keys=self.keys.copy(),
            tasks=self.tasks.copy(),
            cancelled=self.cancelled.copy(),
        )

    # ------------------------------------------------------------------ jobs come and go

    def enter(self, entry: Entry, allowed: Bools | None = None) -> None:
        """A job was submitted. allowed: nodes that will do (None: all)."""
        self.entries[entry.number] = entry
        self.keys[entry.job.key] = entry.number
        for partition in entry.partitions:
            shape = shape_of(entry.job, partition, self.rules.hardware, self.rules.site)
            if allowed is not None:
                shape = shape._replace(allowed=shape.allowed & allowed)
            entry.shapes[partition.name] = shape
        self._rate(entry)
        self.changed = True

    def leave(self, number: int) -> None:
        """A job ended."""
        entry = self.entries.pop(number)
        if self.keys.get(entry.job.key) == number:
            del self.keys[entry.job.key]
        if entry.shares is not None:
            self.release(entry)
        self.changed = True

    def start(self, entry: Entry, partition: str, nodes: list[int]) -> None:
        """Let a job start on nodes that can serve it."""
        shape = entry.shapes[partition]
        self.hold(entry, partition, shares(shape, self.rules.hardware, self.free, nodes), self.now)

    def hold(self, entry: Entry, partition: str, held: list[Share], start: float) -> None:
        """Let a job run on what it holds since ``start``."""
        entry.shares, entry.partition, entry.start = held, partition, start
        entry.counted, entry.reason = max(start, self.calculated), ""
        job = entry.job
        for share in held:
            self.free[:, share.node] -= (share.cpus, share.memory, share.gpus)
        self.running[entry.number] = entry
        self.book.add(job.user, job.account, job.qos, partition, self.holds(entry), 1.0)
        if job.array is not None:
            self.tasks[job.array] = self.tasks.get(job.array, 0) + 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) - amount

    def requeue(self, entry: Entry) -> None:
        """Stop a job that begins anew later: it is held for two minutes, and its age begins again."""
        self.release(entry)
        entry.eligible = entry.accrue = self.now + REQUEUE_HOLD
        entry.reason = "BeginTime"
        self._rate(entry)

    def release(self, entry: Entry) -> None:
        """A job holds nothing any more."""
        held = self.holds(entry)
        job = entry.job
        self.book.add(job.user, job.account, job.qos, entry.partition, held, -1.0)
        self._count_usage(entry)
        for share in entry.shares or ():
            self.free[:, share.node] += (share.cpus, share.memory, share.gpus)
        entry.shares = None
        del self.running[entry.number]
        if job.array is not None:
            self.tasks[job.array] -= 1
        for name, amount in job.licences.items():
            self.licences[name] = self.licences.get(name, 0.0) + amount

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

    def _count_usage(self, entry: Entry) -> None:
        seconds = self.now - entry.counted
        if seconds > 0.0:
            cpus = sum(share.cpus for share in entry.shares or ())
            who = entry.job.account, entry.job.user
            self.fair.usage[who] = self.fair.usage.get(who, 0.0) + cpus * seconds
            entry.counted = self.now

    def _rate(self, entry: Entry) -> None:
        """Work out the priority of a waiting job in each of its partitions."""
        job, weights = entry.job, self.rules.weights
        for partition in entry.partitions:
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
            entry.priority[partition.name] = value

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
