"""What every placement promises by being registered (`volvelle.testing`), and more of `consolidated`."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from systems_here import here

from volvelle.core.parts import Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.cluster import Cluster
from volvelle.testing import clusters, placement_promises
from volvelle.testing.placements import clusters_in_use
from volvelle.testing.promises import Promise
from volvelle.testing.resources import partly_taken

WRITTEN = [
    *placements.all(),
    *here(placements, ["round-up:move=true", "buddy:lanes=true"]),
]


@pytest.mark.parametrize(
    ("placement", "promise"),
    [(written, promise) for written in WRITTEN for promise in placement_promises.of(written)],
    ids=str,
)
def test_a_placement_keeps_its_promises(placement: str, promise: Promise[Placement]) -> None:
    promise.check(placement)


@given(resources=clusters_in_use(), data=st.data())
def test_consolidated_uses_the_fewest_nodes_and_the_best_fit(
    resources: Resources, data: st.DataObject
) -> None:
    free = resources.free.copy()
    assume(free.sum())
    gpus = data.draw(st.integers(1, int(free.sum())))
    taken = placements.make("consolidated").choose(free, gpus, resources)
    assert taken is not None
    nodes = range(len(free))
    fewest = next(
        count
        for count in range(1, len(free) + 1)
        if any(free[list(some)].sum() >= gpus for some in itertools.combinations(nodes, count))
    )
    assert np.count_nonzero(taken) == fewest
    if fewest == 1:
        node = int(np.argmax(taken))
        assert free[node] == min(int(gap) for gap in free if gap >= gpus)


@given(cluster=clusters())
def test_gpus_are_numbered_node_after_node(cluster: Cluster) -> None:
    resources = partly_taken(cluster, ())
    expected = [index for index, node in enumerate(cluster.nodes) for _ in range(node.gpus)]
    assert resources.slot_node.tolist() == expected
