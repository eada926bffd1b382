"""Events of nodes: the cluster's list of changes, and failures drawn from its process."""

import heapq
import math
from collections.abc import Iterator

import numpy as np

from volvelle.core.events import NodeChanged
from volvelle.core.resources import first_changes_to_up
from volvelle.model.cluster import Cluster, FailureProcess, NodeState


def node_changes(cluster: Cluster, seed: int) -> Iterator[NodeChanged]:
    """All node changes in order of time; endless where nodes fail at random.

    A failure takes away what the plan has up or draining, and its repair gives back what the plan
    has by then.
    """
    nodes = {node.name: node for node in cluster.nodes}
    planned = [
        NodeChanged(change.time, change.node, change.state, nodes[change.node])
        for change in cluster.changes
    ]
    if cluster.failures is None:
        yield from planned
        return
    plan = dict.fromkeys(nodes, NodeState.UP)
    plan.update(dict.fromkeys(first_changes_to_up(cluster), NodeState.DOWN))
    failed: set[str] = set()
    random = _failures(cluster.failures, list(nodes), seed)
    for change in heapq.merge(planned, random, key=lambda change: change.time):
        name = change.name
        before = NodeState.DOWN if name in failed else plan[name]
        if change.node is not None:  # planned changes describe their node, failures do not
            plan[name] = change.state
        elif change.state is NodeState.DOWN:
            failed.add(name)
        else:
            failed.discard(name)
        after = NodeState.DOWN if name in failed else plan[name]
        if after is not before:
            yield NodeChanged(change.time, name, after, change.node)


def _failures(process: FailureProcess, names: list[str], seed: int) -> Iterator[NodeChanged]:
    """Each node up and down by turns as ``process`` has it, from its own stream."""
    streams = [np.random.default_rng([seed, index]) for index in range(len(names))]
    pending = [
        (_up_for(process, stream), index, NodeState.DOWN) for index, stream in enumerate(streams)
    ]
    heapq.heapify(pending)
    while True:
        time, index, state = heapq.heappop(pending)
        yield NodeChanged(time, names[index], state)
        down = state is NodeState.DOWN
        following = NodeState.UP if down else NodeState.DOWN
        stream = streams[index]
        lasts = (
            float(stream.exponential(process.mttr_seconds)) if down else _up_for(process, stream)
        )
        heapq.heappush(pending, (time + lasts, index, following))


def _up_for(process: FailureProcess, stream: np.random.Generator) -> float:
    """How long a node is up, seconds: Weibull with the mean ``mtbf_seconds``."""
    if process.shape == 1.0:
        return float(stream.exponential(process.mtbf_seconds))
    scale = process.mtbf_seconds / math.gamma(1.0 + 1.0 / process.shape)
    return float(scale * stream.weibull(process.shape))
