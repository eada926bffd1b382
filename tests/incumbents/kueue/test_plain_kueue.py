"""Sites that decide by whole GPUs alone: machine code decides as the books do."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import encode_array
from volvelle.core.policy import Allocation, Kernel
from volvelle.core.state import KERNEL
from volvelle.core.view import View
from volvelle.incumbents.kueue.flat_quotas import RULES, flat_quotas
from volvelle.incumbents.kueue.plain import GPU
from volvelle.incumbents.kueue.policy import Kueue
from volvelle.incumbents.kueue.site_file import site_at
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


def described(rng: np.random.Generator, folder: Path, **more: Any) -> Path:
    """A file with one to five queues, of cohorts or none. more: of the specification of each queue."""

    def quotas(**numbers: int) -> list[dict[str, Any]]:
        flavor = {"name": "f", "resources": [{"name": GPU} | numbers]}
        return [{"coveredResources": [GPU], "flavors": [flavor]}]

    specs: dict[tuple[str, str], dict[str, Any]] = {("ResourceFlavor", "f"): {}}
    if rng.random() < 0.4:
        specs["Cohort", "left"] = {"resourceGroups": quotas(nominalQuota=int(rng.integers(9)))}
    for number in range(int(rng.integers(1, 6))):
        cohort = str(rng.choice(["left", "left", "right", ""]))
        limits = {"borrowingLimit": 0.4, "lendingLimit": 0.3} if cohort else {}
        drawn = {
            name: int(rng.integers(9)) for name, share in limits.items() if rng.random() < share
        }
        specs["ClusterQueue", f"queue-{number}"] = {
            "namespaceSelector": {},
            "cohortName": cohort,
            "resourceGroups": quotas(nominalQuota=int(rng.integers(17)), **drawn),
            "preemption": {
                "withinClusterQueue": str(rng.choice(RULES[:3])),
                "reclaimWithinCohort": str(rng.choice([RULES[0], RULES[1], RULES[3]])),
            },
        } | more
    version = "kueue.x-k8s.io/v1beta2"
    items = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for (kind, name), spec in specs.items()
    ]
    file = folder / "site.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


@pytest.mark.parametrize("seed", range(9))
def test_a_described_site_is_decided_as_by_the_books(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals are equal where queues lend, reclaim and preempt, jobs fail and depend, and nodes go."""
    rng = np.random.default_rng(seed)
    site = described(rng, tmp_path)
    queues = sorted(site_at(site).queues)
    shrinks, priorities = rng.random() < 0.3, int(rng.integers(1, 4))
    submitted = [
        linear_job(
            number,
            10.0 * (number // 3),
            float(rng.choice([1, 2, 4, 8])),
            float(rng.integers(10, 150)),
            failures=(5.0,) if number % 13 == 0 else (),
            min_gpus=1.0 if shrinks and number % 20 == 0 else None,
            queues=(str(rng.choice(queues)),),
            priority=int(rng.integers(priorities)),
            preemptible=bool(rng.random() < 0.9),
        )
        for number in range(80)
    ]
    nodes = tuple(Node(f"node-{at}", 8) for at in range(int(rng.integers(2, 7))))
    changes = [(150.0, NodeState.DOWN), (230.0, NodeState.UP)] if seed % 3 == 0 else []
    cluster = Cluster(nodes, changes=tuple(NodeChange(at, "node-1", to) for at, to in changes))
    composition = WrittenComposition(f"kueue:site={site}", "consolidated")
    asked, allocate = [0], Kueue.allocate

    def counted(policy: Kueue, view: View) -> Allocation:
        asked[0] += 1
        return allocate(policy, view)

    def journal() -> list[bytes]:
        setting = Setting(cluster=cluster, composition=composition)
        run = simulate(Workload(tuple(submitted)), setting, journal=True, compiled=True)
        assert run.journal is not None
        return [msgspec.json.encode(one, enc_hook=encode_array) for one in run.journal.entries]

    def none(policy: Kueue, *, named: bool) -> Kernel | None:
        return None

    monkeypatch.setattr(Kueue, "allocate", counted)
    quickly, few = journal(), asked[0]
    monkeypatch.setattr(Kueue, "kernel", none)
    assert quickly == journal()
    assert few < asked[0] - few  # the kernel has decided as well


@pytest.mark.parametrize(
    "more",
    [
        {"queueingStrategy": "StrictFIFO"},
        {"stopPolicy": "Hold"},
        {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
    ],
)
def test_other_sites_are_left_to_the_books(more: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    assert flat_quotas(site_at(described(rng, tmp_path))) is not None
    assert flat_quotas(site_at(described(rng, tmp_path, **more))) is None
