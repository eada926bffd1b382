"""The store goes back in time: a backup is restored, an old disk is put back, the log's end is lost."""

import time

from chaos_cluster import ChaosCluster
from commands import holds_within
from fault_proxy import FREQUENT_FAULTS, NO_FAULTS, InjectedFault

_TRACED_SECONDS = 60.0
_TOLD_SECONDS = 7.0
"""Agents ask every 5 s at most how far the journal is written."""
_SAID_SECONDS = 120.0
_SETTLED_SECONDS = 180.0


class StoreSetBack:
    """Sets the store of ``cluster`` back. ``silent``: when jobs were lost and the server did not say so."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self._kept: set[int] = set()
        self.silent: list[str] = []
        self.lost = 0

    def keep(self) -> None:
        """Keep the store as it is; the server is gone for a moment."""
        self._kept = set(self._cluster.submissions.totals)
        self._cluster.server.hold()
        self._cluster.store.keep()
        self._cluster.server.restart_now()

    def set_back(self) -> InjectedFault:
        """Set the store back to what was kept, or further than nodes know; act as the operator then.

        Jobs whose acknowledgement is not in the store any more count no longer; all others do.
        """
        cluster = self._cluster
        holds_within(_TRACED_SECONDS, self._a_later_job_ran)
        cluster.set_fault_rates(NO_FAULTS)
        cluster.pause_clients()
        holds_within(_TRACED_SECONDS, lambda: cluster.get("/readyz") is not None)
        time.sleep(_TOLD_SECONDS)
        cluster.server.hold()
        how = cluster.store.put_back()
        lost = cluster.submissions.lose(cluster.store.jobs())
        self.lost += len(lost)
        cluster.server.restart_now()
        if lost and not holds_within(_SAID_SECONDS, self._is_said):
            self.silent.append(
                f"{how}: jobs {sorted(lost)} were lost, and the server did not say so"
            )
        holds_within(_SETTLED_SECONDS, self._is_settled)
        cluster.resume_clients()
        cluster.set_fault_rates(FREQUENT_FAULTS)
        return how

    def _a_later_job_ran(self) -> bool:
        """Whether a node knows of a job that was acknowledged after the store was kept."""
        later = self._cluster.submissions.totals.keys() - self._kept
        return any(any(self._cluster.traces.glob(f"{number}-*")) for number in later)

    def _problems(self) -> str:
        health = self._cluster.get("/healthz")
        return health.get("problems", "") if health else ""

    def _is_said(self) -> bool:
        return "the store was set back" in self._problems()

    def _is_settled(self) -> bool:
        """Whether jobs start again everywhere. Nodes that run what is lost are resumed, which stops it."""
        nodes = self._cluster.get("/v1/nodes")
        if nodes is None or "Nothing is started until" in self._problems():
            return False
        draining = [node["name"] for node in nodes["nodes"] if node["state"] == "draining"]
        for name in draining:
            self._cluster.post(f"/v1/nodes/{name}/resume")
        return not draining
