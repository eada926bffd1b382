"""The rules of the API server for pods and jobs: what may change, and how long a deletion takes."""

from api_objects import Kind, Object, invalid

_MUTABLE_POD = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")


def grace_of(kind: Kind, thing: Object, options: Object) -> int:
    """Seconds of grace of a deletion: 0 unless it is a pod that has a node."""
    if kind.plural != "pods" or not thing["spec"].get("nodeName"):
        return 0
    if thing["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    given = options.get("gracePeriodSeconds")
    default: int = thing["spec"].get("terminationGracePeriodSeconds", 30)
    return default if given is None else int(given)


def check_update(kind: Kind, before: Object, after: Object) -> None:
    """Raise `ApiError` for a change that is not allowed."""
    name = before["metadata"]["name"]
    if kind.plural == "pods":
        _check_pod(kind, name, before["spec"], after["spec"])
    elif kind.plural == "jobs":
        _check_job(kind, name, before, after)


def _check_pod(kind: Kind, name: str, before: Object, after: Object) -> None:
    gates = [gate["name"] for gate in before.get("schedulingGates", ())]
    left = [gate["name"] for gate in after.get("schedulingGates", ())]
    if not set(left) <= set(gates):
        raise invalid(
            kind,
            name,
            "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate",
        )
    free = {*_MUTABLE_POD, "schedulingGates"}
    if gates:  # while it has a gate, its placement may be narrowed
        free |= {"nodeSelector", "affinity"}
        lost = before.get("nodeSelector", {}).items() - after.get("nodeSelector", {}).items()
        if lost:
            raise invalid(
                kind,
                name,
                "spec.nodeSelector: Invalid value: only additions are allowed (no mutations or deletions)",
            )
    if not before.get("nodeName"):
        free.add("nodeName")  # by its binding
    if any(
        before.get(key) != after.get(key) for key in before.keys() | after.keys() if key not in free
    ):
        raise invalid(
            kind,
            name,
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
            "to existing tolerations),`spec.terminationGracePeriodSeconds`",
        )


def _check_job(kind: Kind, name: str, before: Object, after: Object) -> None:
    old, new = before["spec"], after["spec"]
    started = bool(before.get("status", {}).get("startTime"))
    scheduling = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
    frozen = ("completions", "completionMode", "podReplacementPolicy", "selector")
    if any(old.get(key) != new.get(key) for key in frozen):
        raise invalid(kind, name, "spec: Invalid value: field is immutable")
    was, now = old["template"], new["template"]
    if old.get("suspend") and not started:
        was = was | {"spec": {k: v for k, v in was["spec"].items() if k not in scheduling}}
        now = now | {"spec": {k: v for k, v in now["spec"].items() if k not in scheduling}}
    if was != now:
        raise invalid(kind, name, "spec.template: Invalid value: field is immutable")
