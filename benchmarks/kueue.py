"""A forecast of 10,000 workloads in 500 ClusterQueues with Kueue: python benchmarks/kueue.py [POLLS]

CPU seconds to read a poll and to tell all its workloads, of which 2,000 run and 8,000 wait; the goal is 5 s a
forecast. The queues are in cohorts of ten with a parent each, or all in one, where each change concerns them
all. The baseline of the same run is a poll in which nothing waits: what reading and learning cost alone.
"""

import argparse
import time
from typing import Any

import numpy as np
from measure import peak_megabytes

from volvelle.incumbents.attach.session import Replay
from volvelle.incumbents.kueue.api import KINDS
from volvelle.incumbents.kueue.attach import incumbent
from volvelle.incumbents.kueue.topology import HOST

QUEUES, RUNNING, WAITING = 500, 2000, 8000
GPU = "nvidia.com/gpu"
NOON = 1793534400.0
"""2026-11-01 12:00 UTC."""
LIMIT_SECONDS = 5.0
Object = dict[str, Any]


def objects(cohorts: int, waiting: int, *, preempts: bool) -> dict[str, list[Object]]:
    """A poll: queues of 16 GPUs, of which four jobs of four run; jobs of 1 to 8 GPUs wait."""
    policy = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    quotas = [{"name": "a100", "resources": [{"name": GPU, "nominalQuota": 16}]}]
    found: dict[str, list[Object]] = {kind: [] for kind in KINDS}
    for at in range(QUEUES):
        spec: Object = {
            "cohortName": f"cohort-{at % cohorts}",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": quotas}],
        } | ({"preemption": policy} if preempts else {})
        name = f"q{at:03}"
        local = {"name": "gpus", "namespace": name}
        found["ClusterQueue"].append(
            {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        )
        found["LocalQueue"].append(
            {"kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}}
        )
        found["Namespace"].append({"kind": "Namespace", "metadata": {"name": name}})
    found["ResourceFlavor"] = [{"kind": "ResourceFlavor", "metadata": {"name": "a100"}, "spec": {}}]
    rng = np.random.default_rng(0)
    for number in range(RUNNING + waiting):
        runs, queue = number < RUNNING, f"q{number % QUEUES:03}"
        gpus = 4 if runs else int(rng.choice([1, 2, 4, 8]))
        found["Workload"].append(workload(number, queue, gpus, runs=runs))
    return found


def workload(number: int, queue: str, gpus: int, *, runs: bool) -> Object:
    """A workload of one pod."""
    created = f"2026-11-01T{8 + number // 3000:02}:{number // 50 % 60:02}:{number % 50:02}Z"
    containers = [{"image": f"train{number % 7}", "resources": {"requests": {GPU: gpus}}}]
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}
    reserved = {"type": "QuotaReserved", "status": "True" if runs else "False"}
    reserved |= {"reason": "" if runs else "WaitingForQuota", "lastTransitionTime": created}
    status: Object = {"conditions": [reserved]}
    if runs:
        usage = {"flavors": {GPU: "a100"}, "resourceUsage": {GPU: gpus}, "count": 1}
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": [usage]}
    metadata = {"name": f"train-{number}", "namespace": queue, "uid": f"{number:08}"}
    return {
        "kind": "Workload",
        "metadata": metadata | {"creationTimestamp": created},
        "spec": {
            "queueName": "gpus",
            "podSets": [pods],
            "maximumExecutionTimeSeconds": 3600 * (1 + number % 12),
        },
        "status": status,
    }


def in_racks(seen: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """The same on 1,000 nodes of eight GPUs in racks of 16, of which each workload prefers one."""
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]
    seen["Topology"] = [{"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}]
    seen["ResourceFlavor"][0]["spec"]["topologyName"] = "t"
    for at in range(RUNNING // 2):
        metadata = {"name": f"n{at:04}", "labels": {"rack": f"r{at // 16:02}"}}
        seen["Node"].append(
            {"kind": "Node", "metadata": metadata, "status": {"capacity": {GPU: 8}}}
        )
    for number, one in enumerate(seen["Workload"]):
        one["spec"]["podSets"][0]["topologyRequest"] = {"preferred": "rack"}
        for assigned in (one["status"].get("admission") or {}).get("podSetAssignments", ()):
            domain = {"values": [f"n{number // 2:04}"], "count": 1}
            assigned["topologyAssignment"] = {"levels": [HOST], "domains": [domain]}
    return seen


def tell(name: str, polls: int, seen: dict[str, list[Object]]) -> None:
    """Print what each poll costs."""
    leads = Replay(incumbent())
    leads.feed({"t": NOON, "site": {"cluster": {"name": "large"}}})
    for poll in range(polls):
        begun = time.process_time()
        leads.feed({"t": NOON + 60.0 * poll, "poll": seen})
        read = time.process_time()
        assert leads.follower is not None
        told = leads.follower.tell()
        now = time.process_time()
        print(
            f"{name:28} poll {poll}: {now - begun:6.2f} s CPU (limit {LIMIT_SECONDS:g} s),"
            f" {read - begun:.2f} to read, {now - read:.2f} to tell {len(told):,} workloads;"
            f" {peak_megabytes():.0f} MB peak",
            flush=True,
        )


def main() -> None:
    """Print a line for each poll of each shape of cohorts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("polls", nargs="?", type=int, default=2)
    polls = parser.parse_args().polls
    tell("nothing waits (baseline)", polls, objects(50, 0, preempts=False))
    tell("50 cohorts", polls, objects(50, WAITING, preempts=False))
    tell("50 cohorts, in racks", polls, in_racks(objects(50, WAITING, preempts=False)))
    tell("50 cohorts, preemption", polls, objects(50, WAITING, preempts=True))
    tell("one cohort", polls, objects(1, WAITING, preempts=False))
    tell("one cohort, preemption", polls, objects(1, WAITING, preempts=True))
    tell("the same in racks", polls, in_racks(objects(1, WAITING, preempts=True)))


if __name__ == "__main__":
    main()
