"""A run of the past, to be had again otherwise: ``--from-journal``.

Its journal says how long every job took (the trace format ``journal`` reads that), on which cluster, what
happened to the nodes meanwhile, and under which composition: what would yesterday have been under another?
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from volvelle.core.events import JobSubmitted, NodeChanged
from volvelle.core.journal import read_journal
from volvelle.model.cluster import Cluster, NodeChange, NodeState
from volvelle.model.problems import Problem

JOURNAL = "journal.jsonl"


class PastRun(NamedTuple):
    """Defaults that an experiment takes over from a run, by the names of its fields.

    cluster: with what happened to its nodes. last: as it was at the end of the journal, without that: the
    nodes that were up then, or all of them where none was.
    """

    defaults: dict[str, Any]
    cluster: Cluster
    last: Cluster


def read_past(path: Path) -> PastRun:
    """The run whose journal is at ``path``, or in the folder ``path``. Raises `Problem`."""
    journal = path / JOURNAL if path.is_dir() else path
    try:
        header, entries = read_journal(journal)
    except OSError as error:
        raise Problem(
            f"cannot read the journal {journal}: {error.strerror}",
            mend="name a journal.jsonl, or the folder of a run that has one",
            usage=True,
        ) from None
    first: float | None = None
    happened: list[NodeChanged] = []
    for entry in entries:
        for event in entry.events:
            if isinstance(event, JobSubmitted) and first is None:
                first = event.spec.submit_time
            elif isinstance(event, NodeChanged):
                happened.append(event)
    composition = header.composition
    defaults = {
        "trace": journal,
        "format": "journal",
        "policies": composition.policy,
        "placements": composition.placement,
        "admissions": composition.admission,
        "estimators": composition.estimator,
        "terminations": composition.termination,
        "overheads": header.overheads,
    }
    cluster = with_changes(header.cluster, happened, first or 0.0)
    return PastRun(defaults, cluster, _at_the_end(cluster))


def _at_the_end(cluster: Cluster) -> Cluster:
    states = {change.node: change.state for change in cluster.changes}
    up = [node for node in cluster.nodes if states.get(node.name, NodeState.UP) is NodeState.UP]
    return msgspec.structs.replace(cluster, nodes=tuple(up) or cluster.nodes, changes=())


def with_changes(cluster: Cluster, happened: list[NodeChanged], start: float) -> Cluster:
    """``cluster`` on which ``happened`` comes as it came, unforeseen, ``start`` being its time 0."""
    known = {node.name for node in cluster.nodes}
    joined = {e.name: e.node for e in happened if e.node is not None and e.name not in known}
    return msgspec.structs.replace(
        cluster,
        nodes=(*cluster.nodes, *joined.values()),
        changes=tuple(
            NodeChange(max(e.time - start, 0.0), e.name, e.state, foreseen=False) for e in happened
        ),
        failures=None,
    )
