"""A cluster whose Kueue is our policy, with run times that only the simulation knows, to try attach on.

Three teams of a cohort and a queue of its own ask for GPUs of two flavours. A project of a team submits jobs
that are alike: their names are numbered, their run times are lognormal about the project's own. Some declare
``maximumExecutionTimeSeconds``, most do not, as on real clusters. With a topology nodes are in racks, and
projects of several pods require or prefer one.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from volvelle.incumbents.kueue.amounts import seconds
from volvelle.incumbents.kueue.api import KINDS, read
from volvelle.incumbents.kueue.books import Books
from volvelle.incumbents.kueue.cycle import Configuration
from volvelle.incumbents.kueue.own import Own
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.topology import HOST

GPU = "nvidia.com/gpu"
BEGIN = 1793534400.0
"""2026-11-01 12:00 UTC."""
RACK = "rack"
KEPT = 1800.0
"""Seconds for which finished workloads are shown."""
Object = dict[str, Any]


def written(moment: float) -> str:
    """A moment as the API writes it: whole seconds."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def queue(name: str, cohort: str, quotas: dict[str, Object], **spec: Any) -> Object:
    """A ClusterQueue with quotas of GPUs by flavour."""
    flavors = [
        {"name": flavor, "resources": [{"name": GPU} | quota]} for flavor, quota in quotas.items()
    ]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    usual = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": groups}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": usual | spec}


def laboratory(topology: str = "") -> list[Object]:
    """Its queues, flavours, classes and nodes: 56 GPUs, of which three teams lend each other 40.

    topology: the name of that of racks of two nodes; empty: none.
    """
    reclaims = {"preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}
    queues = [
        queue("vision", "research", {"a100": {"nominalQuota": 16}, "h100": {"nominalQuota": 8}}, **reclaims),
        queue("language", "research", {"a100": {"nominalQuota": 8, "lendingLimit": 4}}, **reclaims),
        queue("speech", "research", {"a100": {"nominalQuota": 8, "borrowingLimit": 8}}),
        queue("robots", "", {"h100": {"nominalQuota": 16}}, queueingStrategy="StrictFIFO"),
    ]  # fmt: skip
    teams = [one["metadata"]["name"] for one in queues]
    local = [
        {
            "kind": "LocalQueue",
            "metadata": {"name": "gpus", "namespace": team},
            "spec": {"clusterQueue": team},
        }
        for team in teams
    ]
    flavors = [
        {
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"gpu": name}, "topologyName": topology},
        }
        for name in ("a100", "h100")
    ]
    nodes = [
        {
            "kind": "Node",
            "metadata": {
                "name": f"{name}-{at}",
                "labels": {"gpu": name, RACK: f"{name}-{at // 2}", HOST: f"{name}-{at}"},
            },
            "status": {"capacity": {GPU: "8"}},
        }
        for name, count in (("a100", 4), ("h100", 3))
        for at in range(count)
    ]
    classes = [
        {"kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("usual", 0), ("urgent", 100))
    ]
    names = [{"kind": "Namespace", "metadata": {"name": team}} for team in teams]
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}
    racks = [{"kind": "Topology", "metadata": {"name": topology}, "spec": levels}] * bool(topology)
    return [*names, *queues, *local, *flavors, *nodes, *classes, *racks]


@dataclass(frozen=True)
class Project:
    """Jobs that are alike. share: of a team's arrivals. rack: whether pods require one, or prefer it."""

    name: str
    gpus: int
    pods: int
    seconds: float
    spread: float
    share: float
    limit: float | None = None
    urgent: bool = False
    rack: str = ""


PROJECTS = (
    Project("train-resnet", 4, 1, 1200.0, 0.3, 0.25),
    Project("finetune", 8, 1, 2400.0, 0.5, 0.15, limit=7200.0),
    Project("sweep", 1, 1, 450.0, 0.4, 0.4),
    Project("eval", 1, 1, 150.0, 0.6, 0.15, urgent=True),
    Project("pretrain", 4, 2, 3600.0, 0.4, 0.05),
)
OF_RACKS = (
    *PROJECTS[:-1],
    Project("pretrain", 4, 3, 3600.0, 0.4, 0.05, rack="required"),
    Project("tune", 2, 4, 900.0, 0.4, 0.1, rack="preferred"),
)
"""With a topology."""


