"""Sites with Kueue: out of YAML and JSON, in one file, as a policy beside others."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from volvelle.cli.main import app
from volvelle.core.composition import WrittenComposition
from volvelle.incumbents.kueue.books import Books
from volvelle.incumbents.kueue.policy import Kueue
from volvelle.incumbents.kueue.read_site import documents_at, site_of
from volvelle.incumbents.kueue.simulated import workload_of
from volvelle.incumbents.kueue.site_file import site_at
from volvelle.incumbents.kueue.unmodelled import unmodelled
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.policies import runs_of_related_jobs_are_sound
from volvelle.workload.workload import Workload

GPU = "nvidia.com/gpu"
MANIFEST = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
spec: {nodeLabels: {zone: a}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a100
      resources: [{name: nvidia.com/gpu, nominalQuota: 4}]
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: text}
spec:
  cohort: lab
  namespaceSelector: {}
  admissionChecks: [provisioned]
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a100
      resources: [{name: nvidia.com/gpu, nominalQuota: "4"}]
"""


def kube(kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    """An object as ``kubectl get -o json`` prints it."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta} | rest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    there = tmp_path / "objects"
    there.mkdir()
    (there / "queues.yaml").write_text(MANIFEST)
    items = [
        kube("LocalQueue", "images", "v", spec={"clusterQueue": "vision"}),
        kube("LocalQueue", "words", "t", spec={"clusterQueue": "text"}),
        kube("WorkloadPriorityClass", "urgent", value=100),
        kube("MultiKueueCluster", "far"),
    ]
    nodes = [
        kube(
            "Node",
            f"n{at}",
            status={
                "capacity": {"cpu": "64", "memory": "512Gi", GPU: "4", "ephemeral-storage": "1Ti"}
            },
        )
        for at in range(2)
    ]
    for node in nodes:
        node["apiVersion"] = "v1"
        node["metadata"]["labels"] = {
            "zone": "a",
            "kubernetes.io/hostname": node["metadata"]["name"],
        }
    (there / "rest.json").write_text(json.dumps({"kind": "List", "items": [*items, *nodes]}))
    return there


def job(name: str, at: float, gpus: float, queue: str = "images", **spec: Any) -> Job:
    return Job(
        JobSpec(id=name, submit_time=at, gpus=gpus, queues=(queue,), **spec),
        Truth(work=gpus * 100.0),
    )


def ran(site: str, cluster: str, *jobs: Job) -> Outcomes:
    """What becomes of jobs of 100 s each under the site's Kueue."""
    composition = WrittenComposition(f"kueue:site={site}" if site else "kueue", estimator="oracle")
    setting = Setting(cluster=Cluster.of(cluster), composition=composition)
    return simulate(Workload(jobs), setting).outcomes


def imported(folder: Path) -> tuple[Path, str]:
    """The file that an import writes, and what it says."""
    file = folder.parent / "site.toml"
    result = CliRunner().invoke(app, ["site", "import", "kueue", str(folder), "--out", str(file)])
    assert result.exit_code == 0, result.output
    return file, result.output


def test_a_site_comes_back_from_its_file(folder: Path) -> None:
    file, said = imported(folder)
    assert "2 ClusterQueues, 0 Cohorts, 1 flavours, 2 nodes, 8 GPUs" in said
    assert site_at(file) == site_at(folder).settled()
    nodes = Cluster.of(str(file)).nodes
    assert [(one.gpus, one.gpu_type, one.cpus, one.memory_gb) for one in nodes] == [
        (4, "a100", 64.0, 512.0)
    ] * 2
    assert nodes[0].labels == ("zone=a",), "labels that no flavour names make no kinds of nodes"


def test_nodes_are_made_up_where_none_were_read(folder: Path) -> None:
    (folder / "rest.json").unlink()
    file, said = imported(folder)
    assert "No nodes were read: 1 nodes of up to 8 GPUs stand for the quotas" in said
    assert Cluster.of(str(file)).gpus == 8


def test_what_is_not_modelled_is_named_with_the_objects_that_it_touches(folder: Path) -> None:
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "waitForPodsReady": {"timeout": "5m"},
        "featureGates": {"PartialAdmission": False, "Shiny": True},
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
    }
    text = json.dumps(settings)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"controller_manager_config.yaml": text},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "flavor.yml").write_text(
        json.dumps(kube("ResourceFlavor", "h100", spec={"topologyName": "racks"}))
    )
    said = "\n".join(unmodelled(documents_at(folder)))
    for sentence in (
        "MultiKueueCluster: jobs run on this cluster (1 object)",
        "ClusterQueue: admission checks: they count as passed at once (1 object)",
        "Configuration, waitForPodsReady",
        "feature gate Shiny",
    ):
        assert sentence in said
    configuration = site_at(folder).configuration
    assert (configuration.fair, configuration.partial) == (True, False)
    assert configuration.strategies == ("LessThanInitialShare",)


