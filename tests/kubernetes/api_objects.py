"""Kubernetes objects as a real API server keeps them: kinds, errors, selectors, patches."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind that the server has. versions: that it is served in, the stored one first."""

    group: str
    plural: str
    kind: str
    namespaced: bool = True
    versions: tuple[str, ...] = ("v1",)

    @property
    def builtin(self) -> bool:
        """Whether it is typed, and not from a custom resource definition."""
        return "." not in self.group or self.group.endswith(".k8s.io")

    @property
    def resource(self) -> str:
        """Its name in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_KUEUE = ("v1beta2", "v1beta1")

KINDS = (
    Kind("", "namespaces", "Namespace", namespaced=False),
    Kind("", "nodes", "Node", namespaced=False),
    Kind("", "pods", "Pod"),
    Kind("", "configmaps", "ConfigMap"),
    Kind("", "secrets", "Secret"),
    Kind("", "services", "Service"),
    Kind("", "podtemplates", "PodTemplate"),
    Kind("", "events", "Event"),
    Kind("batch", "jobs", "Job"),
    Kind("coordination.k8s.io", "leases", "Lease"),
    Kind("kueue.x-k8s.io", "clusterqueues", "ClusterQueue", namespaced=False, versions=_KUEUE),
    Kind("kueue.x-k8s.io", "cohorts", "Cohort", namespaced=False, versions=_KUEUE),
    Kind("kueue.x-k8s.io", "resourceflavors", "ResourceFlavor", namespaced=False, versions=_KUEUE),
    Kind("kueue.x-k8s.io", "topologies", "Topology", namespaced=False, versions=_KUEUE),
    Kind(
        "kueue.x-k8s.io",
        "workloadpriorityclasses",
        "WorkloadPriorityClass",
        namespaced=False,
        versions=_KUEUE,
    ),
    Kind("kueue.x-k8s.io", "admissionchecks", "AdmissionCheck", namespaced=False, versions=_KUEUE),
    Kind("kueue.x-k8s.io", "localqueues", "LocalQueue", versions=_KUEUE),
    Kind("kueue.x-k8s.io", "workloads", "Workload", versions=_KUEUE),
    Kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False),
)


class ApiError(Exception):
    """An answer that is a failure, as a `Status` object."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if details:
            self.status["details"] = details


def not_found(kind: Kind, name: str) -> ApiError:
    """404 for an object that is not there."""
    message = f'{kind.resource} "{name}" not found'
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiError(404, "NotFound", message, details)


def invalid(kind: Kind, name: str, problem: str) -> ApiError:
    """422 for an object that its kind does not allow."""
    return ApiError(422, "Invalid", f'{kind.kind} "{name}" is invalid: {problem}')


def timestamp(moment: float, *, micro: bool = False) -> str:
    """A time in seconds since the epoch as objects have it."""
    text = datetime.fromtimestamp(moment, UTC)
    return text.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> float:
    """The inverse of `timestamp`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# ------------------------------------------------------------------ selectors


def field_of(thing: Any, path: str) -> Any:
    """The field ``a.b.c`` of an object; None if it is absent."""
    for part in path.split("."):
        thing = thing.get(part) if isinstance(thing, dict) else None
    return thing


def _label_test(term: str) -> Callable[[Mapping[str, str]], bool]:
    if found := re.fullmatch(r"(\S+) (in|notin) \((.*)\)", term):
        key, values = found[1], {each.strip() for each in found[3].split(",")}
        inside = found[2] == "in"
        return lambda labels: (labels.get(key) in values) is inside
    if "!=" in term:
        key, _, value = term.partition("!=")
        return lambda labels: labels.get(key) != value
    if "=" in term:
        key, _, value = term.replace("==", "=").partition("=")
        return lambda labels: labels.get(key) == value
    if term.startswith("!"):
        return lambda labels: term[1:] not in labels
    return lambda labels: term in labels


def matcher(labels: str, fields: str) -> Callable[[Object], bool]:
    """Whether an object is selected by ``labelSelector`` and ``fieldSelector``."""
    tests = [_label_test(term.strip()) for term in re.split(r",(?![^(]*\))", labels) if term]
    wanted = [re.split("!=|==|=", term, maxsplit=1) for term in fields.split(",") if term]
    unlike = ["!=" in term for term in fields.split(",") if term]

    def matches(thing: Object) -> bool:
        has = thing["metadata"].get("labels", {})
        return all(test(has) for test in tests) and all(
            (str(field_of(thing, path) or "") == value) is not negated
            for (path, value), negated in zip(wanted, unlike, strict=True)
        )

    return matches


# ------------------------------------------------------------------ patches


def merged(thing: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(thing) if isinstance(thing, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _place(thing: Any, path: str) -> tuple[Any, Any]:
    """The container of a JSON pointer, and the last key. Raises LookupError."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in parents:
        thing = thing[int(part)] if isinstance(thing, list) else thing[part]
    if isinstance(thing, list):
        return thing, len(thing) if last == "-" else int(last)
    return thing, last


