"""The parts of a site that the policy does not model, each with how many objects it touches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volvelle.incumbents.kueue.read_site import GATES, Document, settings_of

_PASSED = {
    "LimitRange": "limits and defaults of containers",
    "AdmissionCheck": "checks count as passed at once",
    "MultiKueueConfig": "jobs run on this cluster",
    "MultiKueueCluster": "jobs run on this cluster",
    "ProvisioningRequestConfig": "nodes are not provisioned",
    "ResourceQuota": "quotas of namespaces are not heeded",
}
"""Parts of kinds that would decide and are not modelled."""

Has = Callable[[dict[str, Any]], object]
_FIELDS: dict[str, list[tuple[str, Has]]] = {
    "ClusterQueue": [
        ("admission checks: they count as passed at once", lambda o: o.get("admissionChecks")),
        (
            "admission checks: they count as passed at once",
            lambda o: o.get("admissionChecksStrategy"),
        ),
        ("usage-based admission (admissionScope)", lambda o: o.get("admissionScope")),
        ("concurrent admission", lambda o: o.get("concurrentAdmissionPolicy")),
    ],
    "LocalQueue": [("its weight in admission fair sharing", lambda o: o.get("fairSharing"))],
    "Workload": [
        (
            "slices of pods in a topology",
            lambda o: any(_slices(p.get("topologyRequest") or {}) for p in _pod_sets(o)),
        ),
        (
            "claims of devices (DRA)",
            lambda o: any(
                ((p.get("template") or {}).get("spec") or {}).get("resourceClaims")
                for p in _pod_sets(o)
            ),
        ),
    ],
}
"""By kind, fields of ``spec`` that are not modelled."""

_IN_TRACES: dict[str, list[tuple[str, Has]]] = {
    "ResourceFlavor": [
        (
            "its topology: heeded with kueue:required= or preferred=, for all jobs alike",
            lambda o: o.get("topologyName"),
        )
    ],
    "Workload": [
        (
            "the level that it requires or prefers itself",
            lambda o: any(p.get("topologyRequest") for p in _pod_sets(o)),
        )
    ],
}
"""The same where jobs of a trace are simulated, which do not say them."""

_SETTINGS = {
    "waitForPodsReady": "workloads whose pods are late are not evicted",
    "resources": "resources are neither renamed nor left out",
    "admissionFairSharing": "usage of the past does not order workloads",
    "quotaCheckStrategy": "resources that a queue does not name are refused",
}


def _pod_sets(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in spec.get("podSets") or [] if isinstance(one, dict)]


def _slices(request: dict[str, Any]) -> bool:
    return any(key.startswith("podSetSlice") for key in request)


def unmodelled(documents: Iterable[Document], *, of_traces: bool = True) -> list[str]:
    """A sentence for each part that is not modelled, those that touch most objects first.

    of_traces: jobs are those of a trace, not workloads.
    """
    kinds: Counter[str] = Counter()
    parts: Counter[tuple[str, str]] = Counter()
    settings: list[str] = []
    for one in documents:
        if (configured := settings_of(one)) is not None:
            settings += _of_settings(configured)
        elif one.kind in _PASSED:
            kinds[one.kind] += 1
        spec = one.content.get("spec") or {}
        fields = _FIELDS.get(one.kind, []) + (_IN_TRACES.get(one.kind, []) if of_traces else [])
        parts.update({(one.kind, what) for what, has in fields if has(spec)})
    found = [(n, f"{kind}: {_PASSED[kind]}") for kind, n in kinds.items() if kind in _PASSED]
    found += [(n, f"{kind}: {what}") for (kind, what), n in parts.items()]
    found.sort(key=lambda one: -one[0])
    said = [f"{what} ({n:,} object{'s' if n > 1 else ''})" for n, what in found]
    return [f"Not modelled: {one}" for one in (*said, *settings)]


def _of_settings(settings: Any) -> Iterator[str]:
    for name, what in _SETTINGS.items():
        if settings.get(name):
            yield f"Configuration, {name}: {what}"
    for gate in sorted((settings.get("featureGates") or {}).keys() - GATES):
        yield f"Configuration, feature gate {gate}: its default holds"
