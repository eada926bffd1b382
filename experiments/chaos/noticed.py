"""Faults that have to be noticed at once: a store that is gone, a copied folder, a revoked token."""

import hashlib
import threading
import time
from contextlib import suppress

from chaos_cluster import ChaosCluster
from commands import holds_within
from fault_proxy import FREQUENT_FAULTS, NO_FAULTS, InjectedFault

from volvelle.live.http.client import ApiClient
from volvelle.model.problems import Problem

_READY_SECONDS = 20.0
_NOTICED_SECONDS = 60.0
"""On a busy machine; tests hold the server to less."""


class Noticed:
    """Injects them into ``cluster``. ``unnoticed``: what went on as if nothing had happened."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self.unnoticed: list[str] = []

    def take_the_store_away(self) -> InjectedFault:
        """Rename the files of the store under the server, which has to end; then they are put back."""
        server, store = self._cluster.server, self._cluster.store
        exits = server.exits
        if not holds_within(_READY_SECONDS, self._is_ready):
            return None
        server.hold(kill=False)
        with store.taken_away() as is_gone:
            if is_gone and not holds_within(_NOTICED_SECONDS, lambda: server.exits > exits):
                self.unnoticed.append("the server went on without the file of its store")
                server.hold()
        server.restart_now()
        return "file of the store taken away" if is_gone else None

    def copy_a_folder(self) -> InjectedFault:
        """Start a second agent in a copy of the folder of one that is connected; it has to be refused."""
        cluster = self._cluster
        cluster.set_fault_rates(NO_FAULTS)
        node = next(filter(self._is_up, cluster.backend.nodes), None)
        refused = None
        if node is not None:
            refused = cluster.backend.start_in_a_copy(node, _NOTICED_SECONDS)
        cluster.set_fault_rates(FREQUENT_FAULTS)
        if refused is False:
            self.unnoticed.append(f"two agents with one identity were let in on {node}")
        return None if refused is None else "agent started in a copied folder"

    def revoke_a_token(self) -> InjectedFault:
        """Revoke the token of a user who follows the events; the stream has to end, and requests with it."""
        api = self._cluster.api
        try:
            token = api.post("/v1/tokens", {"user": "eve", "role": "user"})["token"]
            eve = ApiClient(api.url, token)
            listener = threading.Thread(target=self._follow, args=(eve,), daemon=True)
            listener.start()
            time.sleep(0.5)
            api.delete(f"/v1/tokens/{hashlib.sha256(token.encode()).hexdigest()[:12]}")
        except Problem:
            return None  # no server answers now
        listener.join(_NOTICED_SECONDS)
        if listener.is_alive():
            self.unnoticed.append("a stream of events went on after its token was revoked")
        with suppress(Problem):
            eve.get("/v1/jobs")
            self.unnoticed.append("a request with a revoked token was answered")
        return "token revoked while events are followed"

    @staticmethod
    def _follow(client: ApiClient) -> None:
        with suppress(Problem, OSError):
            for _ in client.stream("/v1/events"):
                pass

    def _is_ready(self) -> bool:
        return self._cluster.get("/readyz") is not None

    def _is_up(self, node: str) -> bool:
        nodes = self._cluster.get("/v1/nodes") or {"nodes": []}
        return any(each["name"] == node and each["state"] == "up" for each in nodes["nodes"])
