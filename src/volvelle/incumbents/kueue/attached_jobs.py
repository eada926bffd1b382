"""A cluster with Kueue as attach sees it: workloads as jobs, and the facets of its site."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from volvelle.incumbents.attach import incumbent as attach
from volvelle.incumbents.kueue.amounts import amount, is_gpu, seconds
from volvelle.incumbents.kueue.pods import Workload
from volvelle.incumbents.kueue.site import Site
from volvelle.model.pool import Pool

_NUMBERED = re.compile(r"([-._]?\d[\w.]*|-[bcdf-hj-np-tv-z2456789]{5})+$")
"""The part of a job's name that tells its runs apart: numbers, dates, generated endings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(attach.Job):
    """A workload. user: its namespace. account: its LocalQueue. ``nodes``: the flavours that it holds."""

    ordinal: int
    cluster_queue: str = ""
    asked: float = 0.0
    """GPUs of all of its pods."""
    kind: str = ""
    """The kind of the job to which it belongs."""
    image: str = ""
    active: bool = True
    message: str = ""
    """Kueue's sentence about why it waits."""

    @property
    def number(self) -> int:
        """Its place among the workloads that were seen."""
        return self.ordinal

    @property
    def queue(self) -> str:
        """Its ClusterQueue; its LocalQueue where that leads nowhere."""
        return self.cluster_queue or self.account

    @property
    def gpus(self) -> float:
        """GPUs of all of its pods."""
        return self.asked

    @property
    def held_back(self) -> bool:
        """Whether it is deactivated."""
        return self.pending and not self.active

    @property
    def request(self) -> dict[str, Any]:
        """The request as the HTTP API shows it."""
        return {"time_limit": self.limit_seconds, "cpus": self.cpus, "pool": self.queue}

    @property
    def said(self) -> str:
        """Kueue's reason with its sentence."""
        return f"{self.reason}: {self.message}" if self.message else self.reason


def job_of(workload: Workload, site: Site, ordinal: int) -> Job:
    """The job that a workload is."""
    local = site.local_queues.get(f"{workload.namespace}/{workload.queue_name}")
    quota, evicted, over = map(workload.condition, ("QuotaReserved", "Evicted", "Finished"))
    waits = next((one for one in workload.conditions if one.type == "QuotaReserved"), None)
    assigned = workload.admission.pod_set_assignments if workload.admission is not None else []
    flavors = {
        flavor for one in assigned for resource, flavor in one.flavors.items() if is_gpu(resource)
    }
    asked: Counter[str] = Counter()
    for one in workload.pod_sets:
        for resource, each in one.template.spec.requests.items():
            asked[resource] += each * one.count
    state = "PENDING" if quota is None else "RUNNING"
    if over is not None:
        state = "FAILED" if over.reason == "Failed" else "COMPLETED"
    created = seconds(workload.creation_timestamp)
    again = seconds(evicted.last_transition_time) if evicted is not None else 0.0
    owner = next(iter(workload.owner_references), None)
    images = [c.image for one in workload.pod_sets for c in one.template.spec.containers]
    return Job(
        key=workload.key,
        ordinal=ordinal,
        submit=max(created, again) if state == "PENDING" else created,
        name=owner.name if owner is not None else workload.name,
        kind=owner.kind if owner is not None else "",
        user=workload.namespace,
        account=workload.queue_name,
        cluster_queue=local.cluster_queue if local is not None else "",
        qos=workload.priority_class_ref.get("name") or workload.priority_class_name,
        state=state,
        reason=waits.reason if waits is not None and state == "PENDING" else "",
        message=waits.message if waits is not None and state == "PENDING" else "",
        restarts=sum(one.count for one in workload.scheduling_stats.evictions),
        limit_seconds=workload.maximum_execution_time_seconds,
        start=seconds(quota.last_transition_time) or None if quota is not None else None,
        end=seconds(over.last_transition_time) if over is not None else None,
        nodes=tuple(sorted(flavors)),
        cpus=asked["cpu"] / 1000.0,
        asked=sum(each for name, each in asked.items() if is_gpu(name)) / 1000.0,
        image=images[0] if images else "",
        active=workload.active,
    )


