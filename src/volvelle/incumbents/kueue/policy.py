"""Kueue's scheduler as a policy: quota decides, as it would with the site's own objects.

A workload that was admitted gets GPUs of one kind of nodes as soon as there are enough of it: where quotas
and nodes agree, at once. Evicted workloads are gone at once, and wait again a second later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.columns import COUNT
from volvelle.core.policy import Allocation, Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.incumbents.kueue import plain
from volvelle.incumbents.kueue.books import Books
from volvelle.incumbents.kueue.flat_quotas import flat_quotas
from volvelle.incumbents.kueue.own import Own
from volvelle.incumbents.kueue.pods import TopologyRequest
from volvelle.incumbents.kueue.reasons import Explained, reason
from volvelle.incumbents.kueue.simulated import kinds_of, listed, places_of, workload_of
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.site_file import site_at
from volvelle.model.arrays import FloatColumn, Floats, IntColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem

RUNS = plain.RUNS - COUNT
KNOWN, DECLARED = RUNS + 1, RUNS + 2
"""Own columns behind those of `volvelle.incumbents.kueue.plain`: 1 once the books know the job, and the
priority that they know."""


@policies.register
class Kueue(Policy):
    """Kueue's admission to a site's queues: quotas that are lent, flavours, preemption, fair sharing."""

    name: ClassVar[str] = "kueue"
    source: ClassVar[str] = (
        "Kueue's documentation; its scheduler's own tests (v0.20 in development)"
    )
    work_conserving: ClassVar[bool] = False
    needs_durations: ClassVar[bool] = False
    incumbent: ClassVar[bool] = True
    whole_gpus: ClassVar[bool] = True
    borrows: ClassVar[bool] = False
    columns: ClassVar[int] = DECLARED + 1

    site: str = Field(
        "",
        description="the site: site.toml, or a folder of its objects as YAML or JSON; empty: one queue for"
        " each pool",
    )

    required: str = Field(
        "",
        description="a level of the site's topology (its label): all pods of a job run in one domain of it",
    )
    preferred: str = Field(
        "", description="the same where enough is free, else in a larger domain, or in several"
    )

    _own: Own | None = PrivateAttr(None)
    """The workloads of an attached cluster."""
    _explained: Explained | None = PrivateAttr(None)
    _books: Books | None = PrivateAttr(None)
    _nodes: int = PrivateAttr(0)
    """For how many nodes the books were opened."""
    _plain: Floats = PrivateAttr(default_factory=plain.begin)
    """See `volvelle.incumbents.kueue.plain`."""

    @classmethod
    def of(cls, own: Own) -> "Kueue":
        """The scheduler of an attached cluster: quota alone decides, as in Kueue itself.

        own: its site and workloads, by whose keys the core knows jobs; each gets one GPU of the core.
        """
        policy = cls()
        policy._own = own
        return policy

    @cached_property
    def described(self) -> Site:
        """The site at the path ``site``."""
        return site_at(Path(self.site)).settled()

    @property
    def chooses_nodes(self) -> bool:
        """Where jobs heed a topology."""
        return bool(self.required or self.preferred)

    def fork(self) -> "Kueue":
        """A copy with books of its own; the site is shared."""
        twin = self.model_copy()
        twin._plain = self._plain.copy()
        if self._books is not None:
            twin._books = self._books.fork()
        return twin

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where no queue of the jobs is one of the site's, or one admits nothing for good."""
        if not self.site:
            return
        site = self.described
        named = {one for spec, _ in jobs for one in (*spec.queues, spec.pool) if one}
        if named and len(site.queues) > 1 and not any(map(site.queue_of, named)):
            raise Problem(
                f"the jobs name queues {listed(named)}, of which {self.site} has none",
                mend=f"name {listed(site.local_queues or site.queues)} as queue or pool of the jobs",
            )
        for one in filter(None, map(site.queue_of, sorted(named))):
            for flavor in sorted(one[0].flavors - site.flavors.keys()):
                raise Problem(
                    f"ClusterQueue {one[0].name}, which jobs name, admits nothing: its flavour {flavor} is "
                    f"not in {self.site}",
                    mend="add the ResourceFlavor, or take it out of the queue",
                )

    # ------------------------------------------------------------------ decisions

    def kernel(self, *, named: bool) -> Kernel | None:
        """Decisions where whole GPUs are all that a site decides by; all others are made by `allocate`."""
        if self._own is not None or self.chooses_nodes:
            return None
        known = not self.site or plain.is_open(self._plain)
        if not known and flat_quotas(self.described) is None:
            return None
        return Kernel(plain.decide, self._plain, rates=False, yields=True)

    def refresh(self, view: View) -> tuple[str, ...] | None:
        """Let the books know jobs whose queues the kernel asks for; else leave the decision to `allocate`."""
        own, books = view.jobs.own, self._books
        if books is None or not plain.asks_for_queues(self._plain, own):
            return None
        rows = np.flatnonzero(own[plain.QUEUE - COUNT] == 0.0).tolist()
        if view.jobs.held[rows].any():
            return None
        for number in view.jobs.number[rows].astype(np.int64).tolist():
            if number in books.jobs:  # it went and came back
                books.leave(number)
        _enter(view, own, books, rows, TopologyRequest())
        return ()

    def allocate(self, view: View) -> Allocation:
        """Run cycles until nothing changes, and give GPUs to those that were admitted."""
        own = view.jobs.own
        books, self._explained = self._current(view, own), None
        request = TopologyRequest(self.required, self.preferred) if self.site else None
        _follow(view, own, books, request, self._own)
        if (said := plain.since(self._plain, view.jobs)) is not None:
            freed, aside = said
            books.catch_up(freed, view.jobs.number[aside].astype(np.int64).tolist())
        books.schedule(view.now)
        gpus, types, first = _placed(view, books)
        books.note()
        own[RUNS] = runs = gpus > 0.0
        reasons = np.full(len(gpus), float(Reason.POLICY))
        reasons[first] = Reason.GPUS
        reasons[runs] = Reason.NONE
        order = np.concatenate([first, np.flatnonzero(reasons == Reason.POLICY)])
        ask_at = min(books.away.values(), default=INFINITY)
        if plain.is_open(self._plain):
            row_of, evicts = view.jobs.row_of, bool(books.away or books.first)
            places = np.array([row_of[number] for number in books.aside], dtype=np.int64)
            whole = bool(runs[first].all()) and not evicts
            plain.note(self._plain, view.jobs, gpus, first, places, whole=whole)
        nodes = _nodes(view, books) if self.chooses_nodes and view.resources.named else None
        return Allocation(gpus, types, reasons, order, nodes=nodes, ask_at=ask_at)

    def _current(self, view: View, own: Floats) -> Books:
        """The books; new ones where nodes have joined a cluster whose Kueue is not described."""
        nodes = len(view.resources.nodes)
        if self._own is not None:
            if self._books is None:
                site = self._own.site.settled()
                places = self._own.places and self._own.places.fork()
                self._books = Books(site, dict.fromkeys(site.flavors, 1), places=places, unit=1.0)
                own[:] = 0.0
            return self._books
        if self._books is None or (nodes > self._nodes and not self.site):
            kinds, places = view.resources.kinds, None
            if self.site:
                site = self.described
                bits = kinds_of(site, kinds, self.site)
                named = {name for queue in site.queues.values() for name in queue.flavors}
                if self.chooses_nodes:
                    places = places_of(site, self.required or self.preferred, view.resources)
                elif all(map(bits.get, named)):
                    plain.open_for(self._plain, flat_quotas(site), INFINITY, plain.DESCRIBED)
            else:
                pools = dict(zip(view.pools, view.quota.tolist(), strict=True))
                total = float(view.resources.node_gpus.sum())
                site, bits = plain.site(total, pools), {plain.EVERYTHING: (1 << len(kinds)) - 1}
                quotas = flat_quotas(site) if len(site.queues) == 1 + len(pools) else None
                plain.open_for(self._plain, quotas, total, len(pools))
            self._books, self._nodes = Books(site, bits, places=places), nodes
            own[:] = 0.0
        return self._books

    def why(self, number: int) -> str:
        """Kueue's reason, in words."""
        books = self._books
        if books is None or number not in books.jobs:
            return ""
        if self._own is None:
            return reason(books, number)
        if self._explained is None:
            self._explained = Explained(books)
        return self._explained.why(number)


