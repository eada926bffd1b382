"""A simulated run as the dashboard shows it: the cluster at any moment, as a server would tell it.

What a server predicts is known of a run: the start and the finish that a waiting or running job came to.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from volvelle.dashboard.columns import (
    FORECAST_COLUMNS,
    JOB_COLUMNS,
    JOB_TITLES,
    HoldingRow,
    LoadRow,
    NodeRow,
)
from volvelle.metrics import series
from volvelle.metrics.catalogue import Metric
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.report.gantt import bars_of

MAX_HOLDINGS = 20_000
"""The longest holdings that are shown."""

Grants = list[tuple[str, list[int]]]


@dataclass(frozen=True)
class _Holding:
    start: float
    end: float
    grants: Grants


@dataclass
class RunMoments:
    """The run ``name`` on ``cluster``, at moments in seconds since its first submission.

    metrics: those of jobs that the history shows. Raises `Problem` for one of another kind.
    """

    name: str
    policy: str
    cluster: Cluster
    outcomes: Outcomes
    metrics: Sequence[Metric] = ()
    end: float = field(init=False)
    named: bool = field(init=False)
    _origin: float = field(init=False)
    _holdings: dict[int, list[_Holding]] = field(init=False)

    def __post_init__(self) -> None:
        self._measured = {one.name: _of_jobs(one, self.outcomes) for one in self.metrics}
        self._origin = series.start_time(self.outcomes)
        self.end = self.outcomes.end_time - self._origin
        self._left = series.departure(self.outcomes) - self._origin
        self._submitted = self.outcomes.submit_time - self._origin
        bars = bars_of(self.outcomes, MAX_HOLDINGS)
        gpus = -(-bars.lanes // bars.per_gpu)
        self.named = bars.placed and gpus == self.cluster.gpus
        """Whether it is known on which nodes jobs were: a placement may only count GPUs."""
        self._nodes = (
            [(node.name, node.gpu_type, node.gpus) for node in self.cluster.nodes]
            if self.named
            else [("all", "", gpus)]
        )
        self._first = np.cumsum([0, *(count for _, _, count in self._nodes)]).tolist()
        pieces: defaultdict[tuple[int, float, float], set[int]] = defaultdict(set)
        columns = (bars.job, bars.start, bars.end, bars.lane, bars.height)
        for job, start, end, lane, height in zip(*(each.tolist() for each in columns), strict=True):
            last = -(-(lane + height) // bars.per_gpu)
            pieces[job, start, end].update(range(lane // bars.per_gpu, last))
        self._holdings = defaultdict(list)
        for (job, start, end), slots in sorted(pieces.items()):
            begin, until = start - self._origin, end - self._origin
            self._holdings[job].append(_Holding(begin, until, self._grants(sorted(slots))))

    def _grants(self, slots: list[int]) -> Grants:
        grants: Grants = []
        for slot in slots:
            node = bisect_right(self._first, slot) - 1
            name = self._nodes[node][0]
            if not grants or grants[-1][0] != name:
                grants.append((name, []))
            grants[-1][1].append(slot - self._first[node])
        return grants

    def table(self, at: float) -> dict[str, Any]:
        """Jobs in the system and nodes, as ``/v1/queue`` of a server has them."""
        jobs = [self._job_row(job, at) for job in self._present(at)]
        held: defaultdict[str, list[int]] = defaultdict(list)
        used: defaultdict[str, set[int]] = defaultdict(set)
        for row in jobs:
            for node, gpus in row["grants"]:
                held[node].append(row["number"])
                used[node].update(gpus)
        nodes = [
            NodeRow(name, kind, gpus, free=gpus - len(used[name]), state="up", jobs=held[name])
            for name, kind, gpus in self._nodes
        ]
        return {
            "seq": 0, "time": at, "policy": self.policy, "admission": "accept-all",
            "job_columns": JOB_COLUMNS, "job_titles": JOB_TITLES,
            "jobs": [tuple(map(row.get, JOB_COLUMNS)) for row in jobs],
            "forecast_columns": FORECAST_COLUMNS,
            "node_columns": NodeRow._fields, "nodes": nodes,
        }  # fmt: skip

    def _present(self, at: float) -> list[int]:
        served = self.outcomes.status != JobStatus.REJECTED.value
        present: list[int] = np.flatnonzero(
            (self._submitted <= at) & (self._left > at) & served
        ).tolist()
        return present

    def _job_row(self, job: int, at: float) -> dict[str, Any]:
        """The attributes of a job that a run knows, by the names of `JOB_COLUMNS`."""
        outcomes, spec = self.outcomes, self.outcomes.specs[job]
        holdings = self._holdings.get(job, [])
        current = next((each for each in holdings if each.start <= at < each.end), None)
        upcoming = next((each.start for each in holdings if each.start > at), None)
        finish = _moment(outcomes.finish[job], self._origin)
        first_p50 = outcomes.predicted_p50
        earlier = sum(each.end <= at for each in holdings)
        return {
            "number": job,
            "name": _name(spec, job),
            "user": spec.user,
            "state": "waiting" if current is None else "running",
            "gpus": float(outcomes.gpus[job]),
            "submitted": round(float(self._submitted[job])),
            "started": None if current is None else round(current.start),
            "predicted_start": None if current is not None else _moment(upcoming, 0.0),
            "predicted_p50": finish,
            "predicted_p90": finish,
            "reason": "",
            "first_p50": _moment(None if first_p50 is None else first_p50[job], self._origin),
            "due": self._due(job),
            "attempt": earlier + (current is not None),
            "preemptions": earlier,
            "grants": [] if current is None else current.grants,
        }

    def holdings(self, at: float) -> dict[str, Any]:
        """Holdings that were over by then, as ``/v1/holdings`` has them."""
        rows = [
            HoldingRow(
                number=job,
                name=_name(spec, job),
                user=spec.user,
                start=round(each.start),
                end=round(each.end),
                grants=each.grants,
            )
            for job, all_of_it in self._holdings.items()
            for spec in (self.outcomes.specs[job],)
            for each in all_of_it
            if each.end <= at
        ]
        return {"time": at, "columns": HoldingRow._fields, "holdings": rows}

    def load(self, at: float) -> dict[str, Any]:
        """GPUs held and jobs waiting until then, as ``/v1/load`` has them."""
        held, waiting = series.busy_gpus(self.outcomes), series.queue_length(self.outcomes)
        times = np.union1d(held.times, waiting.times)
        times = times[times <= at + self._origin]
        points = map(
            LoadRow,
            (times - self._origin).tolist(),
            series.values_at(held, times).tolist(),
            series.values_at(waiting, times).tolist(),
        )
        told = self.outcomes.predicted_p90
        ended = ~np.isnan(self.outcomes.finish) & (self.outcomes.finish <= at + self._origin)
        judged = (
            np.zeros(0, bool)
            if told is None
            else (self.outcomes.finish <= told)[ended & ~np.isnan(told)]
        )
        return {
            "time": at, "columns": LoadRow._fields, "points": list(points),
            "p90_held": int(judged.sum()), "p90_missed": int((~judged).sum()),
        }  # fmt: skip

    def history(self, at: float) -> dict[str, Any]:
        """Jobs that had left by then, the latest first, as ``/v1/jobs?over=true`` has them."""
        return {"time": at, "jobs": list(self._ended(at)), "next": None}

    def _ended(self, at: float) -> Iterator[dict[str, Any]]:
        outcomes = self.outcomes
        rejected = outcomes.status == JobStatus.REJECTED.value
        ended = np.flatnonzero((self._submitted <= at) & ((self._left <= at) | rejected))
        for job in ended[np.argsort(-self._left[ended], kind="stable")].tolist():
            spec, told = outcomes.specs[job], outcomes.predicted_p50
            status = str(outcomes.status[job])
            yield {
                "number": job, "name": _name(spec, job), "user": spec.user, "state": status,
                "gpus": float(outcomes.gpus[job]), "submitted": round(float(self._submitted[job])),
                "first_started": _moment(outcomes.first_start[job], self._origin),
                "ended": _moment(self._left[job], 0.0),
                "first_p50": _moment(None if told is None else told[job], self._origin),
                "due": self._due(job),
                "preemptions": int(outcomes.preemptions[job]), "reason": outcomes.reason[job],
                "metrics": {name: column[job] for name, column in self._measured.items()},
            }  # fmt: skip

    def _due(self, job: int) -> int | None:
        """The last moment at which a job's finish is worth anything; None without a deadline."""
        rewards = self.outcomes.specs[job].rewards
        return (
            round(float(self._submitted[job]) + rewards[-1].deadline_seconds) if rewards else None
        )


def _of_jobs(metric: Metric, outcomes: Outcomes) -> list[float]:
    """The number of each job; NaN where it has none."""
    if metric.kind != "job":
        raise Problem(
            f"metric {metric.name!r} is not a number for each job",
            mend="choose another one; see: volvelle list metrics",
            usage=True,
        )
    numbers: list[float] = np.asarray(metric(outcomes)).tolist()
    return numbers


def _name(spec: JobSpec, job: int) -> str:
    """Its name, else its id in the trace, where that is not its number."""
    return spec.name or ("" if spec.id == str(job) else spec.id)


def _moment(seconds: float | None, origin: float) -> int | None:
    return None if seconds is None or isnan(seconds) else round(float(seconds) - origin)
