"""Sixteen raylets with four GPUs each, on this machine: gangs over them, while some are killed.

It takes minutes and gigabytes, so it is run only when asked for: ``pytest -m slow``.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from evidence import broken_histories, gpus_held_twice, jobs_run_twice, read_traces
from ray_cluster import RayTestCluster
from running_controller import running_controller, submit_traced
from waiting import until

from volvelle.live.control.controller import Controller

_NODES = {f"node-{n}": 4 for n in range(16)}
_WIDTHS = (1, 2, 3, 4, 6, 8)
_ITERATIONS = (30, 90)
_JOBS = 80


def wait_for(holds: Callable[[], bool], what: str) -> None:
    until(holds, what, 900.0)


def up(controller: Controller) -> int:
    return sum(node.state == "up" for node in controller.status.nodes)


def more(count: Callable[[], int], by: int) -> Callable[[], bool]:
    goal = count() + by
    return lambda: count() >= goal


def kill_some(controller: Controller, ray: RayTestCluster, victims: list[str]) -> None:
    """Kill raylets, and add others of their names once all of them are lost."""
    for name in victims:
        ray.kill(name)
    wait_for(lambda: up(controller) == len(_NODES) - len(victims), f"{victims} to be lost")
    for name in victims:
        ray.add(name, _NODES[name])
    wait_for(lambda: up(controller) == len(_NODES), f"{victims} to be back")


@pytest.mark.slow
def test_sixteen_raylets_lose_nothing_while_some_are_killed(tmp_path: Path) -> None:
    rng = random.Random(1)
    (traces := tmp_path / "traces").mkdir()
    ray = RayTestCluster(_NODES)
    executor = f"ray:address={ray.address},settle_seconds=3"
    totals: dict[int, int] = {}

    def begun() -> int:
        return len(list(traces.glob("*.jsonl")))

    try:
        with running_controller(tmp_path, "16x4", executor, "las:round=5") as controller:
            wait_for(lambda: up(controller) == len(_NODES), "all nodes")
            for _ in range(_JOBS):
                total, gpus = rng.randint(*_ITERATIONS), rng.choice(_WIDTHS)
                number = submit_traced(controller, traces, gpus, total, seconds=0.1)
                totals[number] = total
            for together in (1, 2, 3):
                wait_for(more(begun, 10), "jobs to get on")
                busy = [node.name for node in controller.status.nodes if node.jobs]
                kill_some(controller, ray, rng.sample(busy, together))
            wait_for(lambda: not controller.status.jobs, "the queue to drain")
            ended = [record.state for record in controller.store.jobs.list_latest(limit=2 * _JOBS)]
    finally:
        ray.end()
    found = read_traces(traces)
    assert ended == ["finished"] * _JOBS
    assert list(gpus_held_twice(found)) == []
    assert list(jobs_run_twice(found)) == []
    assert list(broken_histories(found, totals)) == []
    assert max(one.rank for one in found) > 0
    assert len({(one.job, one.attempt) for one in found}) > _JOBS
