"""GPUs that differ: how long jobs take on them, bins by brute force, and the choices of PAL and PM-First."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.parts import Gang, KnownJob, placements
from volvelle.model.arrays import IntColumn
from volvelle.model.cluster import Cluster, Node, cluster_from
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.systems.pal.placement import PMFirst, binned, scores, silhouette
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen, linear_job


def cluster(*nodes: tuple[float, ...]) -> Cluster:
    """Nodes whose GPUs have these slowdowns for class A; they are alike for others."""
    return Cluster(
        tuple(
            Node(f"n{i}", len(of), slowdowns=(("A", of), ("B", (1.0,) * len(of))))
            for i, of in enumerate(nodes)
        )
    )


def job(number: int, submit: float, gpus: int, seconds: float, variability: str = "A") -> Job:
    """A job that takes so long on typical GPUs."""
    made = linear_job(number, submit, float(gpus), seconds)
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, variability=variability)
    )


def finishes(nodes: Cluster, jobs: list[Job], placement: str) -> list[float]:
    run = happen(Scenario.of(nodes, jobs, placement=placement))
    return [round(each, 6) for each in run.outcomes.finish.tolist()]


def chosen(placement: str, nodes: Cluster, gangs: list[tuple[int, str, float]]) -> list[list[int]]:
    """The slots of gangs, each written as GPUs, class and slowdown on several nodes."""
    part = placements.make(placement)
    assert isinstance(part, PMFirst)
    asked = []
    for gpus, variability, several in gangs:
        made = job(0, 0.0, gpus, 1.0, variability)
        believed = msgspec.structs.replace(made.truth, spread_slowdown=several)
        asked.append(Gang(KnownJob(made.spec, believed), gpus))
    found = part.choose_gpus(asked, np.ones(nodes.gpus, dtype=np.bool_), partly_taken(nodes, ()))
    return [[] if slots is None else slots.tolist() for slots in found]


def test_a_gang_is_as_fast_as_the_slowest_of_its_gpus() -> None:
    uneven = cluster((1.0, 1.5))
    jobs = [job(0, 0.0, 2, 100.0), job(1, 1000.0, 2, 100.0, "B"), job(2, 2000.0, 2, 100.0, "")]
    assert finishes(uneven, jobs, "first-free") == [150.0, 1100.0, 2100.0]


def test_the_best_scores_wherever_they_are_or_a_node_by_the_product() -> None:
    uneven = cluster((1.0, 1.4), (1.0, 1.4), (1.4, 1.4))
    assert chosen("pm-first", uneven, [(2, "A", 1.0)]) == [[0, 2]]
    assert chosen("pal", uneven, [(2, "A", 0.2)]) == [[0, 2]], "1.0 * 1.2 is less than 1.4"
    assert chosen("pal", uneven, [(2, "A", 1.0)]) == [[0, 1]], (
        "of nodes whose worst is equal the first"
    )
    assert chosen("pal", uneven, [(1, "A", 1.0)]) == [[0]]
    assert chosen("pal", uneven, [(3, "A", 1.0)]) == [[0, 2, 4]], (
        "no node has three; n2 has most of those alike"
    )


def test_the_class_that_varies_most_chooses_first() -> None:
    uneven = cluster((1.4, 1.0))
    assert chosen("pal", uneven, [(1, "B", 0.0), (1, "A", 0.0), (1, "", 0.0)]) == [[0], [1], []]


def test_jobs_that_run_move_to_better_gpus_when_another_is_placed() -> None:
    uneven = cluster((1.0, 2.0))
    jobs = [job(0, 0.0, 1, 60.0, "B"), job(1, 0.0, 1, 100.0, "A"), job(2, 10.0, 1, 10.0, "B")]
    first_free = [60.0, 200.0, 70.0]
    assert finishes(uneven, jobs, "first-free") == first_free
    assert finishes(uneven, jobs, "pal") == [60.0, 100.0, 70.0]
    late = [job(0, 0.0, 1, 60.0, "A"), job(1, 0.0, 1, 100.0, "A"), job(2, 60.0, 1, 10.0, "B")]
    assert finishes(uneven, late, "pal")[1] == 60.0 + 70.0, "30 of 100 are done at 60 s"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(1, 4))
def test_bins_have_the_least_squares(written: list[int], bins: int) -> None:
    values = np.array(written, dtype=np.float64)

    def cost(labels: IntColumn) -> float:
        return sum(
            float(((values[labels == one] - values[labels == one].mean()) ** 2).sum())
            for one in np.unique(labels)
        )

    bins = min(bins, len(values))
    every = (np.array(labels) for labels in itertools.product(range(bins), repeat=len(values)))
    assert cost(binned(values, bins)[-1]) == pytest.approx(min(map(cost, every)), abs=1e-9)


def test_the_number_of_bins_is_that_of_the_best_silhouette_and_outliers_stand_alone() -> None:
    values = np.array([1.0, 1.01, 2.0, 2.01])
    assert silhouette(values, np.array([0, 0, 1, 1])) == pytest.approx(0.99, abs=0.001)
    assert scores((1.0, 1.01, 1.2, 1.21, 1.2, 1.0)).round(2).tolist() == [
        0.91, 0.91, 1.09, 1.09, 1.09, 0.91,
    ]  # fmt: skip
    alike = [1.0, 1.1] * 15
    assert len(set(scores((*alike, 9.0)).tolist())) == 3


def test_a_cluster_file_names_a_slowdown_for_each_gpu() -> None:
    nodes = [{"gpus": 2, "count": 2, "slowdowns": {"A": [1.0, 1.2]}}]
    assert cluster_from({"nodes": nodes}, "a.toml").nodes[1].slowdowns == (("A", (1.0, 1.2)),)
    with pytest.raises(Problem, match="has 3 GPUs but 2 slowdowns of variability class 'A'"):
        cluster_from({"nodes": [{**nodes[0], "gpus": 3}]}, "a.toml")