def test_objects_that_refer_to_nothing_are_named(folder: Path) -> None:
    lost = [
        kube("LocalQueue", "stray", "v", spec={"clusterQueue": "gone"}),
        kube("Workload", "w", "v", spec={"queueName": "nowhere"}),
        kube(
            "Workload",
            "x",
            "v",
            spec={
                "queueName": "stray",
                "priorityClassName": "nobody",
                "podSets": [{"topologyRequest": {"required": "rak"}}],
            },
        ),
        kube("WorkloadPriorityClass", "usual"),
        kube("Topology", "racks", spec={"levels": [{"nodeLabel": "rack"}]}),
    ]
    (folder / "lost.json").write_text(json.dumps({"kind": "List", "items": lost}))
    text = MANIFEST.replace("name: a100}", "name: b100}", 1)
    (folder / "queues.yaml").write_text(text)
    file, said = imported(folder)
    with pytest.raises(
        Problem, match="ClusterQueue text, which jobs name, admits nothing: its flav"
    ):
        ran(str(file), str(file), job("a", 0.0, 1, "text"))
    for sentence in (
        "Class nobody is not there: workloads that name it have priority 0 (1)",
        "No topology has level rak: pods that ask for it find no place (1)",
        "ClusterQueue text names flavour a100, which is not there: it admits nothing",
        "LocalQueue v/stray leads to ClusterQueue gone, which is not there",
        "LocalQueue v/nowhere is not there: workloads that name it wait for good (1)",
    ):
        assert sentence in said


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("queues.yaml", "kind: [", "queues.yaml cannot be read"),
        ("queues.yaml", "- 1", "holds no object"),
        ("queues.yaml", "kind: ConfigMap", "there is no ClusterQueue"),
        ("queues.yaml", MANIFEST.replace("v1beta1", "v1beta7"), "version 'v1beta7' of Kueue's API"),
        ("queues.yaml", MANIFEST.replace("nominalQuota: 4", "nominal: 4"), "nominalQuota"),
        ("rest.json", "{", "rest.json cannot be read"),
    ],
)
def test_a_mistake_is_named_with_its_file(
    folder: Path, name: str, text: str, sentence: str
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(Problem) as caught:
        site_of(documents_at(folder))
    assert sentence in str(caught.value)


def test_a_path_without_a_site_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="there is no file or folder"):
        site_at(tmp_path / "nowhere")
    (tmp_path / "other.toml").write_text("[slurm]")
    with pytest.raises(Problem, match=r"has no kueue\.objects"):
        site_at(tmp_path / "other.toml")


# ---------------------------------------------------------------------- as a policy


