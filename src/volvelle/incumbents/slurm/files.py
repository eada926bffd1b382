"""The site of a simulation: as it is described, or one partition with all nodes of the simulated cluster."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from volvelle.incumbents.slurm.site import Association, Config, Job, Limits, Node, Partition, Site
from volvelle.incumbents.slurm.site_file import site_at
from volvelle.incumbents.slurm.unmodelled import jobs_of_sacct
from volvelle.model import node as model
from volvelle.model.problems import Problem


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


@lru_cache(8)
def requests_at(path: str) -> Mapping[str, Job]:
    """The requests of jobs in a table of ``sacct``, by JobIDRaw. Raises `Problem` where there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}", mend="check jobs=") from None
    found = {job.key: job for job in jobs_of_sacct(text)}
    if not found:
        raise Problem(
            f"{path} has no job of Slurm's accounting",
            mend="write it with sacct -a -X -P -o JobIDRaw,JobID,ReqTRES,SubmitLine",
        )
    return found


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
