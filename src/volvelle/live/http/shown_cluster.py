"""The cluster behind the HTTP API's reading routes: that of a controller, or one that is attached."""

from dataclasses import replace
from typing import Protocol

from volvelle.live.forecasts.suggestions import Suggestions
from volvelle.live.records import RateMeasured
from volvelle.live.status.metrics import ControllerMetrics
from volvelle.live.status.view import (
    ChangeEvent,
    ForecastPoint,
    Health,
    HoldingView,
    JobStatusView,
    LoadPoint,
    NodeStatusView,
    StatusView,
)
from volvelle.model.cluster import NodeState, Pool


class AnswersWhy(Protocol):
    """The part that works out what would start a job sooner."""

    def suggest(self, job: JobStatusView) -> Suggestions:
        """Suggestions for a job that waits or is held."""


class ShownCluster(Protocol):
    """All that is read of a cluster, from any thread; the controller of a server is one."""

    @property
    def status(self) -> StatusView:
        """The latest status view."""

    @property
    def health(self) -> Health:
        """Whether the view is kept up to date, and problems for operators."""

    @property
    def holdings(self) -> list[HoldingView]:
        """The latest holdings of GPUs that are over, by their ends."""

    @property
    def load(self) -> tuple[LoadPoint, ...]:
        """GPUs held and jobs waiting, the earliest first."""

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the cluster."""

    @property
    def metrics(self) -> ControllerMetrics:
        """Metrics since the server started."""

    @property
    def forks(self) -> AnswersWhy:
        """The worker that makes suggestions."""

    def absence(self, node: str) -> str:
        """Why the agent of a node cannot be reached, as ``disconnected since ...``; empty if it can."""

    def events(self, after: int, timeout: float | None = None) -> list[ChangeEvent] | None:
        """Change events after one, by its number; None where they are not kept any more."""

    def measured_rates(self, user: str, name: str) -> tuple[RateMeasured, ...]:
        """Measurements of a user's jobs of this name, the latest last."""

    def forecast_history(self, number: int) -> tuple[ForecastPoint, ...]:
        """Forecasts of a job since the server started, the earliest first."""


def shown_nodes(cluster: ShownCluster) -> tuple[NodeStatusView, ...]:
    """The nodes at present, with why the agents of some cannot be reached."""
    nodes, down = cluster.status.nodes, NodeState.DOWN.value
    absences = [cluster.absence(node.name) for node in nodes]
    if not any(absences):
        return nodes
    return tuple(
        replace(node, away=away) if away and node.state != down else node
        for node, away in zip(nodes, absences, strict=True)
    )


def on_absent_nodes(cluster: ShownCluster, job: JobStatusView) -> JobStatusView:
    """The job, with a reason that names its nodes whose agents cannot be reached."""
    texts = [f"node {node} is {text}" for node, _ in job.grants if (text := cluster.absence(node))]
    return replace(job, reason="; ".join(filter(None, [*texts, job.reason]))) if texts else job
