"""``site.toml``: a site in one file, which is also the cluster file of its nodes (``--cluster site.toml``).

``[[nodes]]`` are those of any cluster file. ``kueue.objects`` are the objects of the API that decide, less
what changes by itself: there a quota is changed to ask what if.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from volvelle.incumbents.kueue.amounts import amount, is_gpu
from volvelle.incumbents.kueue.api import KINDS, given
from volvelle.incumbents.kueue.objects import Node
from volvelle.incumbents.kueue.read_site import Document, documents_at, settings_of, site_of
from volvelle.incumbents.kueue.site import Site
from volvelle.model.problems import Problem
from volvelle.model.toml import read_toml, toml

GPUS_A_NODE = 8
"""GPUs of nodes that are made up, where a site's own were not read."""

_PRODUCT = "nvidia.com/gpu.product"


def site_at(path: Path) -> Site:
    """The site described at a path: ``site.toml``, or JSON and YAML of its objects. Raises `Problem`."""
    if path.suffix != ".toml":
        return site_of(documents_at(path))
    table = read_toml(path, "site file").get("kueue")
    if not isinstance(table, dict) or not isinstance(table.get("objects"), list):
        raise Problem(
            f"{path} has no kueue.objects", mend="write it with volvelle site import kueue"
        )
    return site_of(Document(one, str(path)) for one in table["objects"])


def cluster_nodes(site: Site) -> tuple[list[dict[str, Any]], list[str]]:
    """The nodes of a site's cluster file, and what there is to say of them."""
    nodes = [one for node in site.nodes.values() if (one := _cluster_node(node, site))["gpus"]]
    if nodes:
        without = len(site.nodes) - len(nodes)
        return nodes, [f"{without} nodes without GPUs are left out"] if without else []
    gpus: dict[str, int] = {}
    for owner in (*site.queues.values(), *site.cohorts.values()):
        for group in owner.resource_groups:
            for flavor in group.flavors:
                for quota in filter(lambda one: is_gpu(one.name), flavor.resources):
                    more = amount(quota.name, quota.nominal_quota) // 1000
                    gpus[flavor.name] = gpus.get(flavor.name, 0) + more
    for name, count in gpus.items():
        labels = site.flavors[name].node_labels if name in site.flavors else {}
        sizes = [GPUS_A_NODE] * (count // GPUS_A_NODE) + [count % GPUS_A_NODE]
        for at, size in enumerate(filter(None, sizes)):
            node = {"name": f"{name}-{at}", "gpus": size, "gpu_type": name}
            nodes.append(node | ({"labels": _labels(labels)} if labels else {}))
    said = (
        f"No nodes were read: {len(nodes)} nodes of up to {GPUS_A_NODE} GPUs stand for the quotas"
    )
    return nodes, [said]


def _cluster_node(node: Node, site: Site) -> dict[str, Any]:
    has = {name: amount(name, one) / 1000 for name, one in node.capacity.items()}
    flavors = [
        one for one in site.flavors.values() if one.node_labels.items() <= node.labels.items()
    ]
    named = [one.name for one in flavors if one.node_labels]
    kind = node.labels.get(_PRODUCT) or (named or [one.name for one in flavors] or [""])[0]
    keys = {key for one in site.flavors.values() for key in one.node_labels}
    domains = {level: node.labels[level] for level in site.levels if level in node.labels}
    labels = {key: value for key, value in node.labels.items() if key in keys}
    entry: dict[str, Any] = {"name": node.name, "gpus": int(sum(has[n] for n in has if is_gpu(n)))}
    entry |= {"gpu_type": kind} if kind else {}
    entry |= {"cpus": has.get("cpu", 0.0), "memory_gb": has.get("memory", 0.0) / 1024**3}
    entry |= {"labels": _labels(labels)} if labels else {}
    return entry | ({"domains": domains} if domains else {})


def _labels(labels: Mapping[str, str]) -> list[str]:
    return sorted(f"{name}={value}" for name, value in labels.items())


def written_site(
    documents: Iterable[Document],
    site: Site,
    nodes: Iterable[Mapping[str, Any]],
    remarks: Iterable[str],
) -> str:
    """The text of a ``site.toml``, with remarks as comments at its top."""
    lines = ["# A site with Kueue, written by volvelle site import kueue. Beside each other:"]
    lines += [
        "# volvelle compare trace.csv --cluster site.toml --policy kueue:site=site.toml --policy easy"
    ]
    lines += [f"# {remark}" for remark in remarks]
    lines += [f"levels = {toml([{'name': level} for level in site.levels])}"] * bool(site.levels)
    lines += ["nodes = [", *(f"  {toml(dict(node))}," for node in nodes), "]", "", "[kueue]"]
    kept = [one for document in documents if (one := _kept(document))]
    return "\n".join([*lines, "objects = [", *(f"  {toml(one)}," for one in kept), "]"]) + "\n"


def _kept(document: Document) -> dict[str, Any]:
    """An object without what does not decide; nothing of those that change by themselves."""
    if (settings := settings_of(document)) is not None:
        kept = {key: settings.get(key) for key in ("fairSharing", "featureGates")}
        return {"kind": "Configuration"} | given({k: v for k, v in kept.items() if v is not None})
    if document.kind not in KINDS or document.kind in ("Workload", "Node"):
        return {}
    content = document.content
    metadata = content.get("metadata") or {}
    named = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    found = {"apiVersion": content.get("apiVersion"), "kind": document.kind, "metadata": named}
    return given(found | {key: content[key] for key in ("spec", "value") if key in content})