def json_patched(thing: Object, operations: Sequence[Object]) -> Object:
    """JSON patch (RFC 6902): add, remove, replace, test. Raises `ApiError` as the server answers."""
    result = copy.deepcopy(thing)
    for operation in operations:
        path, kind = operation["path"], operation["op"]
        try:
            container, key = _place(result, path)
            if kind == "add" and isinstance(container, list):
                container.insert(key, operation["value"])
            elif kind == "add":
                container[key] = operation["value"]
            elif kind == "replace":
                container[key]
                container[key] = operation["value"]
            elif kind == "remove":
                del container[key]
            elif kind == "test" and container[key] != operation["value"]:
                raise LookupError(path)
        except (LookupError, TypeError, ValueError):
            verb = "testing" if kind == "test" else kind
            raise ApiError(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request: "
                f"{verb} operation does not apply: {path}",
            ) from None
    return result


def without_empty_lists(thing: Any) -> Any:
    """A typed object as it comes back: an emptied list is absent."""
    if isinstance(thing, dict):
        return {key: without_empty_lists(value) for key, value in thing.items() if value != []}
    return [without_empty_lists(each) for each in thing] if isinstance(thing, list) else thing


# ------------------------------------------------------------------ field managers

Field = tuple[str, ...]
_LIST_KEYS = ("name", "type", "key", "containerPort", "uid")


def fields(thing: Any, at: Field = ()) -> Iterator[tuple[Field, Any]]:
    """The leaf fields of an object with their values; a list without keys is one field."""
    if isinstance(thing, dict) and thing:
        for key, value in thing.items():
            yield from fields(value, (*at, f".{key}"))
    elif isinstance(thing, list) and (key := _list_key(thing)):
        for each in thing:
            yield from fields(each, (*at, f'[{key}="{each[key]}"]'))
    else:
        yield at, thing


def _list_key(things: list[Any]) -> str:
    """The key by which elements of a list are told apart; empty: they are not."""
    return next(
        (
            key
            for key in _LIST_KEYS
            if things and all(isinstance(each, dict) and key in each for each in things)
        ),
        "",
    )


def managed_content(thing: Object) -> Object:
    """The part of an object that managers own: without what the server sets."""
    own = ("labels", "annotations", "ownerReferences", "finalizers")
    content = {key: thing[key] for key in thing if key not in ("apiVersion", "kind", "metadata")}
    metadata = {key: thing["metadata"][key] for key in own if key in thing["metadata"]}
    return content | ({"metadata": metadata} if metadata else {})


def without_field(thing: Any, path: Field) -> Any:
    """An object without one field; what is empty then stays."""
    step, *rest = path
    result = copy.copy(thing)
    if step.startswith("."):
        if not isinstance(thing, dict) or step[1:] not in thing:
            return thing
        if rest:
            result[step[1:]] = without_field(thing[step[1:]], tuple(rest))
        else:
            del result[step[1:]]
        return result
    key, _, value = step[1:-1].partition("=")
    if not isinstance(thing, list):
        return thing
    if rest == [f".{key}"]:
        return [each for each in thing if str(each.get(key)) != value[1:-1]]
    chosen = [str(each.get(key)) == value[1:-1] for each in thing]
    return [
        without_field(each, tuple(rest)) if mine else each
        for each, mine in zip(thing, chosen, strict=True)
    ]


def applied(live: Any, wanted: Any) -> Any:
    """An object with all fields of ``wanted``: lists with keys are merged by them."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        return live | {key: applied(live.get(key), value) for key, value in wanted.items()}
    if isinstance(live, list) and isinstance(wanted, list) and (key := _list_key(wanted)):
        known = {each[key]: each for each in wanted}
        kept = [applied(each, known.pop(each.get(key), {})) for each in live]
        return [*kept, *known.values()]
    return copy.deepcopy(wanted)
