"""Objects of the API as they are read: their kinds, the versions that are known, mistakes in a sentence."""

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from volvelle.incumbents.kueue.objects import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    Node,
    Object,
    PriorityClass,
    ResourceFlavor,
    Topology,
)
from volvelle.incumbents.kueue.pods import Workload
from volvelle.model.problems import Problem

KINDS: dict[str, type[Object]] = {
    **{one.__name__: one for one in (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology)},
    **{one.__name__: one for one in (PriorityClass, Workload, Namespace, Node)},
    "WorkloadPriorityClass": PriorityClass,
}
"""The kinds that decide, by name."""

VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
"""The versions of Kueue's API that are read; v1alpha1 is that of Cohort and Topology."""


def read(kind: str, document: object, where: str) -> Any:
    """An object of the API. where: its place and name. Raises `Problem` naming them and the field."""
    if not isinstance(document, dict):
        raise Problem(f"{where} is no object", mend="give what kubectl get -o json prints")
    version = str(document.get("apiVersion", "")).partition("kueue.x-k8s.io/")[2]
    if version and version not in VERSIONS:
        raise Problem(
            f"{where}: version {version!r} of Kueue's API is not known",
            mend=f"export it as {VERSIONS[-1]}: kubectl get {kind.lower()}s.{VERSIONS[-1]}.kueue.x-k8s.io",
        )
    whole = given(document)
    flat = {"value": whole.get("value", 0)}
    for part in ("metadata", "spec", "status"):
        flat |= whole.get(part, {})
    if not flat.get("name"):
        raise Problem(f"{where} has no metadata.name", mend="give what kubectl get -o json prints")
    try:
        return convert(flat, KINDS[kind], strict=False)
    except ValidationError as error:
        said = str(error).replace("$.", "").replace("`", "'")
        raise Problem(f"{where}: {said}") from None


def given(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its nulls, which stand for nothing in the API."""
    return {key: _value(one) for key, one in document.items() if one is not None}


def _value(one: Any) -> Any:
    if isinstance(one, list):
        return [_value(each) for each in one]
    return given(one) if isinstance(one, dict) else one


Named = TypeVar("Named", bound=Object)


def by_key(objects: Iterable[Named]) -> dict[str, Named]:
    """Objects by namespace and name."""
    return {one.key: one for one in objects}
