"""Entries of the controller: out of what Slurm says of a job, or of a job that a trace declares."""

import re
from collections.abc import Mapping

from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.entries import FOREVER, Entry
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.shapes import CPUS, GPUS, Share
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.model.job import JobSpec

LONG = 365.0 * 86400.0
"""The limit of a job of which nothing says one, seconds."""


def entry_of(
    number: int, job: Job, rules: Rules, now: float, after: frozenset[str] = frozenset()
) -> Entry:
    """The entry of a job that comes now. Partitions that the site does not have are left out."""
    partitions = tuple(
        rules.partitions[name] for name in job.partitions if name in rules.partitions
    )
    most = max((one.max_seconds or FOREVER for one in partitions), default=FOREVER)
    limit = job.limit_seconds
    if limit is None:
        default = partitions[0].default_seconds if partitions else None
        limit = default or (most if most < FOREVER else LONG)
    fits = tuple(one for one in partitions if limit <= (one.max_seconds or FOREVER))
    eligible = now
    if job.pending and job.eligible is not None:
        eligible = max(job.eligible, now)
    if job.pending and job.reason == "BeginTime" and job.start is not None:
        eligible = max(eligible, job.start)
    accrue = job.accrue if job.accrue is not None else eligible
    given = job.priority if job.pending and job.priority else None
    return Entry(
        number=number,
        job=job,
        limit=limit,
        partitions=fits,
        eligible=eligible,
        accrue=accrue,
        held=job.pending and (job.held_back or job.priority == 0.0),
        after=after,
        fixed_priority=given,
    )


def dependencies(job: Job, records: Mapping[str, Job]) -> frozenset[str]:
    """Keys of the jobs that have to end before ``job`` comes into question (sbatch(1), ``--dependency``)."""
    found: set[str] = set()
    for kind, number, task in re.findall(r"(after\w*):(\d+)(?:_(\d+|\*))?", job.dependency):
        if kind == "after":
            continue
        if task and task != "*":
            found.add(f"{number}_{task}")
        elif number in records:
            found.add(number)
        else:
            found.update(key for key in records if key.startswith(f"{number}_"))
    return frozenset(found)


def on_nodes(entry: Entry, controller: Controller) -> list[Share]:
    """The resources of a running job on each of its nodes: Slurm tells the nodes, and the sum of all."""
    hardware, job = controller.rules.hardware, entry.job
    nodes = [hardware.number[name] for name in job.nodes if name in hardware.number]
    if not nodes:
        return []
    cpus = job.held.get("cpu", job.cpus) / len(nodes)
    memory = job.held.get("mem", 0.0) / len(nodes)
    gpus = job.gpus
    found = []
    for at, node in enumerate(nodes):
        most = min(float(hardware.capacity[GPUS, node]), gpus - (len(nodes) - at - 1))
        by_node = sum(job.per_node.values()) if job.per_node else most
        own = max(min(most, by_node if not entry.job.exclusive else most), 0.0)
        if at == len(nodes) - 1:
            own = min(gpus, float(hardware.capacity[GPUS, node]))
        gpus -= own
        found.append(Share(node, min(cpus, float(hardware.capacity[CPUS, node])), memory, own))
    return found


def job_of_spec(spec: JobSpec, rules: Rules, said: Job | None = None) -> Job:
    """A job that only a trace declares: its queues are partitions, its pool is an account.

    said: the array, throttle, licences and reservation that Slurm's accounting has of it beside.

    Of a job that names no partition of the site, or no QOS, the default counts. Its limit is at most the
    longest of its partitions, since it was accepted. Its priority is what its user adds (``--nice`` below 0).
    """
    site, nodes = rules.site, max(spec.nodes, 1)
    usual = next((one.name for one in site.partitions if one.default), site.partitions[0].name)
    queues = tuple(one for one in spec.queues if one in rules.partitions) or (usual,)
    longest = max(rules.partitions[one].max_seconds or FOREVER for one in queues)
    limit = spec.time_limit_seconds or spec.estimate_seconds
    cpus, memory = max(spec.cpus, float(nodes)), spec.memory_gb * 1024.0
    asked = {"cpu": cpus, "mem": memory, "node": float(nodes), "gres/gpu": spec.gpus}
    kind = f":{spec.gpu_types[0]}" if len(spec.gpu_types) == 1 else ""
    if kind:
        asked[f"gres/gpu{kind}"] = spec.gpus
    evenly = spec.nodes > 0 and spec.gpus % nodes == 0.0
    gpus = {f"gres/gpu{kind}": spec.gpus / nodes if evenly else spec.gpus}
    digits = re.match(r"\d+", spec.id)
    return Job(
        key=spec.id,
        id=int(digits[0]) if digits else 0,
        submit=spec.submit_time,
        name=spec.name,
        user=spec.user,
        account=spec.pool,
        qos=spec.qos or rules.usual_qos.get((spec.pool, spec.user), ""),
        partitions=queues,
        nice=-float(spec.priority),
        limit_seconds=limit and min(limit, longest),
        least_nodes=nodes,
        most_nodes=nodes,
        cpus=cpus,
        tasks=nodes,
        cpus_per_task=cpus / nodes,
        memory_per_cpu=memory / cpus or None,
        asked=asked,
        per_node=gpus if evenly else {},
        per_job={} if evenly else gpus,
        exclusive=spec.exclusive,
        array=said.array if said else None,
        task=said.task if said else None,
        throttle=said.throttle if said else None,
        reservation=said.reservation if said else "",
        licences={name: n for name, n in said.licences.items() if name in site.licences}
        if said
        else {},
    )
