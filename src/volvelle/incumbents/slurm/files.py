"""The site of a simulation: as it is described, or one partition with all nodes of the simulated cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from volvelle.incumbents.slurm.read_jobs import past_reservations
from volvelle.incumbents.slurm.site import (
    Association,
    Config,
    Limits,
    Node,
    Partition,
    Reservation,
    Site,
)
from volvelle.incumbents.slurm.site_file import site_at
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.incumbents.slurm.unmodelled import jobs_of_sacct
from volvelle.model import node as model
from volvelle.model.problems import Problem

_ASKED = "sacct -a -D -X -P -o JobIDRaw,JobID,Submit,Eligible,Reservation,ReqTRES,SubmitLine"
"""The command that writes what a trace lacks of its jobs."""


def site_of(path: str, nodes: Sequence[model.Node], quotas: Mapping[str, float]) -> Site:
    """The site that is described at a path; without one, a site of the cluster's nodes.

    quotas: GPUs by pool, which are limits of accounts where there is no path.

    Raises `Problem` for a path that describes none, and for nodes of the site that the simulated cluster does
    not have.
    """
    if not path:
        return _plain(nodes, quotas)
    site = site_at(Path(path))
    known = {node.name: node for node in nodes}
    for node in site.nodes:
        there = known.get(node.name)
        if there is None or there.gpus < sum(node.gpus.values()):
            raise Problem(
                f"{path} has node {node.name} with {sum(node.gpus.values())} GPUs,"
                " and the simulated cluster does not",
                mend="write its site.toml with volvelle site import slurm, and give --cluster site.toml",
            )
    return site


class Requests(NamedTuple):
    """The part of accounting that a trace lacks: its jobs, by JobIDRaw, and reservations of the time."""

    jobs: Mapping[str, Job]
    reservations: tuple[Reservation, ...]


@lru_cache(8)
def requests_at(jobs: str, reservations: str) -> Requests:
    """The requests in tables of ``sacct`` and ``sacctmgr``, which may be none (an empty path).

    Of a job with several rows the first submission counts. Reservations that the table lacks are left out.
    Raises `Problem` for tables that are none, and for reservations without the times of jobs.
    """
    found: dict[str, Job] = {}
    for job in jobs_of_sacct(_text(jobs, "jobs")) if jobs else ():
        if job.key not in found or job.submit < found[job.key].submit:
            found[job.key] = job
    if jobs and not found:
        raise Problem(f"{jobs} has no job of Slurm's accounting", mend=f"write it with {_ASKED}")
    kept = tuple(past_reservations(_text(reservations, "reservations"))) if reservations else ()
    if reservations and not kept:
        raise Problem(
            f"{reservations} has no reservation of Slurm's accounting",
            mend="write it with sacctmgr -P show reservation start=now-30days"
            " format=name,start,end,nodenames",
        )
    if kept and not any(job.submit for job in found.values()):
        raise Problem(
            "nothing says when the reservations are on the trace's clock: jobs= lacks Submit",
            mend=f"write it with {_ASKED}",
        )
    names = {one.name for one in kept}
    known = {
        key: job if job.reservation in names else replace(job, reservation="")
        for key, job in found.items()
    }
    return Requests(known, kept)


def _text(path: str, name: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}", mend=f"check {name}=") from None


def _plain(nodes: Sequence[model.Node], quotas: Mapping[str, float]) -> Site:
    """A site of these nodes before anything is configured but backfill and GPUs; pools are accounts."""
    there = tuple(
        Node(node.name, 1e6, 1e9, {node.gpu_type: node.gpus}, partitions=("all",)) for node in nodes
    )
    accounts = tuple(
        Association(pool, parent="root", limits=Limits(group={"gres/gpu": quota}))
        for pool, quota in quotas.items()
    )
    everything = Partition("all", tuple(node.name for node in nodes), default=True)
    keys = {"PriorityType": "priority/basic", "SchedulerType": "sched/backfill"}
    return Site("cluster", "", Config(keys), there, (everything,), associations=accounts)
