"""A cluster whose Kueue is not described: machine code decides as the books do."""

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.policy import Kernel
from volvelle.core.state import KERNEL
from volvelle.incumbents.kueue.policy import Kueue
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, Pool
from volvelle.model.job import Dependency, Job
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.machine_code import assert_the_same
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload


def jobs(rng: np.random.Generator) -> Workload:
    """Jobs of two priorities that come together, some elastic, dependent or crashing, one of half a GPU."""
    found: list[Job] = []
    for number in range(120):
        gpus = 0.5 if number == 70 else float(rng.choice([1, 2, 4, 8]))
        after = Dependency(f"job-{number - 9}", any_end=True, think_seconds=3.0)
        found.append(
            linear_job(
                number,
                20.0 * (number // 4),
                gpus,
                float(rng.integers(10, 150)),
                failures=(5.0,) if number % 13 == 0 else (),
                min_gpus=1.0 if gpus == 8 and number % 3 else None,
                pool=str(rng.choice(["red", "blue", ""])),
                priority=int(rng.integers(2)),
                after=(after,) if number > 9 and number % 10 == 0 else (),
            )
        )
    return Workload(tuple(found))


def outcomes() -> Outcomes:
    cluster = Cluster(
        tuple(Node(f"node-{i}", 8) for i in range(3)),
        pools=(Pool("red", 14.0, True), Pool("blue", 10.0, True)),
        changes=(
            NodeChange(150.0, "node-1", NodeState.DOWN),
            NodeChange(230.0, "node-1", NodeState.UP),
        ),
    )
    composition = WrittenComposition("kueue", "consolidated")
    setting = Setting(cluster=cluster, composition=composition)
    run = simulate(jobs(np.random.default_rng(5)), setting, compiled=True)
    assert (run.scheduler.rules.decides == KERNEL) == (Kueue().kernel(named=True) is not None)
    return run.outcomes


def test_machine_code_decides_as_the_books_do(monkeypatch: pytest.MonkeyPatch) -> None:
    quickly = outcomes()

    def none(policy: Kueue, *, named: bool) -> Kernel | None:
        return None

    monkeypatch.setattr(Kueue, "kernel", none)
    assert_the_same(quickly, outcomes())