@dataclass
class Workload:
    """A workload of the simulation, with the run time that only it knows."""

    document: Object
    seconds: float
    number: int
    starts: list[float] = field(default_factory=list)
    evictions: list[float] = field(default_factory=list)
    end: float | None = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.document['metadata']['namespace']}/{self.document['metadata']['name']}"


class SimulatedKueue:
    """The cluster, asked as attach asks: each poll is so many seconds after the one before."""

    def __init__(
        self,
        seed: int = 0,
        every: float = 60.0,
        load: float = 1.0,
        arrivals_until: float = np.inf,
        *,
        topology: bool = False,
    ) -> None:
        """arrivals_until: seconds from the beginning after which no workload arrives."""
        self.objects = laboratory("racks" if topology else "")
        self._projects = OF_RACKS if topology else PROJECTS
        self.time, self._every = BEGIN, every
        self._coming = self._arrivals(np.random.default_rng(seed), load, BEGIN + arrivals_until)
        self._next = next(self._coming, None)
        by_kind: dict[str, list[Any]] = {}
        for one in self.objects:
            by_kind.setdefault(one["kind"], []).append(read(one["kind"], one, "here"))
        self._site = Site.of(by_kind, Configuration())
        places, kinds = Own.of(self._site, BEGIN).places, dict.fromkeys(self._site.flavors, 1)
        self._books = Books(self._site, kinds, places=places, unit=1.0)
        self.workloads: dict[int, Workload] = {}
        self._ends: list[tuple[float, int, float]] = []
        """When jobs end, with their start: one that was stopped since is no longer due."""

    def _arrivals(
        self, rng: np.random.Generator, load: float, until: float
    ) -> Iterator[tuple[float, Workload]]:
        """Workloads as they come, for ever."""
        teams = ("vision", "language", "speech", "robots")
        projects = self._projects
        work = sum(p.share * p.gpus * p.pods * p.seconds for p in projects)
        rate, now, number = 56.0 * load / work, BEGIN, 0
        shares = np.array([p.share for p in projects])
        pace = {(team, p.name): rng.lognormal(0.0, 0.4) for team in teams for p in projects}
        while True:
            now += rng.exponential(1.0 / rate)
            if now > until:
                return
            number += 1
            team = str(rng.choice(teams, p=[0.4, 0.2, 0.15, 0.25]))
            project = projects[int(rng.choice(len(projects), p=shares / shares.sum()))]
            lasts = project.seconds * pace[team, project.name] * rng.lognormal(0.0, project.spread)
            if project.limit is not None:
                lasts = min(lasts, project.limit)
            yield now, Workload(_document(number, team, project, now), float(lasts), number)

    # ------------------------------------------------------------------ time

    def run_until(self, moment: float) -> None:
        """Let jobs come, start, be evicted and end."""
        while True:
            away = min(self._books.away.values(), default=np.inf)
            end = self._ends[0][0] if self._ends else np.inf
            comes = self._next[0] if self._next is not None else np.inf
            when = min(away, end, comes)
            if when > moment:
                break
            self._happen(when)
        self.time = moment

    def _happen(self, now: float) -> None:
        books = self._books
        while self._ends and self._ends[0][0] <= now:
            end, number, start = heapq.heappop(self._ends)
            one = self.workloads[number]
            if one.end is None and number in books.held and one.starts[-1] == start:
                one.end = end
                books.leave(number)
        while self._next is not None and self._next[0] <= now:
            one = self._next[1]
            self.workloads[one.number] = one
            own = Own.of(
                replace(self._site, workloads=(read("Workload", one.document, "here"),)), now
            )
            books.names[one.number] = one.key
            books.enter(one.number, replace(own.workload(one.key)[0], key=str(one.number)), 1, 0)
            self._next = next(self._coming, None)
        before = set(books.held)
        books.schedule(now)
        for number in before - set(books.held):
            self.workloads[number].evictions.append(now)
        for number in set(books.held) - before:
            one = self.workloads[number]
            one.starts.append(now)
            heapq.heappush(self._ends, (now + one.seconds, number, now))

    # ------------------------------------------------------------------ as attach asks

    def site(self) -> dict[str, Any]:
        """The name of the cluster, and its Configuration."""
        return {"cluster": {"name": "laboratory"}, "configuration": [{"kind": "Configuration"}]}

    def poll(self) -> dict[str, Any]:
        """The objects at the next moment, by kind."""
        self.run_until(self.time + self._every)
        return self.shown()

    def shown(self) -> dict[str, Any]:
        """The objects as they are now, by kind."""
        found: dict[str, Any] = {kind: [] for kind in KINDS}
        for one in self.objects:
            found[one["kind"]].append(one)
        for job in self.workloads.values():
            if job.end is None or self.time - job.end < KEPT:
                found["Workload"].append(self._shown(job))
        return found

    def _shown(self, one: Workload) -> Object:
        conditions: list[Object] = []
        status: Object = {"conditions": conditions}
        held = self._books.held.get(one.number)
        if one.evictions:
            status["schedulingStats"] = {
                "evictions": [{"reason": "Preempted", "count": len(one.evictions)}]
            }
        if held is not None or one.end is not None:
            conditions.append(_condition("QuotaReserved", "True", "QuotaReserved", one.starts[-1]))
        elif one.number in self._books.reasons:
            since = (
                one.evictions[-1]
                if one.evictions
                else seconds(one.document["metadata"]["creationTimestamp"])
            )
            reason = self._books.reasons[one.number] or "Pending"
            conditions.append(_condition("QuotaReserved", "False", reason, since))
            if one.evictions:
                conditions.append(_condition("Evicted", "True", "Preempted", one.evictions[-1]))
        if held is not None:
            flavors = {name: flavor for flavor, name in held.holder.usage}
            usage = {name: f"{each}m" for (_, name), each in held.holder.usage.items()}
            (pods,) = one.document["spec"]["podSets"]
            assigned: Object = {"flavors": flavors, "resourceUsage": usage, "count": pods["count"]}
            if nodes := held.holder.nodes:
                size = sum(nodes.values()) // pods["count"]
                assigned["topologyAssignment"] = _assignment(
                    {name: each // size for name, each in nodes.items()}
                )
            status["admission"] = {
                "clusterQueue": held.holder.queue,
                "podSetAssignments": [assigned],
            }
        if one.end is not None:
            conditions.append(_condition("Finished", "True", "Succeeded", one.end))
        return {**one.document, "status": status}


def _condition(kind: str, status: str, reason: str, moment: float) -> Object:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": written(moment)}


def _assignment(pods: dict[str, int]) -> Object:
    """Pods by node, as the API has them."""
    domains: Object = {
        "domainCount": len(pods),
        "valuesPerLevel": [{"individual": {"roots": list(pods)}}],
        "podCounts": {"individual": list(pods.values())},
    }
    return {"levels": [HOST], "slices": [domains]}


def _document(number: int, team: str, project: Project, now: float) -> Object:
    name = f"{project.name}-{number}"
    request = {"requests": {GPU: str(project.gpus)}}
    pods: Object = {
        "name": "main",
        "count": project.pods,
        "template": {
            "spec": {"containers": [{"image": f"{team}/{project.name}", "resources": request}]}
        },
    }
    if project.rack:
        pods["topologyRequest"] = {project.rack: RACK}
    spec: Object = {"queueName": "gpus", "podSets": [pods]}
    if project.limit is not None:
        spec["maximumExecutionTimeSeconds"] = project.limit
    if project.urgent:
        spec["priorityClassRef"] = {"name": "urgent"}
    return {
        "kind": "Workload",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {
            "name": f"job-{name}",
            "namespace": team,
            "uid": f"{number:08}",
            "creationTimestamp": written(now),
            "ownerReferences": [{"kind": "Job", "name": name}],
        },
        "spec": spec,
    }
