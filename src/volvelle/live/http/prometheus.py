"""Metrics in Prometheus' text format: those of a controller, and the present use of a cluster's GPUs."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from volvelle.live.control.controller import Controller
from volvelle.live.status.metrics import ControllerMetrics, Histogram
from volvelle.live.status.view import PROFILING, JobState, StatusView
from volvelle.model.cluster import NodeState

_HISTOGRAMS = {
    "decision_seconds": ("decision", "Time of the scheduler in one cycle."),
    "commit_seconds": ("commit", "Time of the store in one cycle."),
    "cycle_seconds": ("cycle", "From the inputs of a cycle to its orders."),
    "forecast_seconds": ("forecast", "Time of one forecast of all jobs."),
    "lease_latency_seconds": ("revocation", "From revoking a job's lease to the job's end."),
    "queue_wait_seconds": ("queue_wait", "From a job's submission to its first start."),
    "eta_error_ratio": ("eta_error", "Error of P50 at submission over the JCT."),
}
"""By the name in Prometheus, without ``volvelle_``: the field of `ControllerMetrics`, and its help text."""


def metrics_text(controller: Controller) -> bytes:
    """All metrics of a controller in Prometheus' text format."""
    return _text(_ControllerCollector(controller.metrics, controller.status))


def state_text(view: StatusView) -> bytes:
    """The present jobs and GPUs by state, in Prometheus' text format."""
    return _text(_StateCollector(view))


def _text(collector: Collector) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


class _StateCollector(Collector):
    def __init__(self, view: StatusView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """The present state."""
        yield _by_state("volvelle_jobs", "Active jobs by state.", _count_jobs(self._view))
        yield _by_state("volvelle_gpus", "GPUs by state.", _count_gpus(self._view))


class _ControllerCollector(_StateCollector):
    def __init__(self, metrics: ControllerMetrics, view: StatusView) -> None:
        super().__init__(view)
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Metrics since the controller started, then the present state."""
        for name, (field, text) in _HISTOGRAMS.items():
            histogram: Histogram = getattr(self._metrics, field)
            yield HistogramMetricFamily(
                f"volvelle_{name}", text, buckets=_buckets(histogram), sum_value=histogram.total
            )
        yield from self._counters()
        if (gap := self._metrics.solver_gap) is not None:
            text = "Optimality gap of the policy's latest program."
            yield GaugeMetricFamily("volvelle_solver_gap_ratio", text, value=gap)
        yield from super().collect()

    def _counters(self) -> Iterator[Metric]:
        metrics = self._metrics
        ended = CounterMetricFamily(
            "volvelle_jobs_over", "Ended jobs by final state.", labels=["state"]
        )
        for state, count in sorted(metrics.ended_jobs.items()):
            ended.add_metric([state], count)
        yield ended
        covered = CounterMetricFamily(
            "volvelle_eta_covered", "P90s at submission by whether they held.", labels=["held"]
        )
        for held in (False, True):
            covered.add_metric([str(held).lower()], metrics.p90_held[held])
        yield covered
        for name, text, count in (
            ("jobs_accepted", "Submitted jobs.", metrics.accepted),
            ("preemptions", "Preemptions of jobs.", metrics.preemptions),
            ("store_failures", "Failed commits, which are retried.", metrics.store_failures),
            ("part_failures", "Failures of a policy or part of one's own.", metrics.part_failures),
        ):
            yield CounterMetricFamily(f"volvelle_{name}", text, value=count)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative buckets, as Prometheus expects them."""
    below, found = 0, []
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        below += count
        found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(below)))
    return found


def _by_state(name: str, text: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["state"])
    for state, value in values.items():
        family.add_metric([state], value)
    return family


_FREE = {NodeState.UP.value: "free", PROFILING: "profiling"}
"""Names of free GPUs on nodes in these states."""


def _count_jobs(view: StatusView) -> dict[str, int]:
    states = Counter(job.state for job in view.jobs.values())
    return {state.value: states[state] for state in JobState if not state.over}


def _count_gpus(view: StatusView) -> dict[str, int]:
    counts = dict.fromkeys(("held", "free", "profiling", "draining", "down"), 0)
    for node in view.nodes:
        if node.state == NodeState.DOWN:
            counts["down"] += node.gpus
            continue
        counts["held"] += node.gpus - node.free
        counts[_FREE.get(node.state, "draining")] += node.free
    return counts
