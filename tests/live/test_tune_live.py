"""``volvelle tune --live``: the running policy is tuned on its past, and a point of it put in place."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from api_fixtures import ApiFixture, IdleExecutor
from fake_cluster import ControllerHarness, FakeCluster, header_of, open_controller, sleeping
from fastapi.testclient import TestClient
from systems_here import needs

from volvelle.cli.main import main
from volvelle.cli.tune_live import LiveServer
from volvelle.live.config import Limits
from volvelle.live.control.controller import Controller
from volvelle.live.http.app import create_app
from volvelle.live.http.authentication import new_token
from volvelle.live.http.client import ApiClient
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.role import Role
from volvelle.live.store import Store
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.problems import Problem
from volvelle.tune.front import Candidate, Front

pytestmark = needs("tiresias")

DAYS, JOBS = 3, 24
POLICY = "tiresias:limits=200/500"
"""Jobs take turns, though nobody gains by that."""
SMALL = ("--candidates", "3", "--samples", "1", "--jobs", "20", "--workers", "1", "--test", "0")
OBJECTIVES = ("--objective", "jct:avg", "--objective", "jct:p99")


def lived(folder: Path, cluster: Cluster) -> None:
    """A store with the past of some days, at the end of which all jobs are over."""
    nodes = {node.name for node in cluster.nodes}
    fake = FakeCluster(cluster, now=time.time() - DAYS * 86_400, up=nodes)
    header = header_of(cluster, POLICY)
    harness = ControllerHarness(folder, fake, header, open_controller(folder, fake, header))
    harness.deliver()
    for number in range(JOBS):
        harness.submit(sleeping(100.0 + 400.0 * (number % 4)))
        harness.step(300.0)
    while harness.fake_cluster.runs:
        harness.step(1000.0)
    harness.close()


@dataclass
class Client:
    """What the commands ask, by way of the application in this process."""

    http: TestClient
    url: str = "http://here"

    def _checked(self, response: Any) -> Any:
        if response.status_code >= 400:
            raise Problem(response.json()["detail"])
        return response

    def get(self, path: str) -> Any:
        return self._checked(self.http.get(path)).json()

    def put(self, path: str, body: Any) -> Any:
        return self._checked(self.http.put(path, json=body)).json()

    def stream(self, path: str) -> Iterator[bytes]:
        yield self._checked(self.http.get(path)).content


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiFixture]:
    folder, cluster = tmp_path_factory.mktemp("server"), parse_cluster("1x2")
    lived(folder, cluster)
    store = Store.open(str(folder / "store.db"))
    context = ExecutorContext(cluster, folder, "secret")
    controller = Controller(store, header_of(cluster, POLICY), IdleExecutor(), context)
    controller.start()
    app = create_app(controller, store, Limits(), folder, folder / "fronts")
    api = ApiFixture(controller, store, app)  # type: ignore[arg-type]
    for user, role in (("dana", Role.USER), ("root", Role.OPERATOR)):
        api.tokens[user], kept = new_token(user, role)
        store.tokens.add(kept)
    yield api
    controller.stop()


@pytest.fixture
def as_user(api: ApiFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the command as a user of the server; its exit status."""
    monkeypatch.chdir(tmp_path)

    def run(user: str, *more: str) -> int:
        monkeypatch.setattr(ApiClient, "find", lambda: Client(api.client(user)))
        monkeypatch.setattr(sys, "argv", ["volvelle", "tune", "--live", *OBJECTIVES, *SMALL, *more])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return run


def test_a_server_is_tuned_on_its_past_and_a_point_is_put_in_place(
    api: ApiFixture, as_user: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pymoo")
    assert as_user("root", "--put", "balanced") == 0
    out = capsys.readouterr().out
    assert f"Against {POLICY}, which decides now:" in out
    front = json.loads(Path("volvelle-tune/front.json").read_text())
    assert front["policy"] == "tiresias"
    assert front["search"]["jobs_in_history"] == JOBS
    assert front["search"]["composition"]["estimator"] == "declared", "the server's own"
    assert front["present"]["written"] == POLICY
    assert front["present"]["train"]["jct:mean"]["mean"] > 0.0
    chosen = front["points"][front["picks"]["balanced"]]["written"]
    assert api.controller.composition.policy.label == chosen
    assert f"{chosen} decides" in out


def test_what_is_in_place_stays_where_the_point_is_better_in_nothing(
    api: ApiFixture, capsys: Any
) -> None:
    objectives = (read_objective("jct:avg"), read_objective("jct:p99"))
    point = Candidate((), "limits=9", ((60.0, 100.0),))
    present = Candidate((), "tiresias", ((60.0, 90.0),))
    front = Front("tiresias", objectives, (point,), (point,), {}, present=present)
    client: Any = Client(api.client("dana"))
    LiveServer(client, Path("journal.jsonl"), "tiresias", "accept-all").put(front, "balanced")
    assert capsys.readouterr().out == "tiresias stays: balanced is better in nothing\n"
    assert front.against_present(0) == "mean JCT stays 1m 00s, p99 JCT rises from 1m 30s to 1m 40s"


def test_only_so_much_of_the_past_counts_as_was_said(as_user: Any, capsys: Any) -> None:
    pytest.importorskip("pymoo")
    assert as_user("root", "--last", "1h") == 2
    assert "of its 13 jobs, too few to sample from" in capsys.readouterr().err


def test_it_is_for_operators_and_for_the_servers_own_jobs(as_user: Any, capsys: Any) -> None:
    assert as_user("dana") == 1
    assert "only operators may do this" in capsys.readouterr().err
    assert as_user("root", "--generate", "lognormal") == 2
    assert "with --live the jobs are those of the server" in capsys.readouterr().err
    assert as_user("root", "--last", "soon") == 2
