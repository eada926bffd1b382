"""Searches on a Ray cluster: what local processes find, whatever becomes of its nodes."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ray_cluster import RayTestCluster, shared_ray_cluster
from systems_here import needs
from waiting import until

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting
from volvelle.simulate.sources import generated
from volvelle.tune.front import Front, read_evaluated
from volvelle.tune.search import Search, SearchProgress, tune

pytestmark = needs("pcs")

HISTORY = generated("lognormal:jobs=120,load=1.5", 3, 16).workload
PCS = Setting(cluster=parse_cluster("2x8"), composition=WrittenComposition("pcs"))
SMALL = Search(
    objectives=(read_objective("jct:mean"), read_objective("pred_error:p99")),
    candidates=8,
    samples=2,
    jobs=60,
    population=4,
    seed=1,
)
REFINED = replace(SMALL, refine=4)


@pytest.fixture
def ground() -> RayTestCluster:
    ground = shared_ray_cluster()
    ground.disconnect()
    return ground


@pytest.fixture(scope="module")
def front() -> Front:
    return tune(HISTORY, PCS, REFINED, workers=1)


def test_a_ray_cluster_finds_what_local_processes_find(
    ground: RayTestCluster, front: Front
) -> None:
    assert tune(HISTORY, PCS, REFINED, ray=ground.address).as_json() == front.as_json()


def test_what_was_found_on_ray_is_gone_on_with_anywhere(
    ground: RayTestCluster, front: Front, tmp_path: Path
) -> None:
    def stop(progress: SearchProgress) -> None:
        raise KeyboardInterrupt

    stopped = tune(HISTORY, PCS, REFINED, ray=ground.address, progress=stop)
    assert (len(stopped.evaluated), stopped.complete) == (4, False)
    path = stopped.write(tmp_path)
    resumed = tune(
        HISTORY, PCS, REFINED, workers=1, known=lambda described: read_evaluated(path, described)
    )
    assert resumed.as_json() == front.as_json()


STICKY = """
import os
import sys
import time
from pathlib import Path
from typing import ClassVar

from volvelle.core.order_policy import OrderPolicy
from volvelle.core.policy import policies
from volvelle.core.space import Dimension, Space


@policies.register
class Sticky(OrderPolicy):
    name: ClassVar[str] = "sticky"
    time_varying: ClassVar[bool] = True
    patience: float = 0.0

    @classmethod
    def search_space(cls, jobs):
        return Space((Dimension("patience", 0.0, 2.0, ""),), lambda at: f"patience={{at[0]!r}}")

    def key(self, jobs, now):
        ray = sys.modules.get("ray")
        if ray and ray.is_initialized():
            node = ray.get_runtime_context().get_node_id()
            Path({folder!r}, f"stuck-{{node}}-{{os.getpid()}}").touch()
            while not Path({folder!r}, "go").exists():
                time.sleep(0.05)
        return jobs.remaining_seconds - self.patience * (now - jobs.submit_time)
"""
"""A policy of one's own that does not get on in Ray's workers until it may."""


def sticky(folder: Path) -> Setting:
    path = folder / "sticky.py"
    path.write_text(STICKY.format(folder=str(folder)))
    return replace(PCS, composition=WrittenComposition(f"{path}:sticky"))


def stuck(folder: Path, node: str = "*") -> list[int]:
    """The workers of a node that do not get on."""
    return [int(path.name.split("-")[2]) for path in folder.glob(f"stuck-{node}-*")]


@contextmanager
def when_stuck(folder: Path, node: str, act: Callable[[], None]) -> Iterator[None]:
    """Within, ``act`` is called once a worker of ``node`` is stuck, however long workers take to start."""
    over = threading.Event()

    def wait() -> None:
        while not over.wait(0.01):
            if stuck(folder, node):
                act()
                break

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    "workers_die",
    [pytest.param(True, id="node", marks=pytest.mark.slow), pytest.param(False, id="raylet")],
)
def test_what_a_lost_node_had_in_hand_is_not_lost(
    ground: RayTestCluster, tmp_path: Path, workers_die: bool
) -> None:
    setting, node = sticky(tmp_path), ground.identity("node-0")

    def lose() -> None:
        ground.kill("node-0")
        for worker in stuck(tmp_path, node) if workers_die else ():
            os.kill(worker, signal.SIGKILL)
        (tmp_path / "go").touch()

    try:
        with when_stuck(tmp_path, node, lose):
            found = tune(HISTORY, setting, SMALL, ray=ground.address)
    finally:
        ground.add("node-0")
    assert found.as_json() == tune(HISTORY, setting, SMALL, workers=1).as_json()


def test_an_interrupted_search_leaves_nothing_running_on_the_cluster(
    ground: RayTestCluster, tmp_path: Path
) -> None:
    interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
    with when_stuck(tmp_path, ground.identity("node-1"), interrupt):
        found = tune(HISTORY, sticky(tmp_path), SMALL, ray=ground.address)
    assert not found.complete
    until(lambda: not any(Path("/proc", str(pid)).exists() for pid in stuck(tmp_path)))


def test_nodes_with_another_version_are_refused(
    ground: RayTestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volvelle.tune.on_ray.__version__", "0.0.1")
    with pytest.raises(
        Problem, match=r"a node of the Ray cluster has .*, this search is of 0\.0\.1"
    ):
        tune(HISTORY, PCS, SMALL, ray=ground.address)


def test_where_no_ray_cluster_is_nothing_is_searched(ground: RayTestCluster) -> None:
    with pytest.raises(Problem, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        tune(HISTORY, PCS, SMALL, ray="127.0.0.1:1")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Problem, match=r"package ray is needed.*-e '.\[ray\]'"):
        tune(HISTORY, PCS, SMALL, ray="auto")


def test_workers_are_not_chosen_for_a_ray_cluster() -> None:
    with pytest.raises(Problem, match="Leave one of workers and ray out"):
        tune(HISTORY, PCS, SMALL, workers=2, ray="auto")
