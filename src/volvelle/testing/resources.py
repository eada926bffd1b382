"""Random profiles of CPU and memory sensitivity, amounts to look them up at, and clusters partly taken."""

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from volvelle.core.forward.free_nodes import note_free
from volvelle.core.resources import Resources
from volvelle.core.state import State
from volvelle.model.cluster import Cluster
from volvelle.model.sensitivity import Sensitivity


@st.composite
def sensitivities(draw: st.DrawFn, *, stuck: bool = True) -> Sensitivity:
    """A small profile; plateaus and steps are common, as in measured ones. Some jobs may get ``stuck``."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cpus = np.cumsum(rng.integers(1, 4, rng.integers(1, 5))).astype(np.float64)
    memory = np.cumsum(rng.integers(1, 4, rng.integers(1, 4))).astype(np.float64) * 10.0
    steps = rng.integers(0, 3, (len(cpus), len(memory))).astype(np.float64)
    steps[0, 0] += float(rng.integers(0 if stuck else 1, 2))
    shares = steps.cumsum(axis=0).cumsum(axis=1)
    shares = shares / shares[-1, -1] if shares[-1, -1] else np.ones_like(shares)
    return Sensitivity(
        tuple(cpus.tolist()),
        tuple(memory.tolist()),
        tuple(tuple(row) for row in shares.tolist()),
        draw(st.sampled_from(["linear", "zero"])) if stuck else "linear",
    )


def amounts() -> st.SearchStrategy[float]:
    """CPUs or GB, none and many included."""
    return st.integers(0, 400).map(lambda eighths: eighths / 8.0)


def partly_taken(cluster: Cluster, slots: Iterable[int]) -> Resources:
    """The GPUs of ``cluster``, of which these ``slots`` are in use."""
    state = State()
    resources = Resources(cluster, state)
    for slot in slots:
        state.slots.owner[slot] = 99
        node = state.slots.node[slot]
        state.nodes.free[node] -= 1
        note_free(state, node)
    return resources
