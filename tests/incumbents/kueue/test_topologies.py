"""Pods in blocks, racks and nodes: one domain where it is required, the fewest where it is preferred."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from volvelle.cli.main import app
from volvelle.core.composition import WrittenComposition
from volvelle.incumbents.kueue.api import KINDS, read
from volvelle.incumbents.kueue.attach import Reader
from volvelle.incumbents.kueue.forecast import foresee
from volvelle.incumbents.kueue.pods import TopologyRequest
from volvelle.incumbents.kueue.topology import Places, Tree, place
from volvelle.incumbents.kueue.what_if import changed
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

LEVELS = ["block", "rack", "kubernetes.io/hostname"]
LABELS = {
    f"{block}{rack}{node}": {"block": block, "rack": f"{block}{rack}"}
    for block in "ab"
    for rack in "12"
    for node in "xy"
}
"""Two blocks of two racks of two nodes."""


def tree() -> Tree:
    spec = {"levels": [{"nodeLabel": level} for level in LEVELS]}
    return Tree.of(read("Topology", {"metadata": {"name": "t"}, "spec": spec}, "here"), LABELS)


def placed(room: dict[str, int], count: int, **request: Any) -> dict[str, int]:
    return place(tree(), tree().totals(room), count, TopologyRequest(**request))


@pytest.fixture
def room() -> dict[str, int]:
    """Four pods a node, but for a rack with two on each."""
    return {name: 2 if name.startswith("b1") else 4 for name in LABELS}


def test_a_required_level_is_one_domain_or_none(room: dict[str, int]) -> None:
    assert placed(room, 4, required="rack") == {"b1x": 2, "b1y": 2}, "the tightest that holds all"
    assert placed(room, 8, required="rack") == {"a1x": 4, "a1y": 4}
    assert placed(room, 9, required="rack") == {}
    assert placed(room, 9, required="block") == {"b1x": 1, "b2x": 4, "b2y": 4}
    assert placed(room, 5, required="kubernetes.io/hostname") == {}


def test_a_preferred_level_gives_way_to_larger_domains_and_at_last_to_several(
    room: dict[str, int],
) -> None:
    assert placed(room, 8, preferred="rack") == {"a1x": 4, "a1y": 4}
    assert placed(room, 12, preferred="rack") == {"b1x": 2, "b1y": 2, "b2x": 4, "b2y": 4}
    assert sum(placed(room, 20, preferred="rack").values()) == 20
    assert placed(room, 29, preferred="rack") == {}


def test_pods_that_say_nothing_go_where_least_is_free(room: dict[str, int]) -> None:
    assert placed(room, 3) == {"b1x": 2, "b1y": 1}


def test_what_is_free_of_domains_follows_what_is_taken() -> None:
    places = Places({"a": tree()}, dict.fromkeys(LABELS, 0), dict.fromkeys(LABELS, 8))
    rng = np.random.default_rng(0)
    for _ in range(50):
        name, gpus = str(rng.choice(list(LABELS))), int(rng.integers(1, 9))
        for size in (1, 2, 3):
            free = {one: max(8 - places.taken.get(one, 0), 0) // size for one in LABELS}
            assert places.room("a", 0, size) == tree().totals(free)
        places.take({name: gpus}, 1 if rng.random() < 0.5 else -1)


def test_an_unknown_level_holds_no_pods(room: dict[str, int]) -> None:
    assert placed(room, 1, required="row") == {}


# ---------------------------------------------------------------------- as a policy


@pytest.fixture
def site(tmp_path: Path) -> str:
    """A site of 8 nodes of 4 GPUs in two blocks of two racks, as a file."""

    def kube(kind: str, name: str, labels: dict[str, str] | None = None, **rest: Any) -> Any:
        return {"kind": kind, "metadata": {"name": name, "labels": labels or {}}} | rest

    gpu = "nvidia.com/gpu"
    flavor = {"name": "a100", "resources": [{"name": gpu, "nominalQuota": 32}]}
    items = [
        kube("Topology", "racks", spec={"levels": [{"nodeLabel": level} for level in LEVELS]}),
        kube("ResourceFlavor", "a100", spec={"topologyName": "racks"}),
        kube(
            "ClusterQueue",
            "all",
            spec={
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": [gpu], "flavors": [flavor]}],
            },
        ),
        *(kube("Node", name, has, status={"capacity": {gpu: 4}}) for name, has in LABELS.items()),
    ]
    (tmp_path / "objects.json").write_text(json.dumps({"kind": "List", "items": items}))
    given = [
        "site",
        "import",
        "kueue",
        str(tmp_path / "objects.json"),
        "--out",
        str(tmp_path / "s.toml"),
    ]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    return str(tmp_path / "s.toml")


def ran(site: str, asked: str, *jobs: Job) -> Outcomes:
    policy = f"kueue:site={site}" + (f",{asked}" if asked else "")
    composition = WrittenComposition(policy, placement="consolidated", estimator="oracle")
    setting = Setting(cluster=Cluster.of(site), composition=composition)
    return simulate(Workload(jobs), setting).outcomes


def job(name: str, at: float, gpus: int, **spec: Any) -> Job:
    return Job(JobSpec(id=name, submit_time=at, gpus=gpus, **spec), Truth(work=gpus * 100.0))


def test_a_gang_waits_for_a_rack_that_it_requires(site: str) -> None:
    jobs = [*(job(f"{n}", 0.0, 5) for n in range(4)), job("rack", 1.0, 8, nodes=8)]
    assert ran(site, "required=rack", *jobs).first_start.tolist() == [0.0] * 4 + [100.0]
    assert ran(site, "preferred=rack", *jobs).first_start.tolist() == [0.0] * 4 + [1.0]


def test_others_are_evicted_for_a_rack_though_quota_is_free(site: str) -> None:
    jobs = [*(job(f"{n}", float(n), 5) for n in range(4)), job("rack", 10.0, 8, priority=1)]
    outcomes = ran(site, "required=rack", *jobs)
    assert outcomes.first_start.tolist() == [0.0, 1.0, 2.0, 3.0, 10.0]
    assert outcomes.preemptions.tolist() == [0, 0, 0, 1, 0], "the one that was admitted last"


def test_a_level_that_the_site_lacks_is_named(site: str) -> None:
    with pytest.raises(Problem, match=r"has no level 'rak' \(did you mean 'rack'\?\)"):
        ran(site, "required=rak", job("a", 0.0, 1))


def test_a_site_without_topology_is_refused(site: str) -> None:
    text = Path(site).read_text().replace('topologyName = "racks"', "")
    Path(site).write_text(text)
    with pytest.raises(Problem, match="flavour a100 has no topology"):
        ran(site, "required=rack", job("a", 0.0, 1))


# ---------------------------------------------------------------------- attached


def attached(preference: str) -> dict[str, Any]:
    """A poll: two racks of two nodes of four GPUs, a workload in each; a gang of two nodes waits."""
    gpu, noon = "nvidia.com/gpu", "2026-11-01T12:00:00Z"

    def kube(kind: str, name: str, spec: Any = None, **rest: Any) -> Any:
        metadata = {"name": name, "creationTimestamp": noon} | rest.pop("metadata", {})
        return {"kind": kind, "metadata": metadata, "spec": spec or {}} | rest

    def workload(name: str, pods: int, assigned: Any, **asked: Any) -> Any:
        containers = [{"resources": {"requests": {gpu: 4}}}]
        set_ = {
            "count": pods,
            "topologyRequest": asked,
            "template": {"spec": {"containers": containers}},
        }
        usage = {"flavors": {gpu: "a100"}, "resourceUsage": {gpu: 4 * pods}, "count": pods}
        usage |= {"topologyAssignment": {"levels": [LEVELS[2]]} | (assigned or {})}
        reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": noon}
        status = {
            "conditions": [reserved],
            "admission": {"clusterQueue": "all", "podSetAssignments": [usage]},
        }
        spec = {"queueName": "gpus", "podSets": [set_]}
        return kube(
            "Workload", name, spec, metadata={"namespace": "n"}, status=status if assigned else {}
        )

    quota = {"name": "a100", "resources": [{"name": gpu, "nominalQuota": 16}]}
    groups = [{"coveredResources": [gpu], "flavors": [quota]}]
    domain = {"individual": {"prefix": "b", "roots": ["1x"]}}
    counts: dict[str, Any] = {
        "domainCount": 1,
        "podCounts": {"individual": [1]},
        "valuesPerLevel": [domain],
    }
    racks = {"levels": [{"nodeLabel": level} for level in LEVELS]}
    queue = {"namespaceSelector": {}, "resourceGroups": groups}
    found = [
        kube("Topology", "racks", racks),
        kube("ResourceFlavor", "a100", {"topologyName": "racks"}),
        kube("ClusterQueue", "all", queue),
        kube("LocalQueue", "gpus", {"clusterQueue": "all"}, metadata={"namespace": "n"}),
        *(
            kube("Node", name, metadata={"labels": LABELS[name]}, status={"capacity": {gpu: 4}})
            for name in ("a1x", "a1y", "b1x", "b1y")
        ),
        workload("long", 1, {"domains": [{"values": ["a1x"], "count": 1}]}),
        workload("short", 1, {"slices": [counts]}),
        workload("gang", 2, None, **{preference: "rack"}),
    ]
    return {kind: [one for one in found if one["kind"] == kind] for kind in KINDS}


@pytest.mark.parametrize(("preference", "seconds"), [("required", 600.0), ("preferred", 1.0)])
def test_an_attached_gang_waits_for_the_rack_that_it_requires(
    preference: str, seconds: float
) -> None:
    reader, now = Reader(), 1793534400.0
    snapshot = reader.snapshot(attached(preference), now)
    site = reader.site(attached(preference)).at(snapshot)
    assert not any("topolog" in one for one in site.remarks)
    lasting = {"n/long": 3600.0, "n/short": 600.0, "n/gang": 60.0}
    expected = foresee(site, snapshot, lasting)["n/gang"]
    assert expected.start == pytest.approx(now + seconds, abs=2.0)
    if preference == "required":
        assert "2 pods of 4 GPUs that have to be in one rack: 1 fit into the freest" in expected.why
        more, _ = changed(site, snapshot, ["ResourceFlavor=a100 nodes=+2"])
        joined = foresee(more, snapshot, lasting)["n/gang"]
        assert joined.start == pytest.approx(now + 1.0, abs=2.0), "nodes join the last one's rack"
