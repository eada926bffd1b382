"""Kueue as attach sees it: what is kept of its objects, what reads them, and the facets of its site."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volvelle.incumbents.attach.incumbent import Answers, Incumbent, Naive, Records
from volvelle.incumbents.kueue.api import KINDS, given, read
from volvelle.incumbents.kueue.attached_jobs import AttachedSite, Snapshot, job_of
from volvelle.incumbents.kueue.cycle import Configuration
from volvelle.incumbents.kueue.forecast import foresee
from volvelle.incumbents.kueue.objects import Object, Quotas
from volvelle.incumbents.kueue.pods import Workload
from volvelle.incumbents.kueue.quota import quotas_of
from volvelle.incumbents.kueue.read_site import MENTIONED, Document, configuration_of, dangling
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.unmodelled import unmodelled
from volvelle.incumbents.kueue.what_if import changed, examples
from volvelle.model.problems import Problem

_SAID = 5
"""Sentences about objects that cannot be read; of more their number is told."""


def incumbent() -> Incumbent[AttachedSite, Snapshot]:
    """Kueue, read by the objects of its API; a reader of its own remembers what it has read."""
    reader = Reader()
    return Incumbent(
        name="kueue",
        title="Kueue",
        titles={"partition": "queue", "account": "local queue", "qos": "class", "node": "flavour"},
        naive=Naive("average", "BY AVERAGE", "the average wait of the queue", told=False),
        polled=dict.fromkeys(KINDS, "kind"),
        records=_records,
        answer=lambda _, records: list(records.values()),
        kept=lambda _, answer: answer,
        site=reader.site,
        snapshot=reader.snapshot,
        foresee=foresee,
        changed=changed,
        examples=examples,
    )


class Reader:
    """Reads objects of the API; those that are the same as before are not read again."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, tuple[object, Object | None, str]]] = {}
        """By kind and name: a document, the object that it is, or why it is none."""
        self._numbers: dict[str, int] = {}
        """Of workloads, by unique identity, in the order in which they were seen."""

    def site(self, answers: Answers) -> AttachedSite:
        """The site of answers: all kinds of `KINDS`, ``cluster`` with its name, ``configuration``."""
        settings = [Document(one, "Configuration") for one in answers.get("configuration") or []]
        objects = [Document(one, "") for kind in KINDS for one in answers.get(kind) or []]
        kinds = {one.kind for one in objects}
        remarks = [
            *(answers.get("refused") or []),
            *unmodelled([*settings, *objects], of_traces=False),
        ]
        if not settings:
            remarks.append("Kueue's Configuration was not read: fair sharing counts as off")
        if "Namespace" not in kinds:
            remarks.append("Namespaces were not read: queues count as taking all of them")
        unread: list[str] = []
        found = self._site_of(answers, configuration_of(settings), unread)
        if not found.queues:
            why = next((f": {one}" for one in unread if one.startswith("ClusterQueue")), "")
            raise Problem(f"there is no ClusterQueue that can be read{why}", mend=MENTIONED)
        found.ledger()
        if found.topologies and not found.nodes:
            remarks.append("Nodes were not read: topologies are not heeded")
        name = (answers.get("cluster") or {}).get("name") or "kubernetes"
        return AttachedSite(name, found, tuple(f"{one.rstrip('.')}." for one in remarks))

    def snapshot(self, answers: Answers, time: float) -> Snapshot:
        """The snapshot of a poll."""
        remarks: list[str] = []
        site = self._site_of(answers, Configuration(), remarks)
        jobs = []
        for one in sorted(site.workloads, key=lambda one: (one.creation_timestamp or "", one.key)):
            identity = one.uid or one.key
            ordinal = self._numbers.setdefault(identity, len(self._numbers) + 1)
            jobs.append(job_of(one, site, ordinal))
        said = [f"{one}." for one in (*remarks, *dangling(site))]
        more = [f"And {len(said) - _SAID} more of this kind."] if len(said) > _SAID else []
        return Snapshot(time, tuple(jobs), (*said[:_SAID], *more), site)

    def _site_of(self, answers: Answers, configuration: Configuration, remarks: list[str]) -> Site:
        by_kind: dict[str, list[Any]] = {}
        for kind in KINDS:
            before, now = self._read.get(kind, {}), {}
            for document in answers.get(kind) or []:
                name = _key(document)
                known = before.get(name)
                if known is None or known[0] is not document:
                    known = _read(kind, name, document)
                now[name] = known
                if known[1] is not None:
                    by_kind.setdefault(kind, []).append(known[1])
                else:
                    remarks.append(known[2])
            self._read[kind] = now
        return Site.of(by_kind, configuration)


def _read(kind: str, name: str, document: Any) -> tuple[object, Object | None, str]:
    where = f"{kind} {name}"
    try:
        found = read(kind, document, where)
        _check(found)
    except Problem as problem:
        said = str(problem) if where in str(problem) else f"{where}: {problem}"
        return document, None, f"{said.rstrip('.')}: it is left out"
    return document, found, ""


def _check(one: Object) -> None:
    """Raise `Problem` where an amount or a moment of an object is none."""
    if isinstance(one, Workload):
        job_of(one, Site(), 0)
    elif isinstance(one, Quotas):
        quotas_of(one.resource_groups)


def _key(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata") or {}
    return "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))


def _records(_: str, documents: Iterable[Mapping[str, Any]]) -> Records:
    return {_key(one): dict(one) for one in documents}


# ---------------------------------------------------------------------- what is kept of an object

_METADATA = ("name", "namespace", "uid", "labels", "creationTimestamp", "ownerReferences")
_POD = ("overhead", "nodeSelector", "affinity", "tolerations", "resourceClaims")
_CONTAINER = ("resources", "restartPolicy", "image")


def kept(document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """An object with what forecasts use of it: no commands, environments, volumes, annotations, addresses."""
    found = {"kind": kind} | {
        name: document[name]
        for name in ("apiVersion", "spec", "value", "status")
        if name in document
    }
    found["metadata"] = _part(document.get("metadata") or {}, _METADATA)
    owners = found["metadata"].get("ownerReferences")
    if owners:
        found["metadata"]["ownerReferences"] = [_part(one, ("kind", "name")) for one in owners]
    if kind == "Workload":
        found["spec"] = dict(found.get("spec") or {})
        try:
            found["spec"]["podSets"] = [_pod_set(one) for one in found["spec"].get("podSets") or []]
        except (AttributeError, TypeError):
            found["spec"]["podSets"] = "not as Kueue has them"
    elif kind == "Node":
        status = found.pop("status", None) or {}
        found["spec"] = _part(found.get("spec") or {}, ("taints", "unschedulable"))
        found["status"] = {"capacity": status.get("allocatable") or status.get("capacity") or {}}
    else:
        found.pop("status", None)
    return given(found)


def _part(of: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: of[name] for name in names if of.get(name)}


def _pod_set(one: Mapping[str, Any]) -> dict[str, Any]:
    pod = (one.get("template") or {}).get("spec") or {}
    spec = _part(pod, _POD)
    for name in ("containers", "initContainers"):
        if pod.get(name):
            spec[name] = [_part(each, _CONTAINER) for each in pod[name]]
    return {**one, "template": {"spec": spec}}
