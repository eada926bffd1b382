"""Kueue's scheduler as a policy: quota decides, as it would with the site's own objects.

A workload that was admitted gets GPUs of one kind of nodes as soon as there are enough of it: where quotas
and nodes agree, at once. Evicted workloads are gone at once, and wait again a second later.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.incumbents.kueue.books import Books
from volvelle.incumbents.kueue.cycle import WAITS_FOR_VICTIMS
from volvelle.incumbents.kueue.flavors import EXCEEDS, NO_MATCH, WAITS
from volvelle.incumbents.kueue.objects import (
    ClusterQueue,
    Cohort,
    Container,
    FlavorQuotas,
    PodSet,
    PodSpec,
    Quantity,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Resources,
    Selector,
    Template,
    is_gpu,
)
from volvelle.incumbents.kueue.preemption import (
    FAIR_SHARING,
    IN_QUEUE,
    RECLAMATION,
    WHILE_BORROWING,
)
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.site_file import site_at
from volvelle.incumbents.kueue.workloads import Pending
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.node import NodeKind
from volvelle.model.problems import Problem

GPU = "nvidia.com/gpu"
EVERYTHING = "gpus"
"""The queue and the flavour of a cluster whose Kueue is not described."""


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
    borrows: ClassVar[bool] = False

    site: str = Field(
        "",
        description="the site: site.toml, or a folder of its objects as YAML or JSON; empty: one queue for"
        " each pool",
    )

    _books: Books | None = PrivateAttr(None)
    _nodes: int = PrivateAttr(0)
    """For how many nodes the books were opened."""

    def fork(self) -> "Kueue":
        """A copy with books of its own; the site is shared."""
        twin = self.model_copy()
        if self._books is not None:
            twin._books = self._books.fork()
        return twin

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where jobs name queues, and none of them is one of the site's."""
        if not self.site:
            return
        site = site_at(Path(self.site))
        named = {one for spec, _ in jobs for one in (*spec.queues, spec.pool) if one}
        if named and len(site.queues) > 1 and not any(map(site.queue_of, named)):
            raise Problem(
                f"the jobs name queues {listed(named)}, of which {self.site} has none",
                mend=f"name {listed(site.local_queues or site.queues)} as queue or pool of the jobs",
            )

    # ------------------------------------------------------------------ decisions

    def allocate(self, view: View) -> Allocation:
        """Run cycles until nothing changes, and give GPUs to those that were admitted."""
        books = self._current(view)
        _follow(view, books)
        books.schedule(view.now)
        gpus, types = _placed(view, books)
        books.note()
        held, row_of = books.held, view.jobs.row_of
        reasons = np.full(len(gpus), float(Reason.POLICY))
        reasons[[row_of[number] for number in held]] = Reason.GPUS
        reasons[gpus > 0.0] = Reason.NONE
        first = [row_of[number] for number in held]
        order = np.concatenate([first, np.setdiff1d(np.arange(len(gpus)), first)]).astype(np.int64)
        ask_at = min(books.away.values(), default=INFINITY)
        return Allocation(gpus, types, reasons, order, ask_at=ask_at)

    def _current(self, view: View) -> Books:
        """The books; new ones where nodes have joined a cluster whose Kueue is not described."""
        nodes = len(view.resources.nodes)
        if self._books is None or (nodes > self._nodes and not self.site):
            kinds = view.resources.kinds
            if self.site:
                site = site_at(Path(self.site)).settled()
                bits = _kinds_of(site, kinds, self.site)
            else:
                pools = dict(zip(view.pools, view.quota.tolist(), strict=True))
                total = float(view.resources.node_gpus.sum())
                site, bits = _plain(total, pools), {EVERYTHING: (1 << len(kinds)) - 1}
            self._books, self._nodes = Books(site, bits), nodes
        return self._books

    def why(self, number: int) -> str:
        """Kueue's reason, in words."""
        books = self._books
        if books is None or number not in books.jobs:
            return ""
        if number in books.held:
            return f"admitted by ClusterQueue {books.jobs[number].queue}, waiting for nodes"
        reason, queue = books.reasons.get(number, WAITS), books.jobs[number].queue
        said = f"{reason}: {_WORDS[reason]}" if reason in _WORDS else reason
        return f"{said} (ClusterQueue {queue})"


_WORDS = {
    WAITS: "others hold the quota that it could use",
    WAITS_FOR_VICTIMS: "workloads are being evicted for it",
    EXCEEDS: "it asks for more than its queue can ever have, with all that it may borrow",
    NO_MATCH: "no flavour of its queue has such nodes",
    IN_QUEUE: "it was evicted for a workload before it in its queue",
    RECLAMATION: "it was evicted from quota that it borrowed",
    WHILE_BORROWING: "it was evicted for a workload of a higher priority that borrows",
    FAIR_SHARING: "it was evicted from quota of which its queue borrowed more than others",
    "Misconfigured": "its namespace is none of those that the queue selects",
}


def _follow(view: View, books: Books) -> None:
    """Let jobs enter and leave, start and stop in the books as they did in the core."""
    jobs = view.jobs
    numbers = jobs.number.astype(np.int64).tolist()
    for number in sorted(books.jobs.keys() - set(numbers)):
        books.leave(number)
    held, priority = jobs.held.tolist(), jobs.priority.astype(np.int64).tolist()
    kinds, suited = (jobs.column(name).astype(np.int64).tolist() for name in ("type", "types"))
    for row, number in enumerate(numbers):
        if number not in books.jobs:
            one = pending(number, view.spec(number), priority[row], books.site)
            books.enter(number, one, suited[row], priority[row])
        elif books.declared[number] != priority[row]:
            books.prioritise(number, priority[row])
        runs = number in books.held and books.held[number].kind >= 0
        if runs and held[row] == 0.0:
            books.stopped(number)
        elif not runs and held[row] > 0.0:
            books.runs(number, kinds[row], held[row], view.now)


