"""A site out of a folder of YAML and JSON: manifests, or what ``kubectl get -o json`` prints."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from volvelle.incumbents.kueue.api import KINDS, read
from volvelle.incumbents.kueue.cycle import Configuration
from volvelle.incumbents.kueue.fair_sharing import STRATEGIES
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.topology import HOST
from volvelle.model.extras import install
from volvelle.model.problems import Problem

MENTIONED = (
    "Write it with: kubectl get clusterqueues,cohorts,localqueues,resourceflavors,topologies,"
    "workloadpriorityclasses,workloads,namespaces,nodes -A -o json"
)


class Document(NamedTuple):
    """An object as it is written, and the file that has it."""

    content: dict[str, Any]
    where: str

    @property
    def kind(self) -> str:
        """Its kind; empty where it names none."""
        return str(self.content.get("kind") or "")


def documents_at(path: Path) -> list[Document]:
    """The objects of a file, or of all JSON and YAML files below a folder. Raises `Problem`."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in (".json", ".yaml", ".yml"))
    elif path.is_file():
        files = [path]
    else:
        raise Problem(f"there is no file or folder {path}", mend="check the path", usage=True)
    return [one for file in files for one in _documents(file)]


def _documents(file: Path) -> Iterator[Document]:
    try:
        text = file.read_text(encoding="utf-8")
        contents = [json.loads(text)] if file.suffix == ".json" else list(_yaml(text))
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise Problem(f"{file} cannot be read: {said}", mend="export it again") from None
    for content in contents:
        yield from _unpacked(content, str(file))


def _yaml(text: str) -> Iterator[Any]:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem(
            "reading YAML needs PyYAML", mend=f"export JSON, or say {install('live')}"
        ) from None
    try:
        yield from yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace(' in "<unicode string>",', " in")) from None


def _unpacked(content: object, where: str) -> Iterator[Document]:
    """The objects of a list, or the object itself."""
    if content is None:
        return
    if isinstance(content, dict) and str(content.get("kind", "")).endswith("List"):
        for one in content.get("items") or []:
            yield from _unpacked(one, where)
    elif isinstance(content, dict):
        for part in ("metadata", "spec", "status"):
            if not isinstance(content.get(part) or {}, dict):
                raise Problem(
                    f"{where}: {part} of a {content.get('kind', 'document')} is no object",
                    mend="give what kubectl get -o json prints",
                )
        yield Document(content, where)
    else:
        raise Problem(f"{where} holds no object", mend="give what kubectl get -o json prints")


def site_of(documents: Iterable[Document]) -> Site:
    """The site that objects describe. Raises `Problem` for objects that cannot be read, or no queue."""
    there, found = list(documents), dict[str, list[Any]]()
    for one in there:
        if one.kind in KINDS:
            name = (one.content.get("metadata") or {}).get("name", "")
            where = f"{one.where}: {one.kind} {name}".rstrip()
            found.setdefault(one.kind, []).append(read(one.kind, one.content, where))
    if not found.get("ClusterQueue"):
        raise Problem("there is no ClusterQueue", mend=MENTIONED)
    site = Site.of(found, configuration_of(there))
    site.ledger()
    return site


def configuration_of(documents: Iterable[Document]) -> Configuration:
    """Kueue's Configuration; its defaults where no document has it."""
    found = [one for each in documents if (one := settings_of(each)) is not None]
    return _configured(found[-1]) if found else Configuration()


def settings_of(document: Document) -> Mapping[str, Any] | None:
    """Kueue's Configuration, as itself or within its ConfigMap; None where a document is neither."""
    content = document.content
    if document.kind == "Configuration":
        return content
    if document.kind == "ConfigMap":
        for text in (content.get("data") or {}).values():
            if "config.kueue.x-k8s.io" in str(text):
                settings: Mapping[str, Any] = next(_yaml(str(text)))
                return settings
    return None


GATES = {
    "PartialAdmission": "partial",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "recompute",
    "PrioritySortingWithinCohort": "by_priority",
}
"""The feature gates that are heeded, with the names that `Configuration` has for them."""


def _configured(settings: Mapping[str, Any]) -> Configuration:
    sharing = settings.get("fairSharing")
    gates = settings.get("featureGates") or {}
    return Configuration(
        fair=sharing is not None and bool((sharing or {}).get("enable", True)),
        strategies=tuple((sharing or {}).get("preemptionStrategies") or STRATEGIES),
        **{ours: bool(gates.get(theirs, True)) for theirs, ours in GATES.items()},
    )


def dangling(site: Site) -> Iterator[str]:
    """A sentence for each object that refers to one that is not there."""
    for queue in site.queues.values():
        for name in sorted(queue.flavors - site.flavors.keys()):
            yield f"ClusterQueue {queue.name} names flavour {name}, which is not there: it admits nothing"
    for local in site.local_queues.values():
        if local.cluster_queue not in site.queues:
            yield (
                f"LocalQueue {local.key} leads to ClusterQueue {local.cluster_queue}, which is not there"
            )
    for flavor in site.flavors.values():
        if flavor.topology_name and flavor.topology_name not in site.topologies:
            yield f"Flavour {flavor.name} names topology {flavor.topology_name}, which is not there"
    said: Counter[str] = Counter()
    levels = {HOST, *site.levels}
    for one in site.workloads:
        key = f"{one.namespace}/{one.queue_name}"
        if not one.queue_name:
            said[f"Workloads of {one.namespace} that name no LocalQueue wait for good"] += 1
        elif key not in site.local_queues:
            said[f"LocalQueue {key} is not there: workloads that name it wait for good"] += 1
        named = one.priority_class_ref.get("name") or one.priority_class_name
        if one.priority is None and named and site.classes and named not in site.classes:
            said[f"Class {named} is not there: workloads that name it have priority 0"] += 1
        for request in (pods.topology_request for pods in one.pod_sets):
            level = request.required or request.preferred
            if level and site.topologies and level not in levels:
                said[f"No topology has level {level}: pods that ask for it find no place"] += 1
    yield from (f"{sentence} ({count})" for sentence, count in said.items())
