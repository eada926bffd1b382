"""The site of a simulation: by its files, or one partition with all nodes of the simulated cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from volvelle.incumbents.slurm.read_site import kind_of, read_site
from volvelle.incumbents.slurm.site import Association, Config, Limits, Node, Partition, Site
from volvelle.model import node as model
from volvelle.model.problems import Problem


def site_of_files(
    config: str, accounts: str, nodes: Sequence[model.Node], quotas: Mapping[str, float]
) -> Site:
    """The site that slurm.conf and answers of sacctmgr describe; without a file, one of the cluster's nodes.

    quotas: GPUs by pool, which are limits of accounts where there is no file.

    Raises `Problem` for a file that is not there or none of Slurm's, and for nodes of the site that the
    simulated cluster does not have.
    """
    if not config:
        return _plain(nodes, quotas)
    texts = {}
    for written in filter(None, (config, *accounts.split("+"))):
        path = Path(written)
        if not path.is_file():
            raise Problem(f"there is no file {path}", mend="check the path", usage=True)
        text = path.read_text(encoding="utf-8", errors="replace")
        kind = kind_of(text)
        if not kind:
            raise Problem(
                f"{path} is no answer of Slurm that is known",
                mend="give slurm.conf, and what sacctmgr dump or sacctmgr -P show qos says",
            )
        texts[kind] = text
    site = read_site(texts)
    known = {node.name: node for node in nodes}
    for node in site.nodes:
        there = known.get(node.name)
        if there is None or there.gpus < sum(node.gpus.values()):
            raise Problem(
                f"{config} has node {node.name} with {sum(node.gpus.values())} GPUs,"
                " and the simulated cluster does not",
                mend="give a cluster file with the same nodes",
            )
    return site


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
