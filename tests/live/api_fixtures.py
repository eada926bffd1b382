"""The API in this process over a real controller, and a client for each of three users."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from fake_cluster import NoLogs, header_of
from fastapi import FastAPI
from fastapi.testclient import TestClient

from volvelle.live.config import Limits
from volvelle.live.control.controller import Controller
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.http.app import create_app
from volvelle.live.http.authentication import new_token
from volvelle.live.messages import NodeJoined, Order, Report
from volvelle.live.nodes.executor import Executor, ExecutorContext
from volvelle.live.role import Role
from volvelle.live.store import CycleBatch, Store, StoreFailed
from volvelle.model.cluster import parse_cluster

TRAIN = {"name": "bert", "command": ["python", "train.py"], "environment": {"KEY": "secret"}}
"""A job that asks for a GPU."""


class IdleExecutor(Executor):
    """An executor whose nodes join and never start anything."""

    name: ClassVar[str] = "idle"
    logs: ClassVar[NoLogs] = NoLogs()

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> "IdleExecutor":
        for node in context.cluster.nodes:
            report(NodeJoined(node=node))
        return self

    def send(self, order: Order) -> None:
        pass

    def close(self) -> None:
        pass


class FragileStore(Store):
    """A store that fails while it is ``down``."""

    down = False

    def append(self, batch: CycleBatch) -> None:
        if self.down:
            raise StoreFailed("it is down")
        super().append(batch)


@dataclass
class ApiFixture:
    """An application, its controller, and tokens of users."""

    controller: Controller
    store: FragileStore
    app: FastAPI
    tokens: dict[str, str] = field(default_factory=dict)

    def client(self, user: str | None = None) -> TestClient:
        """A client with the token of ``user``; anonymous without one."""
        headers = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)


@contextmanager
def open_api(
    folder: Path,
    body_bytes: int = 10_000,
    request: float = 0.5,
    nodes: str = "1x8",
    placement: str = "first-free",
) -> Iterator[ApiFixture]:
    """The API over a controller that keeps its store in ``folder``."""
    store = FragileStore.open(f"sqlite:///{folder}/store.db")
    cluster = parse_cluster(nodes)
    context = ExecutorContext(cluster, folder, "secret")
    secrets = SecretBox(folder / "secrets.key")
    header = header_of(cluster, placement=placement)
    controller = Controller(store, header, IdleExecutor(), context, secrets=secrets)
    controller.start()
    limits = Limits(body_bytes=body_bytes, request=request, jobs=50, jobs_of_a_user=40)
    app = create_app(controller, store, limits, folder, folder / "fronts")
    api = ApiFixture(controller, store, app)
    for user, role in (("dana", Role.USER), ("lee", Role.USER), ("root", Role.OPERATOR)):
        api.tokens[user], kept = new_token(user, role)
        store.tokens.add(kept)
    yield api
    store.down = False
    controller.stop()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiFixture]:
    with open_api(tmp_path) as api:
        yield api
