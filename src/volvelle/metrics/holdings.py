"""A log of who holds what from when on, and what it adds up to.

While a run goes on a batch costs the log a few copies of arrays; it is sorted once, at the end.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.log import Batch
from volvelle.metrics.outcomes import Segments
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn

SmallColumn = NDArray[np.int32]
"""A log may have millions of rows."""

_NOBODY = -1


@dataclass(frozen=True)
class HoldingHistory:
    """The sums of a log: segments by start, and a row for each job."""

    segments: Segments
    first_start: FloatColumn
    preemptions: IntColumn
    restarts: IntColumn
    running: BoolColumn
    kind: IntColumn
    """Of the nodes on which each segment is; `volvelle.model.cluster.Cluster.kinds`."""


class HoldingLog:
    """The GPUs that jobs hold, and from when on, in the order of decisions."""

    def __init__(self) -> None:
        self._job: list[SmallColumn] = []
        self._time: list[FloatColumn] = []
        self._gpus: list[FloatColumn] = []
        self._kind: list[SmallColumn] = []
        self._attempt: list[
            SmallColumn
        ] = []  # _NOBODY where an event took the GPUs, not a decision
        self._slots: list[SmallColumn] = []
        self._slot_count: list[SmallColumn] = []
        self._rows = 0
        self._moment: IntColumn = np.zeros(0, dtype=np.int64)
        """Of each row of the last batch."""
        self._late: list[tuple[IntColumn, FloatColumn]] = []  # rows, real starts
        self._stopped: list[tuple[IntColumn, IntColumn, FloatColumn]] = []  # job, attempt, real end

    def extend(
        self, batch: Batch, moment: IntColumn, closed: IntColumn, closed_at: FloatColumn
    ) -> None:
        """Add the decisions of a batch, and jobs that were ``closed`` by themselves before these."""
        decided_in = np.repeat(np.arange(len(batch.time)), np.diff(batch.decisions_end, prepend=0))
        order = np.argsort(np.concatenate([2 * moment, 2 * decided_in + 1]), kind="stable")
        count = len(closed)
        ends = np.zeros(count, dtype=np.int64)
        self._job.append(_small(np.concatenate([closed, batch.job])[order]))
        self._time.append(np.concatenate([closed_at, batch.decision_time])[order])
        self._gpus.append(np.concatenate([np.zeros(count), batch.gpus])[order])
        nowhere = np.full(count, _NOBODY)
        self._kind.append(_small(np.concatenate([nowhere, batch.gpu_type])[order]))
        attempts = np.concatenate([nowhere, batch.starts])
        self._attempt.append(_small(attempts[order]))
        slot_count = np.diff(batch.slots_end, prepend=0)
        self._slot_count.append(_small(np.concatenate([ends, slot_count])[order]))
        self._slots.append(_small(batch.slots))
        self._moment = np.concatenate([moment, decided_in])[order]
        self._rows += len(order)

    def started_late(self, jobs: IntColumn, moment: IntColumn, starts: FloatColumn) -> None:
        """GPUs given to ``jobs`` in the batch just added, before ``moment``, come free only at ``starts``."""
        given = self._job[-1].astype(np.int64)
        rows = len(given)
        by_job = np.argsort(given, kind="stable")
        before = np.searchsorted(self._moment, moment)
        place = np.searchsorted(given[by_job] * (rows + 1) + by_job, jobs * (rows + 1) + before)
        self._late.append((self._rows - rows + by_job[place - 1], starts))

    def held_until(self, jobs: IntColumn, attempts: IntColumn, times: FloatColumn) -> None:
        """The GPUs of stopped attempts were held until then."""
        self._stopped.append((jobs, attempts, times))

    def history(self, jobs: int, now: float) -> HoldingHistory:
        """All segments and counts; what is still held is held until ``now``."""
        job, gpus = joined(self._job, np.int32), joined(self._gpus, np.float64)
        attempt, changed = joined(self._attempt, np.int32), joined(self._time, np.float64)
        start = changed.copy() if self._late else changed
        for rows, starts in self._late:
            start[rows] = starts
        by_job = np.argsort(job, kind="stable")
        end = np.full(len(job), now)
        again = job[by_job[1:]] == job[by_job[:-1]]
        end[by_job[:-1][again]] = changed[by_job[1:][again]]
        # A start that was waited for and then withdrawn held nothing.
        holding = by_job[(gpus[by_job] > 0) & (end[by_job] >= start[by_job])]
        base = int(attempt.max(initial=0)) + 1
        if self._stopped:
            key = job[holding].astype(np.int64) * base + attempt[holding]
            for numbers, attempts, times in self._stopped:
                wanted = numbers * base + attempts
                end[holding[np.searchsorted(key, wanted, side="right") - 1]] = times
        first_start = np.full(jobs, np.inf)
        np.minimum.at(first_start, job[holding], start[holding])
        last_attempt = np.zeros(jobs, dtype=np.int64)
        np.maximum.at(last_attempt, job[holding], attempt[holding])
        running = np.zeros(jobs, dtype=np.bool_)
        running[job[by_job]] = gpus[by_job] > 0  # the last row of each job stands
        taken = by_job[1:][again & (gpus[by_job[:-1]] > 0)]
        stopped = job[taken[(gpus[taken] == 0) & (attempt[taken] != _NOBODY)]]
        rows = holding[np.argsort(start[holding], kind="stable")]
        return HoldingHistory(
            self._segments(rows, start, end),
            np.where(np.isinf(first_start), np.nan, first_start),
            np.bincount(stopped, minlength=jobs).astype(np.int64),
            np.maximum(last_attempt - 1, 0),
            running,
            joined(self._kind, np.int32)[rows].astype(np.int64),
        )

    def _segments(self, rows: IntColumn, start: FloatColumn, end: FloatColumn) -> Segments:
        """The segments that begin with ``rows``, in this order."""
        counts = joined(self._slot_count, np.int32)
        offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64)
        moved = (np.cumsum(counts) - counts)[rows] - offsets[:-1]
        places = np.repeat(moved, counts[rows]) + np.arange(offsets[-1])
        return Segments(
            joined(self._job, np.int32)[rows].astype(np.int64),
            start[rows],
            end[rows],
            joined(self._gpus, np.float64)[rows],
            offsets,
            joined(self._slots, np.int32)[places].astype(np.int64),
        )


def _small(column: IntColumn) -> SmallColumn:
    return column.astype(np.int32)


def joined(parts: list[Any], kind: type) -> NDArray[Any]:
    """Arrays one after the other, as one of ``kind``, which takes their place in the list."""
    parts[:] = [np.concatenate([np.zeros(0, dtype=kind), *parts])]
    whole: NDArray[Any] = parts[0]
    return whole