def _follow(
    view: View, own: Floats, books: Books, request: TopologyRequest | None, attached: Own | None
) -> None:
    """Let jobs enter and leave, start and stop in the books as they did in the core.

    request: of their pods where the site is described.
    """
    jobs, resources, places = view.jobs, view.resources, books.places
    if places is not None and attached is None:
        up = resources.schedulable.tolist()
        sizes = {
            name: resources.nodes[at].gpus * 1000 * up[at] for name, at in resources.index.items()
        }
        if places.resize(sizes):
            books.queues.stir_all()
    known, numbers = own[KNOWN] > 0.0, jobs.number.astype(np.int64)
    if len(books.jobs) > np.count_nonzero(known):
        for number in sorted(books.jobs.keys() - set(numbers.tolist())):
            books.leave(number)
    held, declared = jobs.held, jobs.priority
    changed = ~known | ((own[RUNS] > 0.0) != (held > 0.0)) | (own[DECLARED] != declared)
    rows = np.flatnonzero(changed).tolist()
    if not rows:
        return
    came = [row for row in rows if int(numbers[row]) not in books.jobs]
    _enter(view, own, books, came, request, attached)
    own[KNOWN], own[DECLARED] = 1.0, declared
    granted, kinds, started = (
        own[plain.GRANTED - COUNT],
        jobs.column("type"),
        jobs.column("started"),
    )
    for row in sorted(rows, key=granted.__getitem__):
        number = int(numbers[row])
        if books.declared[number] != declared[row]:
            books.prioritise(number, int(declared[row]))
        runs = number in books.held and books.held[number].kind >= 0
        again = granted[row] > 0.0 and own[RUNS, row] == 0.0
        if runs and (held[row] == 0.0 or again):
            books.stopped(number)
        if held[row] > 0.0 and (again or not runs):
            nodes = held_nodes(view, number) if places is not None else {}
            since = float(started[row]) if granted[row] else view.now
            books.runs(number, int(kinds[row]), float(held[row]), since, nodes)


