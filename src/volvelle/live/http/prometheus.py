"""``/metrics`` for Prometheus: what the controller counts, and who holds the GPUs now."""

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
from volvelle.live.status.metrics import Figures, Histogram
from volvelle.live.status.view import JobState, StatusView
from volvelle.model.cluster import NodeState

_HISTOGRAMS = {
    "decision_seconds": ("decision", "Of the scheduler on one cycle."),
    "commit_seconds": ("commit", "Of the store on one cycle."),
    "cycle_seconds": ("cycle", "From taking in what happened to having ordered what follows."),
    "forecast_seconds": ("forecast", "Of one look ahead."),
    "lease_latency_seconds": ("lease", "From revoking a job's lease to the job's end."),
    "queue_wait_seconds": ("queue_wait", "From a job's submission to its first start."),
    "eta_error_ratio": ("eta_error", "How far off the promised finish was, over the JCT."),
}
"""By the name in Prometheus, without ``volvelle_``: the name in `Figures`, and what it is."""


def exposition(controller: Controller) -> bytes:
    """All of it, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Everything(controller.figures, controller.status))
    return generate_latest(registry)


class _Everything(Collector):
    def __init__(self, figures: Figures, picture: StatusView) -> None:
        self._figures = figures
        self._picture = picture

    def collect(self) -> Iterator[Metric]:
        """What was counted since the controller began, then how things stand."""
        for name, (field, what) in _HISTOGRAMS.items():
            histogram: Histogram = getattr(self._figures, field)
            yield HistogramMetricFamily(
                f"volvelle_{name}", what, buckets=_buckets(histogram), sum_value=histogram.total
            )
        yield from self._counters()
        if (gap := self._figures.solver_gap) is not None:
            what = "How much better an answer of the policy's latest program could be."
            yield GaugeMetricFamily("volvelle_solver_gap_ratio", what, value=gap)
        yield _labelled("volvelle_jobs", "Jobs that are not over.", _jobs(self._picture))
        yield _labelled("volvelle_gpus", "GPUs by what becomes of them.", _gpus(self._picture))

    def _counters(self) -> Iterator[Metric]:
        figures = self._figures
        ends = CounterMetricFamily("volvelle_jobs_over", "By how they ended.", labels=["state"])
        for state, count in sorted(figures.ends.items()):
            ends.add_metric([state], count)
        yield ends
        covered = CounterMetricFamily(
            "volvelle_eta_covered", "Promised P90s by whether they held.", labels=["held"]
        )
        for held in (False, True):
            covered.add_metric([str(held).lower()], figures.kept[held])
        yield covered
        for name, what, count in (
            ("jobs_accepted", "Jobs that were submitted.", figures.accepted),
            ("preemptions", "Times that a job gave way.", figures.preemptions),
            ("store_failures", "Commits that had to be tried again.", figures.failures),
        ):
            yield CounterMetricFamily(f"volvelle_{name}", what, value=count)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus has them."""
    below, found = 0, []
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        below += count
        found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(below)))
    return found


def _labelled(name: str, what: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what, labels=["state"])
    for state, value in values.items():
        family.add_metric([state], value)
    return family


def _jobs(picture: StatusView) -> dict[str, int]:
    states = Counter(job.state for job in picture.jobs.values())
    return {state.value: states[state] for state in JobState if not state.over}


def _gpus(picture: StatusView) -> dict[str, int]:
    found = dict.fromkeys(("held", "free", "draining", "down"), 0)
    for node in picture.nodes:
        if node.state == NodeState.DOWN:
            found["down"] += node.gpus
            continue
        found["held"] += node.gpus - node.free
        found["free" if node.state == NodeState.UP else "draining"] += node.free
    return found