def test_quota_is_borrowed_and_reclaimed(folder: Path) -> None:
    file, _ = imported(folder)
    jobs = [job("lent", 0.0, 8, "words"), job("mine", 10.0, 4)]
    outcomes = ran(str(file), str(file), *jobs)
    # The loan is taken back at 10 s; the borrower waits until both fit, and goes on from there.
    assert outcomes.first_start.tolist() == [0.0, 10.0]
    assert outcomes.finish.tolist() == [200.0, 110.0]
    assert outcomes.preemptions.tolist() == [1, 0]


def test_a_class_is_a_priority_and_the_lowest_goes_first(folder: Path) -> None:
    file, _ = imported(folder)
    jobs = [job("a", 0.0, 4), job("b", 0.0, 4, "words"), job("c", 5.0, 4, qos="urgent")]
    assert ran(str(file), str(file), *jobs).first_start.tolist() == [0.0, 0.0, 5.0]


def test_an_elastic_job_is_admitted_with_as_many_gpus_as_fit(folder: Path) -> None:
    file, _ = imported(folder)
    jobs = [job("b", 0.0, 6), job("e", 1.0, 4, "words", min_gpus=1.0)]
    outcomes = ran(str(file), str(file), *jobs)
    assert outcomes.first_start.tolist() == [0.0, 1.0]
    assert outcomes.finish.tolist() == [100.0, 201.0]


def test_a_job_that_waits_says_why(folder: Path) -> None:
    policy = Kueue(site=str(folder))
    books = policy._books = Books(site_at(folder).settled(), {"a100": 1})
    for number, (gpus, queue) in enumerate(
        [(6, "words"), (6, "words"), (9, "words"), (4, "images")]
    ):
        one = job("", float(number), gpus, queue)
        books.enter(number, workload_of(number, one.spec, 0, books.site), 1, 0)
        books.schedule(float(number))
    assert policy.why(1) == (
        "WaitingForQuota: others hold the quota that it could use (ClusterQueue text)"
    )
    assert policy.why(2).startswith(
        "ExceedsMaxQuota: it asks for more than its queue can ever have"
    )
    assert policy.why(3) == "admitted by ClusterQueue vision, waiting for nodes"
    assert policy.why(0).startswith(
        "InCohortReclamation: it was evicted from quota that it borrowed"
    )
    assert policy.why(4) == ""


def test_queues_that_the_site_lacks_are_refused(folder: Path) -> None:
    file, _ = imported(folder)
    with pytest.raises(Problem, match="the jobs name queues gpu-week, of which"):
        ran(str(file), str(file), job("a", 0.0, 1, "gpu-week"))


def test_flavours_without_nodes_are_refused(folder: Path) -> None:
    text = MANIFEST.replace("{nodeLabels: {zone: a}}", "{nodeLabels: {zone: b}}")
    (folder / "queues.yaml").write_text(text)
    with pytest.raises(Problem, match="no node of the simulated cluster is of a flavour"):
        ran(str(folder), "2x4", job("a", 0.0, 1))


def test_without_a_site_it_is_first_come_with_gaps_filled() -> None:
    jobs = [job("a", 0.0, 3), job("b", 1.0, 4), job("c", 2.0, 1)]
    assert ran("", "1x4", *jobs).first_start.tolist() == [0.0, 102.0, 2.0]


def test_runs_are_sound_with_preemption_and_a_strict_queue(tmp_path: Path) -> None:
    """All that policies promise of a run: snapshots, replays, forks, nothing given twice."""
    group = {
        "coveredResources": [GPU],
        "flavors": [{"name": "any", "resources": [{"name": GPU, "nominalQuota": 1000}]}],
    }
    spec = {
        "namespaceSelector": {},
        "queueingStrategy": "StrictFIFO",
        "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"},
        "resourceGroups": [group],
    }
    items = [kube("ClusterQueue", "all", spec=spec), kube("ResourceFlavor", "any")]
    (tmp_path / "site.json").write_text(json.dumps({"kind": "List", "items": items}))
    runs_of_related_jobs_are_sound(f"kueue:site={tmp_path / 'site.json'}")
