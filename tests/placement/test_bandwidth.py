"""Which GPUs of a node: brute force, and the ratio of Blox' table 4."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Scenario, happen, linear_job

from volvelle.core.state import FloatColumn
from volvelle.model.cluster import Cluster, Node, parse_cluster
from volvelle.placement.bandwidth import best_linked

P3_8XLARGE = ((0, 1, 1, 2), (1, 0, 2, 1), (1, 2, 0, 1), (2, 1, 1, 0))
"""NVLinks between the four V100: pairs 0-3 and 1-2 have two (Blink, MLSys'20), others one."""
LINK_GBPS = 44.0
"""Calibrated, not measured: with it any two GPUs of a node observe the paper's 58.7 Gbps on average."""


@st.composite
def matrices(draw: st.DrawFn) -> FloatColumn:
    size = draw(st.integers(1, 5))
    upper = np.zeros((size, size))
    for i, j in itertools.combinations(range(size), 2):
        upper[i, j] = draw(st.integers(0, 3))
    return upper + upper.T


def among(matrix: FloatColumn, some: tuple[int, ...]) -> float:
    return sum(float(matrix[i, j]) for i, j in itertools.combinations(some, 2))


@given(matrices(), st.data())
def test_the_best_links_inside_then_among_those_left(
    matrix: FloatColumn, data: st.DataObject
) -> None:
    size = len(matrix)
    count = data.draw(st.integers(1, size))

    def worth(some: tuple[int, ...]) -> tuple[float, float]:
        others = tuple(i for i in range(size) if i not in some)
        return among(matrix, some), among(matrix, others)

    best = tuple(best_linked(matrix, count).tolist())
    assert len(set(best)) == count
    assert worth(best) == max(map(worth, itertools.combinations(range(size), count)))


def test_table_4() -> None:
    """FIFO with consolidation, the mean over jobs of several GPUs on one node: 58.7 and 86.5 Gbps.

    The first holds by the calibration of `LINK_GBPS`; only the second is a result, and it depends on
    which pairs have two links (a third double link, 2-3, would give a ratio of about 1.31).
    """
    matrix = tuple(tuple(LINK_GBPS * links for links in row) for row in P3_8XLARGE)
    nodes = parse_cluster("32x4").nodes
    cluster = Cluster(tuple(msgspec.structs.replace(node, bandwidth_gbps=matrix) for node in nodes))
    rng = np.random.default_rng(7)
    submitted = np.cumsum(rng.exponential(15.0, 2000))
    jobs = [
        linear_job(
            n, float(submitted[n]), float(rng.choice([1, 2], p=[0.2, 0.8])), rng.exponential(900.0)
        )
        for n in range(2000)
    ]

    def observed(placement: str) -> float:
        run = happen(Scenario.of(cluster, jobs, placement=placement))
        seen: list[float] = []
        for entry in run.journal.entries:
            for row, gpus in enumerate(entry.decision.gpus.tolist()):
                slots = entry.decision.slots_of(row)
                if gpus > 1 and len(set((slots // 4).tolist())) == 1:
                    pairs = itertools.combinations((slots % 4).tolist(), 2)
                    seen.append(float(np.mean([matrix[i][j] for i, j in pairs])))
        return float(np.mean(seen))

    anywhere = np.mean([observed(f"consolidated-random:seed={seed}") for seed in range(4)])
    assert anywhere == pytest.approx(58.7, rel=0.03)
    assert observed("bandwidth-aware") == pytest.approx(86.5, rel=0.03)


def test_a_node_without_a_matrix_gives_its_first_gpus() -> None:
    cluster = Cluster((Node("n", 4),))
    jobs = [linear_job(0, 0.0, 2.0, 10.0)]
    run = happen(Scenario.of(cluster, jobs, placement="bandwidth-aware"))
    assert run.journal.entries[0].decision.slots_of(0).tolist() == [0, 1]