def _enter(
    view: View,
    own: Floats,
    books: Books,
    rows: Sequence[int],
    request: TopologyRequest | None,
    attached: Own | None = None,
) -> None:
    """Let jobs enter the books, which do not know them yet. request: as in `_follow`."""
    jobs, largest = view.jobs, int(view.resources.node_gpus.max())
    numbers, suited = jobs.number, jobs.column("types").astype(np.int64)
    came = jobs.submit_time  # of a job that depends on others: once it is there
    own[KNOWN, rows], own[DECLARED, rows] = 1.0, jobs.priority[rows]
    for row in rows:
        number, priority = int(numbers[row]), int(own[DECLARED, row])
        if attached is not None:
            books.names[number] = name = view.spec(number).id
            one, holder, away = attached.workload(name)
            books.enter(number, replace(one, key=str(number)), 1, priority)
            if holder is not None:
                books.holds(number, holder)
            elif away > view.now:
                books.keep_away(number, away)
        else:
            spec, topology = view.spec(number), request and (request, largest)
            one = workload_of(number, spec, priority, books.site, topology or int(suited[row]))
            one = replace(one, queued=float(came[row]))
            books.enter(number, one, int(suited[row]), priority)
            own[plain.QUEUE - COUNT, row] = books.flat_queue(one, spec.gpus)
            own[plain.BASE - COUNT, row] = one.priority - priority


def held_nodes(view: View, number: int) -> dict[str, int]:
    """GPUs that a job has, by node, in thousandths."""
    resources = view.resources
    if not resources.named:
        return {}
    there = np.bincount(resources.slot_node[resources.owner == number], minlength=1).tolist()
    return {resources.nodes[at].name: each * 1000 for at, each in enumerate(there) if each}


def _nodes(view: View, books: Books) -> NDArray[np.int64]:
    """The nodes of those that run: job of the view, node and GPUs there, by job and node."""
    row_of, index = view.jobs.row_of, view.resources.index
    places = [
        (row_of[number], index[name], gpus // 1000)
        for number, one in books.held.items()
        if one.kind >= 0
        for name, gpus in one.holder.nodes.items()
    ]
    return np.array(sorted(places), dtype=np.int64).reshape(-1, 3).T.copy()


def _placed(view: View, books: Books) -> tuple[FloatColumn, FloatColumn, IntColumn]:
    """GPUs of each job, the kind of its nodes, and the rows of all that hold quota as they were admitted.

    Where nodes are gone, the workloads that were admitted last lose theirs, if they may be stopped. Quotas of
    the cluster's pools, which the site does not know, hold as well.
    """
    row_of, left, quota = view.jobs.row_of, view.capacity.copy(), [*view.quota.tolist(), INFINITY]
    pools = view.jobs.column("pool").astype(np.int64)
    gpus, types = np.zeros(len(view.jobs)), np.full(len(view.jobs), -1.0)
    rows = np.array([row_of[number] for number in books.held], dtype=np.int64)
    if books.unit:
        gpus[rows], types[rows] = books.unit, 0.0
        for number in [number for number, one in books.held.items() if one.kind < 0]:
            books.place(number, 0)
        return gpus, types, rows
    kinds = np.array([one.kind for one in books.held.values()], dtype=np.int64)
    amounts = np.array([one.gpus for one in books.held.values()])
    there, runs = kinds >= 0, rows[kinds >= 0]
    by_kind = np.bincount(kinds[there], amounts[there], len(left))
    by_pool = np.bincount(pools[runs] % len(quota), amounts[there], len(quota))
    asked = [number for number, one in books.held.items() if one.kind < 0]
    if (by_kind <= left).all() and (by_pool <= quota).all():
        left, quota = left - by_kind, (quota - by_pool).tolist()
        gpus[runs], types[runs] = amounts[there], kinds[there]
    else:
        running = [number for number, one in books.held.items() if one.kind >= 0]
        running.sort(key=lambda number: books.jobs[number].preemptible)
        asked = running + asked
    for number in asked:
        one, row = books.held[number], row_of[number]
        among = [one.kind] if one.kind >= 0 else range(len(left))
        will_do = books.kinds_for(number) if one.kind < 0 else 1 << one.kind
        kind = next((k for k in among if will_do >> k & 1 and left[k] >= one.gpus), -1)
        kind = kind if quota[pools[row]] >= one.gpus else -1
        if kind >= 0:
            quota[pools[row]] -= one.gpus
            left[kind] -= one.gpus
            gpus[row], types[row] = one.gpus, kind
        if kind != one.kind:
            books.place(number, kind)
    return gpus, types, rows
