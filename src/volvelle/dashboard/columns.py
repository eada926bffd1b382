"""The columns of the rows that the page reads, from a server or from a run."""

from collections.abc import Sequence
from typing import NamedTuple


class JobColumn(NamedTuple):
    """One column of a job that is not over, under the name that it has in the status view of a server.

    moment: whether it is a point in time, given in whole seconds.
    title: heading of a number that the queue's table shows as it stands; empty where the page arranges the
    column itself (``queue.js``).
    """

    name: str
    moment: bool = False
    title: str = ""


JOB_TABLE = (
    JobColumn("number"),
    JobColumn("name"),
    JobColumn("array_index"),
    JobColumn("user"),
    JobColumn("state"),
    JobColumn("gpus"),
    JobColumn("submitted", moment=True),
    JobColumn("started", moment=True),
    JobColumn("predicted_start", moment=True),
    JobColumn("predicted_p50", moment=True),
    JobColumn("predicted_p90", moment=True),
    JobColumn("guessed"),
    JobColumn("believed_end", moment=True),
    JobColumn("reason"),
    JobColumn("reason_free"),
    JobColumn("first_p50", moment=True),
    JobColumn("guaranteed", moment=True),
    JobColumn("revoked", moment=True),
    JobColumn("due", moment=True),
    JobColumn("attempt", title="Attempt"),
    JobColumn("preemptions", title="Preempted"),
    JobColumn("progress"),
    JobColumn("grants"),
    JobColumn("attached"),
)
"""A new column is a line here, and an attribute of `JobStatusView` if it is not one yet.

A run gives the values that it knows (`volvelle.dashboard.run`), None otherwise.
"""

JOB_COLUMNS = tuple(one.name for one in JOB_TABLE)
JOB_TITLES = {one.name: one.title for one in JOB_TABLE if one.title}

FORECAST_COLUMNS = ("number", "predicted_start", "predicted_p50", "predicted_p90")
"""Of a job of which nothing else has changed."""


class NodeRow(NamedTuple):
    """A node. free: GPUs that no job holds. jobs: numbers. away: why its agent is out of reach; or empty."""

    name: str
    gpu_type: str
    gpus: int
    free: int
    state: str
    jobs: Sequence[int]
    away: str = ""


class LoadRow(NamedTuple):
    """From a time on: GPUs that jobs hold, and jobs that wait."""

    time: float
    held: float
    waiting: float


class HoldingRow(NamedTuple):
    """A past holding of GPUs."""

    number: int
    name: str
    user: str
    start: int
    end: int
    grants: Sequence[tuple[str, Sequence[int]]]