@dataclass(frozen=True, slots=True)
class FlavorNodes:
    """The nodes of a flavour, as one: Kueue tells flavours of workloads, not nodes."""

    name: str
    gpus: Mapping[str, int]
    features: tuple[str, ...] = ()
    usable: bool = True
    down: bool = False


@dataclass(frozen=True)
class Snapshot(attach.Snapshot[Job]):
    """All that a poll saw of a cluster with Kueue."""

    site: Site = field(default_factory=Site)


@dataclass(frozen=True)
class AttachedSite:
    """A cluster whose Kueue is followed."""

    cluster: str
    site: Site
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Kueue, whose version its objects do not tell."""
        return "Kueue"

    @property
    def about(self) -> str:
        """Its queues, flavours and GPUs in words."""
        site = self.site
        gpus = sum(self._gpus.values())
        return (
            f"{len(site.queues)} ClusterQueues, {len(site.flavors)} flavours,"
            f" quotas of {gpus:g} GPUs"
        )

    @cached_property
    def _gpus(self) -> dict[str, float]:
        """Nominal quotas of GPUs by flavour."""
        return _nominal((*self.site.queues.values(), *self.site.cohorts.values()))

    def tree_of(self, queue: str) -> str:
        """The root of a ClusterQueue's cohorts; itself without one."""
        return self._roots[queue]

    @cached_property
    def _roots(self) -> dict[str, str]:
        return {name: node.root.name for name, node in self.site.ledger().queues.items()}

    @property
    def pools(self) -> tuple[Pool, ...]:
        """ClusterQueues with a quota of GPUs."""
        own = ((one.name, sum(_nominal([one]).values())) for one in self.site.queues.values())
        return tuple(Pool(name, gpus) for name, gpus in own if gpus)

    @property
    def shown(self) -> tuple[FlavorNodes, ...]:
        """The flavours, with the GPUs of their nodes; where nodes are not known, of their quotas."""
        found = []
        for flavor in self.site.flavors.values():
            gpus = sum(node.gpus // 1000 for node in self.site.nodes_of(flavor))
            gpus = gpus or round(self._gpus.get(flavor.name, 0.0))
            if gpus:
                labels = flavor.node_labels.items()
                named = tuple(sorted(f"{name}={value}" for name, value in labels))
                found.append(FlavorNodes(flavor.name, {flavor.name: gpus}, named))
        return tuple(found)

    @property
    def launch_seconds(self) -> float:
        """Seconds by which times of workloads that start at once are off."""
        return 20.0

    def at(self, snapshot: Snapshot) -> "AttachedSite":
        """The site with the objects that a snapshot saw."""
        return replace(self, site=replace(snapshot.site, configuration=self.site.configuration))

    def limit_of(self, job: Job) -> float | None:
        """``maximumExecutionTimeSeconds``."""
        return job.limit_seconds

    def groups(self, job: Job) -> list[attach.Group]:
        """Run times are alike by the kind and name of the owner, by image and limit, then by namespace."""
        named = job.user, job.kind, _NUMBERED.sub("", job.name)
        return [
            (*named, job.image, job.limit_seconds),
            named,
            (job.user, job.image),
            (job.user,),
            (),
        ]

    def kinds(self, job: Job) -> tuple[str, ...]:
        """Times are alike by Kueue's reason and priority class, and by queue where there are not too many."""
        first = "runs" if job.running else f"waits {job.reason}"
        found = first, f"class {job.qos}"
        return found if len(self.site.queues) > _QUEUES_APART else (*found, job.queue)


_QUEUES_APART = 50
"""Queues of a site up to which each is a class of its own: of more, few events of each are known."""


def _nominal(owners: Iterable[Any]) -> dict[str, float]:
    """Nominal quotas of GPUs of queues and cohorts, by flavour."""
    found: Counter[str] = Counter()
    for owner in owners:
        for group in owner.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    if is_gpu(quota.name):
                        found[flavor.name] += amount(quota.name, quota.nominal_quota)
    return {name: each / 1000.0 for name, each in found.items()}
