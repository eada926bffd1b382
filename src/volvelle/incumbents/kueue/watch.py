"""The objects of a running Kueue, watched by the API of its cluster with rights to read alone."""

import contextlib
from typing import Any, Self

from volvelle.incumbents.kueue.api import VERSIONS
from volvelle.incumbents.kueue.attach import kept
from volvelle.incumbents.kueue.read_site import Document, settings_of
from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Watched, as_problem
from volvelle.model.problems import Problem

_GROUP = "apis/kueue.x-k8s.io"
_NEEDED = {
    "Workload": "workloads",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "ResourceFlavor": "resourceflavors",
}
_WHERE_THERE = {
    "Cohort": ("cohorts", "cohorts have no quota of their own"),
    "Topology": ("topologies", "topologies are not known"),
    "WorkloadPriorityClass": ("workloadpriorityclasses", "classes count as priority 0"),
}
"""Kinds of Kueue's API that an older one lacks, and what is missed without them."""
_CORE = {
    "PriorityClass": ("apis/scheduling.k8s.io/v1/priorityclasses", "their priorities count as 0"),
    "Namespace": ("api/v1/namespaces", "queues count as taking all of them"),
    "Node": ("api/v1/nodes", "flavours are shown with their quotas alone"),
}
_CONFIGURATION = "api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
_RIGHTS = "give its account the rights that volvelle attach kueue --print-manifest prints"


class Watch:
    """Watches of all kinds that decide, as attach asks for them. Raises `Problem`.

    What the account may not read is left out and said, but for workloads, queues and flavours.
    """

    def __init__(self, api: KubernetesApi, name: str = "kubernetes") -> None:
        self._api, self._name = api, name
        self._watched: dict[str, Watched] = {}
        self._refused: list[str] = []
        self._kept: dict[str, dict[tuple[str, str], tuple[object, dict[str, Any]]]] = {}

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._watched.values():
            one.close()
        self._api.close()

    def _begin(self) -> None:
        version = self._version()
        for kind, plural in _NEEDED.items():
            try:
                self._watch(kind, f"{_GROUP}/{version}/{plural}")
            except (ApiRefusal, OSError) as error:
                raise as_problem(error, f"list {plural}", rights=_RIGHTS) from None
        for kind, (plural, missed) in _WHERE_THERE.items():
            paths = [f"{_GROUP}/{each}/{plural}" for each in (version, "v1alpha1")]
            self._watch_where_allowed(kind, paths, missed)
        for kind, (path, missed) in _CORE.items():
            self._watch_where_allowed(kind, [path], missed)

    def _version(self) -> str:
        """The newest version of Kueue's API that is served and known."""
        try:
            groups = self._api.get("apis").get("groups") or []
        except (ApiRefusal, OSError) as error:
            raise as_problem(error, "read the versions of Kueue's API", rights=_RIGHTS) from None
        served = [
            str(version.get("version"))
            for group in groups
            if group.get("name") == "kueue.x-k8s.io"
            for version in group.get("versions") or []
        ]
        if not served:
            raise Problem("this cluster has no Kueue", mend="name another with --context")
        known = [one for one in reversed(VERSIONS) if one in served]
        if not known:
            raise Problem(
                f"Kueue's API is served as {', '.join(served)} here; {', '.join(VERSIONS[1:])} are known",
                mend="take a newer Volvelle",
            )
        return known[0]

    def _watch(self, kind: str, path: str) -> None:
        watched = Watched(self._api, path)
        watched.begin()
        self._watched[kind] = watched

    def _watch_where_allowed(self, kind: str, paths: list[str], missed: str) -> None:
        plural = paths[0].rpartition("/")[2]
        for path in paths:
            try:
                self._watch(kind, path)
            except ApiRefusal as refusal:
                if refusal.code == 404:
                    continue
                said = f"The account may not list {plural}: {missed}"
                self._refused.append(f"{said} ({_RIGHTS})")
            except OSError as error:
                raise as_problem(error, f"list {plural}", rights=_RIGHTS) from None
            return

    # ------------------------------------------------------------------ as attach asks

    def site(self) -> dict[str, Any]:
        """The name of the cluster, Kueue's Configuration where it may be read, and what may not."""
        settings: list[dict[str, Any]] = []
        with contextlib.suppress(ApiRefusal, OSError):
            found = settings_of(Document(self._api.get(_CONFIGURATION), _CONFIGURATION))
            settings = [{"kind": "Configuration"} | dict(found)] if found is not None else []
        return {
            "cluster": {"name": self._name},
            "configuration": settings,
            "refused": self._refused,
        }

    def poll(self) -> dict[str, Any]:
        """The objects as they are now, by kind."""
        for kind, watched in self._watched.items():
            if watched.problem:
                mend = _RIGHTS if "forbidden" in watched.problem else ""
                mend = "give a token that is valid" if watched.problem == "Unauthorized" else mend
                raise Problem(f"the watch of {kind}s has no answer: {watched.problem}", mend=mend)
        return {kind: self._objects(kind, one) for kind, one in self._watched.items()}

    def _objects(self, kind: str, watched: Watched) -> list[dict[str, Any]]:
        before, now = self._kept.get(kind, {}), {}
        for name, thing in watched.objects.items():
            known = before.get(name)
            now[name] = (
                known if known is not None and known[0] is thing else (thing, kept(thing, kind))
            )
        self._kept[kind] = now
        return [one for _, one in now.values()]
