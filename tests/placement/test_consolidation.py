"""Placements that treat jobs differently or wait: brute force on small clusters."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from systems_here import needs, of

from volvelle.core.parts import KnownJob, placements
from volvelle.core.resources import Resources
from volvelle.model.cluster import Cluster, Node, parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import LINEAR, Log2
from volvelle.placement.basic import fewest_nodes
from volvelle.testing.audit import audited
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen, linear_job


@st.composite
def requests(draw: st.DrawFn) -> tuple[Resources, int]:
    """A partly taken cluster of up to five nodes, and a number of GPUs that it has free."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cluster = Cluster(tuple(Node(f"n{i}", gpus) for i, gpus in enumerate(widths)))
    resources = partly_taken(cluster, draw(st.sets(st.integers(0, sum(widths) - 1))))
    assume(resources.free.sum())
    return resources, draw(st.integers(1, int(resources.free.sum())))


def fewest(sizes: np.ndarray, gpus: int) -> int:
    """By trying every set of nodes."""
    nodes = range(len(sizes))
    return next(
        count
        for count in range(1, len(sizes) + 1)
        if any(sizes[list(some)].sum() >= gpus for some in itertools.combinations(nodes, count))
    )


@given(requests())
def test_strict_takes_the_fewest_nodes_there_are_or_waits(request: tuple[Resources, int]) -> None:
    resources, gpus = request
    could = fewest(np.diff(resources.first_slot), gpus)
    can = fewest(resources.free, gpus)
    assert fewest_nodes(resources.free, gpus, resources) == could
    taken = placements.make("consolidated-strict").choose(resources.free, gpus, resources)
    if can > could:
        assert taken is None
    else:
        assert taken is not None
        assert np.count_nonzero(taken) == could


@needs("blox")
@given(requests())
def test_holes_leave_what_is_free_on_as_few_nodes_as_can_be(
    request: tuple[Resources, int],
) -> None:
    from volvelle.systems.blox.selective import fill_holes

    resources, gpus = request
    free = resources.free
    left = np.sort(free - fill_holes(free, gpus))[::-1].cumsum()
    for other in itertools.product(*(range(count + 1) for count in free.tolist())):
        if sum(other) == gpus:
            assert np.all(left >= np.sort(free - np.array(other))[::-1].cumsum())


def known(skew: float = 0.0, truth: Truth | None = None) -> KnownJob:
    return KnownJob(JobSpec(id="a", submit_time=0.0, gpus=4.0, skew=skew), truth or Truth(work=1.0))


SENSITIVE = [
    Truth(work=1.0, spread_slowdown=0.5),
    Truth(work=1.0, throughput=Log2(1.0, 1.5)),
]
ROBUST = [Truth(work=1.0, throughput=LINEAR), Truth(work=1.0, throughput=Log2(1.0, 1.0))]


@needs("blox")
@pytest.mark.parametrize(
    ("placement", "job", "nodes"),
    [
        ("skew", known(skew=0.74), [0, 2]),
        ("skew", known(skew=0.08), [0, 1, 2]),
        ("skew:limit=0.05", known(skew=0.08), [0, 2]),
        *(("profiled", known(truth=truth), [0, 2]) for truth in SENSITIVE),
        *(("profiled", known(truth=truth), [0, 1, 2]) for truth in ROBUST),
        *(("profiled:tolerance=0.4", known(truth=truth), [0, 1, 2]) for truth in SENSITIVE),
    ],
)
def test_only_jobs_that_gain_are_consolidated(
    placement: str, job: KnownJob, nodes: list[int]
) -> None:
    resources = partly_taken(parse_cluster("4x4"), [0, 1, 2, 4, 5, 6, 8, 12])
    taken = placements.make(placement).choose_for(job, resources.free, 4, resources)
    assert taken is not None
    assert taken.nonzero()[0].tolist() == nodes
    if nodes == [0, 2]:
        waiting = placements.make(f"{placement}{',' if ':' in placement else ':'}wait=true")
        assert waiting.choose_for(job, resources.free, 4, resources) is None


def test_a_strict_job_waits_for_its_node() -> None:
    jobs = [
        linear_job(0, 0.0, 3.0, 10.0),
        linear_job(1, 0.0, 3.0, 20.0),
        linear_job(2, 1.0, 2.0, 5.0),
    ]

    def starts(placement: str) -> list[float]:
        scenario = Scenario.of(parse_cluster("2x4"), jobs, placement=placement)
        first: list[float] = happen(scenario).outcomes.first_start.tolist()
        return first

    assert starts("consolidated") == [0.0, 0.0, 1.0]
    assert starts("consolidated-strict") == [0.0, 0.0, 10.0]


@needs("blox")
def test_a_profile_pays_where_jobs_are_slower_apart() -> None:
    """Blox' figure 11 in small: skew does not see that a model is sensitive, the profile does."""

    def job(n: int, submit: float, gpus: float, slowdown: float) -> Job:
        plain = linear_job(n, submit, gpus, 100.0)
        return Job(plain.spec, Truth(work=plain.truth.work, spread_slowdown=slowdown))

    jobs = [job(n, 0.0, 3.0, 0.0) for n in range(2)] + [job(2, 1.0, 4.0, 1.0)]

    def jct(placement: str) -> float:
        scenario = Scenario.of(parse_cluster("3x4"), jobs, placement=placement)
        return float(happen(scenario).outcomes.jct[2])

    assert jct("profiled") == 100.0
    assert jct("skew") == 200.0


@pytest.mark.parametrize("placement", ["consolidated-strict", of("chronus", "round-up")])
def test_a_job_that_may_not_be_stopped_grows_where_the_placement_finds_no_room(
    placement: str,
) -> None:
    """It could have its second GPU on another node only."""
    fixed = JobSpec(
        id="a", submit_time=0.0, gpus=1.0, min_gpus=1.0, max_gpus=2.0, preemptible=False
    )
    jobs = [linear_job(n, 0.0, 1.0, 50.0 if n else 10.0) for n in range(3)]
    jobs.append(Job(fixed, Truth(work=100.0)))
    scenario = Scenario.of(parse_cluster("2x2"), jobs, placement=placement)
    outcomes = happen(scenario).outcomes
    assert outcomes.preemptions.tolist() == [0, 0, 0, 0]
    assert outcomes.finish.tolist() == [10.0, 50.0, 50.0, 10.0 + 45.0]


def test_an_elastic_job_that_grows_over_nodes_is_not_stopped_by_a_policy_that_stops_none() -> None:
    """GPUs 0 and 2 are free for it, of two nodes: it holds them where it may not wait for a node."""
    jobs = [
        linear_job(0, 0.0, 1.0, 20.0),
        linear_job(1, 1.0, 1.0, 50.0, max_gpus=2.0),
        linear_job(2, 2.0, 1.0, 100.0),
    ]
    scenario = Scenario.of(
        parse_cluster("1x2,1x1"), jobs, policy="max-min", placement="consolidated-strict"
    )
    assert audited(scenario).outcomes.preemptions.tolist() == [0, 0, 0]
