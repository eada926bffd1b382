"""The state of Kueue as its policy keeps it: who waits, who holds quota, and cycles until nothing changes."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace

from volvelle.incumbents.kueue.amounts import Amounts, is_gpu
from volvelle.incumbents.kueue.cycle import Cycle, Entry
from volvelle.incumbents.kueue.preemption import Victim
from volvelle.incumbents.kueue.quota import Holder
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.topology import Places
from volvelle.incumbents.kueue.workloads import Pending

REQUEUED = 1.0
"""Seconds after which an evicted workload waits again."""


@dataclass(frozen=True)
class Held:
    """A workload that holds quota."""

    holder: Holder
    flavors: tuple[str, ...]
    gpus: float
    kind: int = -1
    """The kind of nodes on which it runs; -1: it waits for nodes."""


@dataclass(eq=False)
class Books:
    """Workloads by number, and what became of them.

    jobs: all that are here. held: those that hold quota, in the order of admission. aside:
    those that are set aside. first: by queue, the workload for which others were evicted. away: when those
    that were evicted wait again. reasons: why they wait, as Kueue's conditions say.
    kinds: by flavour, the kinds of nodes that it stands for, as bits.
    """

    site: Site
    kinds: dict[str, int]
    jobs: dict[int, Pending] = field(default_factory=dict)
    suited: dict[int, int] = field(default_factory=dict)
    """By number, the kinds of nodes on which a job may run, as bits."""
    declared: dict[int, int] = field(default_factory=dict)
    """By number, the priority that the job's user declares."""
    held: dict[int, Held] = field(default_factory=dict)
    aside: list[int] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    away: dict[int, float] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """Of the workloads of an attached cluster, by number."""
    places: Places | None = None
    """The nodes, where pods heed a topology."""
    unit: float = 0.0
    """GPUs of the core that each workload gets, where quota alone decides; 0: those that it asks for."""

    def __post_init__(self) -> None:
        self.ledger = self.site.ledger()
        self.ledger.places = self.places
        self.queues = self.site.waiting(self.ledger)
        for held in self.held.values():
            self.ledger.add(held.holder)
        for number, one in self.jobs.items():
            if number not in self.held and number not in self.away:
                self.queues.enter(one)
        for number in self.aside:
            self.queues.put_aside(self.jobs[number])
        for queue, number in self.first.items():
            self.queues.first[queue] = self.jobs[number].key
        self.cycle = Cycle(
            self.ledger,
            self.site.flavors,
            self.site.configuration,
            suits=lambda one, flavor: bool(self._suited(one) & self.kinds.get(flavor, 0)),
            kinds=self._suited,
        )

    def _suited(self, workload: Pending) -> int:
        return self.suited[int(workload.key)]

    def fork(self) -> "Books":
        """A copy that goes its own way."""
        self.note()
        other = copy(self)
        for name in ("jobs", "suited", "declared", "held", "first", "away", "reasons", "names"):
            setattr(other, name, getattr(self, name).copy())
        other.aside = list(self.aside)
        if self.places is not None:
            other.places = self.places.fork()
        other.__post_init__()
        return other

    def note(self) -> None:
        """Bring the fields that a copy is made of up to date with the queues."""
        self.aside = [int(one.key) for one in self.queues.all_aside()]
        self.first = {name: int(key) for name, key in self.queues.first.items()}

    # ------------------------------------------------------------------ jobs come and go

    def enter(self, number: int, one: Pending, suited: int, declared: int) -> None:
        """A job was submitted that may run on these kinds of nodes."""
        self.jobs[number], self.suited[number], self.declared[number] = one, suited, declared
        self.queues.enter(one)

    def leave(self, number: int) -> None:
        """A job ended, or was cancelled."""
        one = self.jobs.pop(number)
        del self.suited[number], self.declared[number]
        self.reasons.pop(number, None)
        self.names.pop(number, None)
        if number in self.held:
            self._free(number)
        elif self.away.pop(number, None) is None:
            self.queues.leave(one)

    def keep_away(self, number: int, until: float) -> None:
        """A job that waits comes into question from some moment on."""
        self.queues.leave(self.jobs[number])
        self.away[number] = until

    def catch_up(self, freed: Iterable[int], numbers: Iterable[int]) -> None:
        """Another has decided: quota was freed since in these queues, by number; these jobs it set aside."""
        names = list(self.ledger.queues)
        for at in freed:
            self.queues.freed(names[at])
        for number in numbers:
            if number not in self.held:
                self.queues.put_aside(self.jobs[number])

    def stopped(self, number: int) -> None:
        """A job lost its GPUs, and waits again."""
        self._free(number)
        self.queues.enter(self.jobs[number])

    def _free(self, number: int) -> None:
        held = self.held.pop(number)
        self.ledger.remove(held.holder)
        self.queues.freed(held.holder.queue)
        if held.holder.nodes:
            self.queues.stir_all()

    def prioritise(self, number: int, priority: int) -> None:
        """The user of a job declares another priority."""
        one = self.jobs[number]
        again = replace(one, priority=one.priority + priority - self.declared[number])
        self.jobs[number], self.declared[number] = again, priority
        if number in self.held:
            held = self.held[number]
            self.ledger.remove(held.holder)
            holder = replace(held.holder, priority=again.priority)
            self.ledger.add(holder)
            self.held[number] = replace(held, holder=holder)
            self.queues.stir(one.queue)
        elif number not in self.away:
            self.queues.leave(one)
            self.queues.enter(again)

    def runs(self, number: int, kind: int, gpus: float, now: float, nodes: dict[str, int]) -> None:
        """A job that waits runs already: it holds quota of a flavour of its nodes."""
        one = self.jobs[number]
        flavors = self.site.queues[one.queue].flavors
        flavor = min((name for name in flavors if self.kinds.get(name, 0) >> kind & 1), default="")
        (pods,) = one.pod_sets
        count = pods.count if pods.min_count is None else int(gpus)
        requests = pods.template.spec.requests
        usage = {(flavor, name): each * count for name, each in requests.items() if flavor}
        self.queues.leave(one)
        self._hold(
            number, Held(self._holder(one, usage, now, nodes), (flavor,) * bool(flavor), gpus, kind)
        )

    def holds(self, number: int, holder: Holder) -> None:
        """A job that waits holds this quota already."""
        self.queues.leave(self.jobs[number])
        self._hold(number, Held(replace(holder, key=str(number)), (), self.unit))

    def flat_queue(self, one: Pending, gpus: float) -> int:
        """The number of a workload's queue from 1 on; -1 where more than whole GPUs decides of it."""
        (pods,) = one.pod_sets
        asked = [each * pods.count for each in pods.template.spec.requests.values()]
        flat = asked == [1000 * gpus] and not one.fault and not one.shrinks
        return list(self.ledger.queues).index(one.queue) + 1 if flat else -1

    # ------------------------------------------------------------------ cycles

    def schedule(self, now: float) -> None:
        """Run cycles until nothing changes any more."""
        for number in [number for number, when in self.away.items() if when <= now]:
            del self.away[number]
            self.queues.enter(self.jobs[number])
        heads = self.queues.heads()
        while heads:
            entries = self.cycle.run(heads)
            self.queues.settle(entries)
            changed = False
            for entry in entries:
                number = int(entry.workload.key)
                self.reasons[number] = entry.reason
                if entry.admitted:
                    self._admit(number, entry, now)
                for victim in entry.victims if entry.preempting else ():
                    self._evict(victim, now)
                changed |= entry.admitted or (entry.preempting and bool(entry.victims))
            before, heads = heads, self.queues.heads()
            if not changed and heads == before:
                break
        self.queues.rest()

    def _admit(self, number: int, entry: Entry, now: float) -> None:
        sets = entry.assignment.sets
        flavors = {choice.flavor for one in sets for choice in one.flavors.values()}
        requests = [pair for one in sets for pair in one.requests.items()]
        gpus = self.unit or sum(each for name, each in requests if is_gpu(name)) / 1000.0
        holder = self._holder(
            entry.workload, entry.assignment.requests, now, entry.assignment.nodes
        )
        self._hold(number, Held(holder, tuple(sorted(flavors)), gpus))

    def _holder(self, one: Pending, usage: Amounts, now: float, nodes: dict[str, int]) -> Holder:
        return Holder(
            one.key,
            one.uid,
            one.queue,
            usage,
            one.priority,
            one.queued,
            now,
            preemptible=one.preemptible,
            nodes=nodes,
        )

    def _hold(self, number: int, held: Held) -> None:
        self.held[number] = held
        self.ledger.add(held.holder)

    def _evict(self, victim: Victim, now: float) -> None:
        number = int(victim.holder.key)
        self._free(number)
        self.away[number] = now + REQUEUED
        self.reasons[number] = victim.reason

    def kinds_for(self, number: int) -> int:
        """The kinds of nodes that will do for a workload that holds quota, as bits."""
        if self.places is not None and (nodes := self.held[number].holder.nodes):
            return 1 << self.places.kinds[next(iter(nodes))]
        bits = self.suited[number]
        for flavor in self.held[number].flavors:
            bits &= self.kinds[flavor]
        return bits

    def place(self, number: int, kind: int) -> None:
        """Let a workload that holds quota run on a kind of nodes; -1: let it wait for nodes."""
        self.held[number] = replace(self.held[number], kind=kind)
