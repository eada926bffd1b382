"""The objects of a Kubernetes API server, their versions, and the events that watches get."""

import copy
import itertools
import secrets
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from api_objects import (
    KINDS,
    ApiError,
    Field,
    Kind,
    Object,
    applied,
    fields,
    invalid,
    managed_content,
    not_found,
    timestamp,
    without_empty_lists,
    without_field,
)
from pod_rules import check_update, grace_of

Ownership = dict[tuple[str, str], set[Field]]
"""The fields of each manager, which is a name and an operation (Apply or Update)."""


class Event(NamedTuple):
    """A change of an object. before: None for a new one."""

    version: int
    kind: Kind
    type: str
    object: Object
    before: Object | None


@dataclass
class ObjectStore:
    """The objects by kind, namespace and name. ``now``: seconds since the epoch."""

    kinds: tuple[Kind, ...] = KINDS
    now: Callable[[], float] = time.time
    version: int = 1
    compacted: int = 0
    """Watches from versions below this one are too old."""
    events: list[Event] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    _objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    _owners: dict[str, Ownership] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("default", "kube-system", "kube-node-lease"):
            self.create(self.kind("namespaces"), {"metadata": {"name": name}})

    def kind(self, plural: str) -> Kind:
        """A kind by its plural name."""
        return next(each for each in self.kinds if each.plural == plural)

    # ------------------------------------------------------------------ reading

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """An object. Raises `ApiError`."""
        with self.changed:
            found = self._objects.get((kind.plural, namespace if kind.namespaced else "", name))
            if found is None:
                raise not_found(kind, name)
            return copy.deepcopy(found)

    def listed(self, plural: str, namespace: str = "") -> list[Object]:
        """All objects of a kind, of one namespace if it is given, by name."""
        with self.changed:
            return [
                copy.deepcopy(self._objects[key])
                for key in sorted(self._objects)
                if key[0] == plural and namespace in ("", key[1])
            ]

    def events_since(self, version: int) -> list[Event]:
        """The events after a version."""
        first = len(self.events)
        while first and self.events[first - 1].version > version:
            first -= 1
        return self.events[first:]

    def compact(self) -> None:
        """Forget all events: watches from before are too old."""
        with self.changed:
            self.events.clear()
            self.version += 1
            self.compacted = self.version
            self.changed.notify_all()

    # ------------------------------------------------------------------ changes

    def create(self, kind: Kind, given: Object, manager: str = "fake") -> Object:
        """A new object. Raises `ApiError`."""
        with self.changed:
            thing = copy.deepcopy(given)
            metadata = thing.setdefault("metadata", {})
            if not metadata.get("name"):
                if not metadata.get("generateName"):
                    raise invalid(
                        kind, "", "metadata.name: Required value: name or generateName is required"
                    )
                metadata["name"] = metadata["generateName"] + secrets.token_hex(3)[:5]
            if kind.namespaced:
                metadata.setdefault("namespace", "default")
                self.get(self.kind("namespaces"), "", metadata["namespace"])
            else:
                metadata.pop("namespace", None)
            key = kind.plural, metadata.get("namespace", ""), metadata["name"]
            if key in self._objects:
                message = f'{kind.resource} "{key[2]}" already exists'
                raise ApiError(409, "AlreadyExists", message)
            if metadata.get("resourceVersion"):
                raise ApiError(
                    500, "", "resourceVersion should not be set on objects to be created"
                )
            group = f"{kind.group}/" if kind.group else ""
            thing.update(apiVersion=f"{group}{kind.versions[0]}", kind=kind.kind)
            metadata.update(
                uid=str(uuid.uuid4()), creationTimestamp=timestamp(self.now()), generation=1
            )
            if kind.plural == "secrets":  # as text it is written only
                data = thing.pop("stringData", {})
                encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
                thing["data"] = thing.get("data", {}) | encoded
            if kind.plural == "pods":
                thing["status"] = {"phase": "Pending"}
            elif kind.builtin and kind.plural not in ("nodes", "namespaces"):
                thing.pop("status", None)
            if kind.builtin:
                thing = without_empty_lists(thing)
                metadata = thing["metadata"]
            owned = {path for path, _ in fields(managed_content(thing))}
            self._owners[metadata["uid"]] = {(manager, "Update"): owned}
            return self._store(kind, thing, None)

    def update(
        self,
        kind: Kind,
        change: Callable[[Object], Object],
        namespace: str,
        name: str,
        *,
        manager: str = "fake",
        status: bool = False,
        owners: Callable[[Object, Object, Ownership], Ownership] | None = None,
    ) -> Object:
        """The object after ``change``. Raises `ApiError`.

        status: whether the status alone changes, else everything but it. A resourceVersion that ``change``
        gives must be the present one.
        """
        with self.changed:
            before = self.get(kind, namespace, name)
            wanted = change(copy.deepcopy(before))
            version = wanted["metadata"].get("resourceVersion", "")
            if version not in ("", before["metadata"]["resourceVersion"]):
                raise ApiError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been '
                    "modified; please apply your changes to the latest version and try again",
                )
            if status:
                after = before | {"status": wanted.get("status", {})}
            else:
                after = {key: value for key, value in wanted.items() if key != "status"}
                after |= {"status": before["status"]} if "status" in before else {}
                fixed = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "name")
                after["metadata"] = wanted["metadata"] | {
                    key: before["metadata"][key] for key in fixed if key in before["metadata"]
                }
            if kind.builtin:
                after = without_empty_lists(after)
            check_update(kind, before, after)
            ownership = self._owners.setdefault(before["metadata"]["uid"], {})
            if owners is None:
                owners = _update_ownership(manager)
            ownership = owners(managed_content(before), managed_content(after), ownership)
            self._owners[before["metadata"]["uid"]] = ownership
            return self._store(kind, after, before)

    def apply(
        self, kind: Kind, wanted: Object, namespace: str, name: str, manager: str, *, force: bool
    ) -> Object:
        """Server-side apply. Raises `ApiError`: 409 where another manager owns a field."""
        content = managed_content({"metadata": {}} | wanted)
        with self.changed:
            try:
                live = self.get(kind, namespace, name)
            except ApiError:
                created = self.create(kind, wanted, manager)
                paths = {path for path, _ in fields(content)}
                self._owners[created["metadata"]["uid"]] = {(manager, "Apply"): paths}
                return self._store(kind, created, created)
            ownership = self._owners[live["metadata"]["uid"]]
            me = manager, "Apply"
            new = dict(fields(content))
            had = dict(fields(managed_content(live)))
            conflicts = [
                (owner, path)
                for owner, owned in ownership.items()
                for path in sorted(owned & new.keys())
                if owner != me and had.get(path) != new[path]
            ]
            if conflicts and not force:
                raise _conflict(kind, conflicts)
            gone = ownership.get(me, set()) - new.keys()
            for owner, owned in ownership.items():
                gone -= owned if owner != me else set()

            def change(thing: Object) -> Object:
                for path in gone:
                    thing = without_field(thing, path)
                return dict(applied(thing, content))

            def owners(before: Object, after: Object, known: Ownership) -> Ownership:
                taken = {path for _, path in conflicts}
                others = {owner: owned - taken for owner, owned in known.items() if owner != me}
                return {owner: owned for owner, owned in others.items() if owned} | {me: set(new)}

            return self.update(kind, change, namespace, name, owners=owners)

    def delete(
        self, kind: Kind, namespace: str, name: str, options: Object | None = None
    ) -> Object:
        """Delete an object, or begin to: with grace for a pod, or with finalizers. Raises `ApiError`."""
        options = options or {}
        with self.changed:
            thing = self.get(kind, namespace, name)
            metadata = thing["metadata"]
            for key, value in options.get("preconditions", {}).items():
                if metadata.get(key) != value:
                    raise ApiError(
                        409,
                        "Conflict",
                        f'Operation cannot be fulfilled on {kind.resource} "{name}": Precondition failed: '
                        f"{key} in precondition: {value}, {key} in object meta: {metadata.get(key)}",
                    )
            grace = grace_of(kind, thing, options)
            if options.get("propagationPolicy") == "Orphan":
                for plural, child in self._children(metadata["uid"]):
                    self._without_owner(plural, child, metadata["uid"])
            if grace == 0 and not metadata.get("finalizers"):
                return self._remove(kind, thing)
            if "deletionTimestamp" in metadata and metadata["deletionGracePeriodSeconds"] <= grace:
                return thing
            after = copy.deepcopy(thing)
            after["metadata"].update(
                deletionTimestamp=timestamp(self.now() + grace), deletionGracePeriodSeconds=grace
            )
            return self._store(kind, after, thing)

    def _children(self, uid: str) -> Iterator[tuple[str, Object]]:
        for key, thing in list(self._objects.items()):
            owners = thing["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == uid for owner in owners):
                yield key[0], thing

    def _without_owner(self, plural: str, child: Object, uid: str) -> None:
        after = copy.deepcopy(child)
        owners = after["metadata"]["ownerReferences"]
        after["metadata"]["ownerReferences"] = [each for each in owners if each["uid"] != uid]
        self._store(self.kind(plural), after, child)

    def _store(self, kind: Kind, after: Object, before: Object | None) -> Object:
        metadata = after["metadata"]
        if before is not None and "deletionTimestamp" in metadata:
            grace = metadata.get("deletionGracePeriodSeconds", 0)
            if grace == 0 and not metadata.get("finalizers"):
                return self._remove(kind, after)
        if before is not None and before.get("spec") != after.get("spec"):
            metadata["generation"] = before["metadata"].get("generation", 1) + 1
        metadata["managedFields"] = _managed_fields(self._owners.get(metadata["uid"], {}), after)
        comparable = [_without_version(each) for each in (before, after) if each is not None]
        if before is not None and comparable[0] == comparable[1]:
            return copy.deepcopy(before)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        stored = copy.deepcopy(after)
        self._objects[kind.plural, metadata.get("namespace", ""), metadata["name"]] = stored
        self._emit(kind, "ADDED" if before is None else "MODIFIED", stored, before)
        return copy.deepcopy(stored)

    def _remove(self, kind: Kind, thing: Object) -> Object:
        metadata = thing["metadata"]
        del self._objects[kind.plural, metadata.get("namespace", ""), metadata["name"]]
        self._owners.pop(metadata["uid"], None)
        self.version += 1
        last = copy.deepcopy(thing)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._emit(kind, "DELETED", last, thing)
        return last

    def _emit(self, kind: Kind, type: str, thing: Object, before: Object | None) -> None:
        self.events.append(Event(self.version, kind, type, thing, before))
        self.changed.notify_all()


def _without_version(thing: Object) -> Object:
    return thing | {"metadata": thing["metadata"] | {"resourceVersion": ""}}


def _update_ownership(manager: str) -> Callable[[Object, Object, Ownership], Ownership]:
    """A create, update or patch owns the fields that it changed."""

    def owners(before: Object, after: Object, known: Ownership) -> Ownership:
        had, has = dict(fields(before)), dict(fields(after))
        changed = {path for path in has if path not in had or had[path] != has[path]}
        kept = {owner: (owned & has.keys()) - changed for owner, owned in known.items()}
        me = manager, "Update"
        kept[me] = kept.get(me, set()) | changed
        return {owner: owned for owner, owned in kept.items() if owned}

    return owners


def _managed_fields(ownership: Ownership, thing: Object) -> list[Object]:
    entries: list[Object] = []
    for (manager, operation), owned in ownership.items():
        tree: Object = {}
        for path in sorted(owned):
            at = tree
            for step in path:
                name = f"f:{step[1:]}" if step.startswith(".") else f"k:{step[1:-1]}"
                at = at.setdefault(name, {})
        entry = {"manager": manager, "operation": operation, "fieldsType": "FieldsV1"}
        entries.append({**entry, "apiVersion": thing["apiVersion"], "fieldsV1": tree})
    return entries


def _conflict(kind: Kind, conflicts: Iterable[tuple[tuple[str, str], Field]]) -> ApiError:
    """As the server words it, by manager."""
    conflicts = list(conflicts)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{name}"',
            "field": "".join(path),
        }
        for (name, _), path in conflicts
    ]
    said = "conflict" if len(causes) == 1 else "conflicts"
    by_manager = itertools.groupby(conflicts, key=lambda each: each[0])
    parts = []
    for (name, operation), group in by_manager:
        using = f" using {kind.versions[0]}" if operation == "Update" else ""
        paths = ["".join(path) for _, path in group]
        listed = paths[0] if len(paths) == 1 else "\n- " + "\n- ".join(paths)
        parts.append(f'with "{name}"{using}: {listed}')
    message = f"Apply failed with {len(causes)} {said}: {said} {'; '.join(parts)}"
    return ApiError(409, "Conflict", message, {"causes": causes})
