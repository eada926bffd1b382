"""Labels of nodes, and jobs that ask for them."""

import pytest
from systems_here import of

from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.model.cluster import Cluster, Node, cluster_from
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.testing.scenario import Scenario, linear_job


def submit(job: Job, number: int) -> JobSubmitted:
    return JobSubmitted(0.0, number, job.spec, job.truth)


def test_a_cluster_file_says_the_labels_of_nodes() -> None:
    document = {"nodes": [{"gpus": 2, "labels": ["zone=a", "nvlink"]}, {"name": "b", "gpus": 2}]}
    cluster = cluster_from(document, "here")
    assert [kind.labels for kind in cluster.kinds] == [(), ("nvlink", "zone=a")]
    document["nodes"][1]["labels"] = ["with space"]
    with pytest.raises(Problem, match="'with space' is no label"):
        cluster_from(document, "here")
    each = [{"name": f"n{at}", "gpus": 1, "labels": [f"host={at}"]} for at in range(51)]
    with pytest.raises(Problem, match="the nodes are of 51 kinds"):
        cluster_from({"nodes": each}, "here")


@pytest.mark.parametrize(
    ("constraints", "types", "gpus", "reason"),
    [
        (
            ("zone=c",),
            (),
            1.0,
            "wants nodes with zone=c, the cluster's have nvlink, zone=a, zone=b",
        ),
        (("nvlink",), ("b",), 1.0, "wants nodes with nvlink and GPUs of type b, the cluster"),
        (("nvlink",), (), 4.0, "wants 4 GPUs on nodes with nvlink, the cluster has 2 alike in"),
        (("zone",), (), 4.0, ""),
        (("nvlink", "zone=a"), (), 2.0, ""),
    ],
)
def test_a_job_whose_constraints_no_node_could_meet_is_rejected(
    constraints: tuple[str, ...], types: tuple[str, ...], gpus: float, reason: str
) -> None:
    nodes = Node("x", 2, "a", labels=("nvlink", "zone=a")), Node("y", 4, "b", labels=("zone=b",))
    job = linear_job(0, 0.0, gpus, 1.0, gpu_types=types, constraints=constraints)
    scheduler = Scenario.of(Cluster(nodes), [], policy="fifo", placement="none").scheduler()
    decision = scheduler.handle(0.0, [submit(job, 0)])
    assert [r.reason.startswith(reason) for r in decision.rejected] == [True] * bool(reason)


@pytest.mark.parametrize("placement", ["none", "consolidated"])
def test_a_job_with_constraints_waits_for_nodes_that_meet_them_and_others_do_not(
    placement: str,
) -> None:
    nodes = Node("x", 2, labels=("nvlink",)), Node("y", 2)
    scheduler = Scenario.of(Cluster(nodes), [], policy="fifo-skip", placement=placement).scheduler()
    jobs = [linear_job(n, 0.0, 2.0, 9.0, constraints=("nvlink",)[: n < 2]) for n in range(3)]
    decision = scheduler.handle(0.0, [submit(job, n) for n, job in enumerate(jobs)])
    kinds = [scheduler.resources.kinds[at].labels for at in decision.gpu_type]
    assert dict(zip(decision.job.tolist(), kinds, strict=True)) == {0: ("nvlink",), 2: ()}
    assert Fork(scheduler).until().finish == {0: 9.0, 1: 18.0, 2: 9.0}


def test_a_job_without_constraints_leaves_nodes_with_labels_to_others() -> None:
    nodes = Node("x", 2, labels=("nvlink",)), Node("y", 2)
    scheduler = Scenario.of(Cluster(nodes), [], policy="fifo", placement="consolidated").scheduler()
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 2.0, 9.0), 0)])
    assert scheduler.resources.owner.tolist() == [-1, -1, 0, 0]


@pytest.mark.parametrize(
    "placement", ["first-free", "consolidated", of("chronus", "local-search"), of("hived", "buddy")]
)
def test_an_exclusive_job_gets_whole_nodes_alone(placement: str) -> None:
    scheduler = Scenario.of(
        Cluster(tuple(Node(name, 2) for name in "xyz")), [], policy="srsf", placement=placement
    ).scheduler()
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 9.0), 0)])
    scheduler.handle(0.0, [submit(linear_job(1, 0.0, 4.0, 9.0, exclusive=True), 1)])
    owners = scheduler.resources.owner.reshape(3, 2)
    assert sorted(map(sorted, owners.tolist())) == [[-1, 0], [1, 1], [1, 1]]
    scheduler.handle(1.0, [submit(linear_job(2, 1.0, 1.0, 9.0), 2)])
    scheduler.handle(1.0, [submit(linear_job(3, 1.0, 2.0, 20.0, exclusive=True), 3)])
    assert Fork(scheduler).until().finish == {0: 9.0, 1: 9.0, 2: 10.0, 3: 29.0}


@pytest.mark.parametrize(
    ("policy", "placement", "gpus", "reason"),
    [
        (
            "fifo",
            "consolidated",
            3.0,
            "wants nodes of its own, and 3 GPUs are no whole nodes with 2",
        ),
        (
            "fifo",
            "none",
            2.0,
            "wants nodes of its own, which this policy and placement do not give",
        ),
        of("pollux", "pollux", "consolidated", 2.0, "wants nodes of its own, which this policy"),
    ],
)
def test_an_exclusive_job_that_could_never_have_its_nodes_is_rejected(
    policy: str, placement: str, gpus: float, reason: str
) -> None:
    scheduler = Scenario.of(
        Cluster((Node("x", 2), Node("y", 2))), [], policy=policy, placement=placement
    ).scheduler()
    decision = scheduler.handle(0.0, [submit(linear_job(0, 0.0, gpus, 9.0, exclusive=True), 0)])
    assert [rejection.reason.startswith(reason) for rejection in decision.rejected] == [True]
