"""Ray's autoscaler adds nodes for jobs that wait, and takes them away when they have none."""

from pathlib import Path

import pytest
from evidence import broken_histories, read_traces
from ray_cluster import AutoscalingTestCluster
from running_controller import running_controller, submit_traced
from waiting import until

from volvelle.live.control.controller import Controller
from volvelle.live.nodes.executor import executors
from volvelle.live.nodes.executors.ray_autoscaling import Autoscaling, bundles
from volvelle.live.nodes.executors.ray_nodes import RayNode, assign_names
from volvelle.live.nodes.gpu_demand import GpuDemand, WaitingJob
from volvelle.model.cluster import Node, parse_cluster
from volvelle.model.problems import Problem

_STARTING_SECONDS = 150.0
"""A raylet takes a few seconds to start; on a busy machine a minute."""


def states(controller: Controller) -> list[str]:
    return sorted(node.state for node in controller.status.nodes)


@pytest.mark.slow
def test_a_waiting_job_adds_nodes_which_are_released_when_idle(tmp_path: Path) -> None:
    ray = AutoscalingTestCluster(tmp_path, most=3, gpus=2)
    (traces := tmp_path / "traces").mkdir()
    executor = f"ray:address={ray.address},autoscale=true,idle_seconds=2,settle_seconds=2"
    try:
        with running_controller(tmp_path, "3x2", executor, "fifo") as controller:

            def show(*wanted: str) -> None:
                what = f"nodes to be {wanted}"
                until(lambda: states(controller) == [*wanted], what, _STARTING_SECONDS)

            show("down", "down", "down")
            number = submit_traced(controller, traces, 3, iterations=20, seconds=0.05)
            show("down", "up", "up")
            until(lambda: not controller.status.jobs, "the job", _STARTING_SECONDS)
            show("down", "down", "down")
            again = submit_traced(controller, traces, 1, iterations=5, seconds=0.05)
            until(lambda: not controller.status.jobs, "a node to be taken again", _STARTING_SECONDS)
            show("down", "down", "down")
            until(lambda: not ray.gpus_alive(), "no node to be left", _STARTING_SECONDS)
            last = submit_traced(controller, traces, 1, iterations=5, seconds=0.05)
            show("down", "down", "up")
            until(lambda: not controller.status.jobs, "the last job", _STARTING_SECONDS)
        assert not list(broken_histories(read_traces(traces), {number: 20, again: 5, last: 5}))
    finally:
        ray.end()


def test_ray_is_asked_for_held_and_awaited_gpus_up_to_the_cluster() -> None:
    held, waiting = {"node-0": 3}, (WaitingJob(1), WaitingJob(6), WaitingJob(4))
    assert list(bundles(GpuDemand(held, waiting), parse_cluster("3x4"))) == [
        {"GPU": 3},
        {"GPU": 1},
        {"GPU": 4},
        {"GPU": 2},
    ]


def test_ray_is_asked_for_the_types_that_jobs_want() -> None:
    cluster = parse_cluster("2x4:a100,2x8:h100")
    requested = bundles(
        GpuDemand({"node-0": 1}, (WaitingJob(9, ("h100",)), WaitingJob(1))), cluster
    )
    assert [
        {name: amount for name, amount in each.items() if amount >= 1} for each in requested
    ] == [
        {"GPU": 1},
        {"GPU": 8},
        {"GPU": 1},
        {"GPU": 1},
    ]
    kinds = [
        sorted(each)[-1] for each in bundles(GpuDemand({}, (WaitingJob(9, ("h100",)),)), cluster)
    ]
    assert kinds == ["accelerator_type:H100"] * 2


def test_a_node_is_idle_after_a_time_without_jobs_while_none_waits() -> None:
    scaling = Autoscaling(parse_cluster("2x4"), idle_seconds=10.0)
    busy = GpuDemand({"node-0": 1})
    assert scaling.idle_nodes(["node-0", "node-1"], busy, 0.0) == []
    assert scaling.idle_nodes(["node-0", "node-1"], busy, 10.0) == ["node-1"]
    assert scaling.idle_nodes(["node-0", "node-1"], GpuDemand(waiting=(WaitingJob(1),)), 15.0) == []
    assert scaling.idle_nodes(["node-0", "node-1"], GpuDemand(), 24.0) == []
    assert scaling.idle_nodes(["node-0", "node-1"], GpuDemand(), 25.0) == ["node-0", "node-1"]


def ray_node(id: str, name: str, gpus: int = 2) -> RayNode:
    return RayNode(id, Node(name, gpus))


def test_a_node_keeps_its_name_after_another_of_that_name_was_removed() -> None:
    both = assign_names([ray_node("a", "vm"), ray_node("b", "vm")], {}, (), "ab", ())
    assert {name: one.id for name, one in both.items()} == {"vm": "a", "vm-b": "b"}
    assert assign_names([ray_node("b", "vm")], both, (), "b", ()) == both
    waits = assign_names([ray_node("b", "vm"), ray_node("c", "vm")], both, (), "b", ())
    assert waits == both  # jobs of the first may still run
    freed = assign_names([ray_node("b", "vm"), ray_node("c", "vm")], both, ("vm",), "b", ())
    assert {name: one.id for name, one in freed.items()} == {"vm": "c", "vm-b": "b"}


def test_nodes_that_ray_adds_get_names_of_nodes_with_such_gpus() -> None:
    templates = parse_cluster("1x4,2x2").nodes
    added = [ray_node(id, "vm") for id in "abc"]
    found = assign_names(added, {}, (), (), templates)
    assert {name: one.id for name, one in found.items()} == {"node-1": "a", "node-2": "b"}


def test_autoscaling_needs_a_largest_cluster() -> None:
    with pytest.raises(Problem, match="largest size of the cluster"):
        executors.make("ray:autoscale=true").discover_cluster()