def _placed(view: View, books: Books) -> tuple[FloatColumn, FloatColumn]:
    """GPUs of each job and the kind of its nodes, in the order in which they were admitted.

    Where nodes are gone, the workloads that were admitted last lose theirs, if they may be stopped.
    """
    row_of, left = view.jobs.row_of, view.capacity.copy()
    gpus, types = np.zeros(len(view.jobs)), np.full(len(view.jobs), -1.0)
    running = [number for number, one in books.held.items() if one.kind >= 0]
    running.sort(key=lambda number: books.jobs[number].preemptible)
    for number in [*running, *(number for number in books.held if number not in set(running))]:
        one, row = books.held[number], row_of[number]
        kinds = [one.kind] if one.kind >= 0 else range(len(left))
        will_do = books.places(number) if one.kind < 0 else 1 << one.kind
        kind = next((k for k in kinds if will_do >> k & 1 and left[k] >= one.gpus), -1)
        if kind >= 0:
            left[kind] -= one.gpus
            gpus[row], types[row] = one.gpus, kind
        if kind != one.kind:
            books.place(number, kind)
    return gpus, types


# ---------------------------------------------------------------------- jobs as workloads


def pending(number: int, spec: JobSpec, declared: int, site: Site) -> Pending:
    """The workload of a job: its queue or pool names one of the site's queues, its QOS a priority class.

    Of a job that names none of the site the first queue counts. An elastic job is pods of one GPU, which may
    be fewer than it asks for; another one is a pod for each node that it asks for.
    """
    names = filter(None, (*spec.queues, spec.pool))
    found = next((there for name in names if (there := site.queue_of(name))), None)
    queue, namespace = found or (next(iter(site.queues.values())), "")
    covered = [name for group in queue.resource_groups for name in group.covered_resources]
    gpu = next(filter(is_gpu, covered), GPU)
    shrinks = spec.least_gpus < spec.gpus and spec.gpus % 1.0 == spec.least_gpus % 1.0 == 0.0
    evenly = spec.nodes > 0 and spec.gpus % spec.nodes == 0.0
    pods = spec.gpus if shrinks else spec.nodes if evenly else 1
    asked = {gpu: spec.gpus, "cpu": spec.cpus, "memory": spec.memory_gb * 1024.0**3}
    requests: dict[str, Quantity] = {
        name: one / pods for name, one in asked.items() if name == gpu or name in covered
    }
    container = Container(resources=Resources(requests=requests))
    least = int(spec.least_gpus) if shrinks else None
    template = Template(spec=PodSpec(containers=[container]))
    base = site.classes[spec.qos].value if spec.qos in site.classes else 0
    foreign = bool(namespace) and not site.selects(queue, namespace)
    return Pending(
        key=str(number),
        uid=f"{number:012}",
        queue=queue.name,
        pod_sets=(PodSet(count=int(pods), min_count=least, template=template),),
        priority=base + declared,
        queued=spec.submit_time,
        preemptible=spec.preemptible,
        alike=f"{requests} {pods} {least} {base + declared} {spec.gpu_types} {spec.constraints}",
        fault="Misconfigured" if foreign else "",
        foreign=foreign,
    )


def _plain(gpus: float, pools: Mapping[str, float]) -> Site:
    """A site before anything is configured: a cohort with all GPUs, of which pools borrow their quotas."""

    def group(nominal: float, limit: float | None = None) -> list[ResourceGroup]:
        quota = ResourceQuota(GPU, nominal, limit)
        return [ResourceGroup([GPU], [FlavorQuotas(EVERYTHING, [quota])])]

    limits: dict[str, float | None] = {EVERYTHING: None, **pools}
    queues = {
        name: ClusterQueue(
            name=name,
            cohort_name=EVERYTHING,
            resource_groups=group(0, limit),
            namespace_selector=Selector(),
        )
        for name, limit in limits.items()
    }
    return Site(
        queues=queues,
        cohorts={EVERYTHING: Cohort(name=EVERYTHING, resource_groups=group(gpus))},
        flavors={EVERYTHING: ResourceFlavor(name=EVERYTHING)},
    )


def listed(names: Iterable[str], most: int = 4) -> str:
    """The first of some names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def _kinds_of(site: Site, kinds: Sequence[NodeKind], where: str) -> dict[str, int]:
    """By flavour, the kinds of nodes with its labels, as bits; without labels of its own, of its GPU type.

    Raises `Problem` where no flavour has nodes.
    """
    found = {}
    for flavor in site.flavors.values():
        labels = {f"{name}={value}" for name, value in flavor.node_labels.items()}
        there = [k for k, kind in enumerate(kinds) if labels <= set(kind.labels)]
        if not labels or not there:
            there = [k for k, kind in enumerate(kinds) if kind.gpu_type == flavor.name] or there
        found[flavor.name] = sum(1 << k for k in there)
    if not any(found.values()):
        raise Problem(
            f"no node of the simulated cluster is of a flavour of {where}",
            mend="write its site.toml with volvelle site import kueue, and give --cluster site.toml",
        )
    return found
