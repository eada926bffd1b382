"""A kernel decides for a cluster whose Slurm is not described; where Python is asked, the controller does."""

import msgspec
import pytest

from volvelle.core.policy import Allocation, interpreted
from volvelle.core.view import View
from volvelle.incumbents.slurm.policy import Slurm
from volvelle.model.cluster import NodeChange, NodeState, parse_cluster
from volvelle.model.job import Job
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job


def _job(number: int) -> Job:
    """A job of a few minutes; some ask for two nodes, for whole ones, or say how long they take."""
    gpus = float([1, 4, 2, 1, 8, 4][number % 6])
    declared = {
        "nodes": 2 * (number % 5 == 1 and gpus > 1.0),
        "exclusive": number % 7 == 1 and gpus == 4.0,
        "time_limit_seconds": 300.0 if number % 3 == 0 else None,
        "estimate_seconds": 40.0 * (1 + number % 4) if number % 2 == 0 else None,
    }
    seconds = 30.0 + 37.0 * (number % 5)
    failures = (0.5 * gpus * seconds,) if number % 11 == 0 else ()
    return linear_job(number, 12.0 * number, gpus, seconds, failures=failures, **declared)


def _scenario(placement: str) -> Scenario:
    cluster = msgspec.structs.replace(
        parse_cluster("3x4"),
        changes=(
            NodeChange(150.0, "node-1", NodeState.DOWN),
            NodeChange(400.0, "node-1", NodeState.UP),
        ),
    )
    return Scenario.of(cluster, [*map(_job, range(60))], policy="slurm", placement=placement)


@pytest.mark.parametrize("placement", ["consolidated", "most-free"])
def test_the_controller_goes_on_exactly_where_the_kernel_has_decided(
    placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = _scenario(placement)
    asked: list[float] = []

    def ask_python(world: World) -> None:
        if world.moments == 40:
            assert not asked
            monkeypatch.setattr(Slurm, "kernel", lambda *_, **__: None)
            world.scheduler.apply_rules()

    allocate = Slurm.allocate

    def noted(policy: Slurm, view: View) -> Allocation:
        asked.append(view.now)
        return allocate(policy, view)

    monkeypatch.setattr(Slurm, "allocate", noted)
    run = happen(scenario, on_moment=ask_python, compiled=True)
    assert len(asked) > 10
    monkeypatch.undo()
    by_python = happen(scenario)
    assert run.journal_bytes == by_python.journal_bytes
    policy = by_python.scheduler.composition.policy
    assert policy.kernel(named=True) is None, "it is not compiled where it would only yield"


def test_the_kernel_names_the_nodes_that_the_controller_does_interpreted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = _scenario("consolidated")
    by_controller = happen(scenario).journal_bytes

    def by_kernel(policy: Slurm, view: View) -> Allocation:
        policy.refresh(view)
        kernel = policy.kernel(named=view.resources.named)
        assert kernel is not None
        return interpreted(kernel, view)._replace(reason=None, order=None)

    monkeypatch.setattr(Slurm, "allocate", by_kernel)
    assert happen(scenario).journal_bytes == by_controller
