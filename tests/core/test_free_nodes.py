"""Nodes by their free GPUs: the trees find what a look at all nodes finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.forward.free_nodes import ANY, bit_of, first_node, note_free
from volvelle.core.forward.gpus import place
from volvelle.core.resources import Resources
from volvelle.core.state import Rules, State
from volvelle.model.cluster import Cluster, Node, NodeState
from volvelle.placement.basic import Consolidated, FirstFree

SIZES = st.sampled_from([1, 2, 4, 4, 8, 61, 62, 63, 80])


@st.composite
def clusters(draw: st.DrawFn) -> tuple[State, Resources]:
    """Nodes of two GPU types, some of whose GPUs are taken; some nodes are down."""
    kinds = draw(st.lists(st.tuples(st.sampled_from("ab"), SIZES), min_size=1, max_size=9))
    nodes = tuple(Node(f"n{i}", gpus, kind) for i, (kind, gpus) in enumerate(kinds))
    state = State()
    resources = Resources(Cluster(nodes), state)
    for node in nodes:
        if draw(st.integers(0, 4)) == 0:
            resources.change(node.name, NodeState.DOWN, None)
    for i, node in enumerate(nodes):
        for slot in range(draw(st.integers(0, node.gpus))):
            state.slots.owner[state.nodes.slot[i] + slot] = 99
            state.nodes.free[i] -= 1
        note_free(state, i)
    return state, resources


@given(clusters(), st.integers(0, 80))
def test_the_first_node_is_the_first_of_all(made: tuple[State, Resources], count: int) -> None:
    state, resources = made
    for gpu_type in range(len(resources.types)):
        free = resources.free_for(gpu_type)
        assert state.types.offered[gpu_type] == free.sum()
        for counts in (bit_of(count), ANY):
            fits = [
                node
                for node in np.flatnonzero(resources.node_type == gpu_type).tolist()
                if bit_of(int(free[node])) & counts
            ]
            found, node = [], first_node(state, gpu_type, counts, -1)
            while node >= 0:
                found.append(node)
                node = first_node(state, gpu_type, counts, node)
            assert found == fits


@given(clusters(), st.integers(1, 200), st.sampled_from([FirstFree, Consolidated]))
def test_a_kernel_places_as_its_placement_chooses(
    made: tuple[State, Resources], gpus: int, kind: type[FirstFree | Consolidated]
) -> None:
    state, resources = made
    placement = kind()
    assert placement.kernel is not None
    state.place = placement.kernel
    for gpu_type in range(len(resources.types)):
        before, row = resources.free_for(gpu_type), 0
        state.jobs.slot[row] = -1
        state.jobs.gpus[row] = float(gpus)
        state.jobs.target[row], state.jobs.target_type[row] = float(gpus), float(gpu_type)
        placed = place(state, Rules(), row)
        assert placed == (before.sum() >= gpus)
        if placed:
            expected = placement.choose(before, gpus, resources)
            assert (before - resources.free_for(gpu_type) == expected).all()
            slots = resources.slots_of(row)
            assert slots == sorted(slots)
            assert len(slots) == gpus
        assert state.types.offered[gpu_type] == resources.free_for(gpu_type).sum()
