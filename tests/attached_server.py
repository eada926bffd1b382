"""The HTTP API of an attached cluster that a test steps through, poll by poll."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from fastapi.testclient import TestClient

from volvelle.incumbents.attach.attached import AttachedCluster
from volvelle.incumbents.attach.incumbent import Incumbent
from volvelle.incumbents.attach.server import api
from volvelle.incumbents.attach.session import Session
from volvelle.live.http.authentication import new_token
from volvelle.live.role import Role
from volvelle.live.store import Store


class AttachedServer:
    """A server over a scheduler that was asked once. asked: it, with the ``time`` of its answers."""

    def __init__(self, asked: Any, of: Incumbent[Any, Any], folder: Path) -> None:
        self.asked, self.cluster = asked, AttachedCluster(of.name)
        self.session = Session(
            asked, folder / "record", of, self.cluster.take, clock=lambda: asked.time
        )
        self.session.step()
        store = Store.open(f"sqlite:///{folder}/store.db")
        self.app = api(self.session, self.cluster)(store, lambda: False)
        self.tokens = {}
        for user, role in (("u1", Role.USER), ("root", Role.OPERATOR)):
            self.tokens[user], kept = new_token(user, role)
            store.tokens.add(kept)

    def client(self, user: str = "root") -> TestClient:
        """A client with the token of a user."""
        return TestClient(self.app, headers={"Authorization": f"Bearer {self.tokens[user]}"})

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address at which a thread of this process serves it."""
        server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_level="warning"))
        thread = Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
