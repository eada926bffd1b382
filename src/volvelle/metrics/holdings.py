"""A log of who holds what from when on, and what it adds up to.

While a run goes on a decision costs the log a few copies of arrays; it is sorted once, at the end.
"""

from array import array
from dataclasses import dataclass

import numpy as np

from volvelle.core.decision import Decision
from volvelle.metrics.outcomes import BoolColumn, FloatColumn, IntColumn, Segments

_NOBODY = -1


@dataclass(frozen=True)
class History:
    """What a log adds up to: segments by start, and a row for each job."""

    segments: Segments
    first_start: FloatColumn
    preemptions: IntColumn
    restarts: IntColumn
    running: BoolColumn


class HoldingLog:
    """Who holds how many GPUs from when on, in the order in which it happened."""

    def __init__(self) -> None:
        self._job = array("q")
        self._time = array("d")
        self._gpus = array("d")
        self._attempt = array("q")  # _NOBODY where an event took the GPUs, not a decision
        self._slots = array("q")
        self._slot_count = array("q")
        self._late: list[tuple[int, float]] = []  # row, real start
        self._held_until: list[tuple[int, int, float]] = []  # job, attempt, real end

    def add(self, time: float, decision: Decision) -> None:
        """A decision: its rows as they are."""
        count = len(decision.job)
        self._job.frombytes(decision.job.tobytes())
        self._time.extend([time] * count)
        self._gpus.frombytes(decision.gpus.tobytes())
        self._attempt.frombytes(decision.attempt.tobytes())
        self._slots.frombytes(decision.slots.tobytes())
        if len(decision.slot_offsets):
            self._slot_count.frombytes(np.diff(decision.slot_offsets).tobytes())
        else:
            self._slot_count.extend([0] * count)

    def extend(
        self, job: IntColumn, time: FloatColumn, gpus: FloatColumn, attempt: IntColumn
    ) -> None:
        """Rows of GPUs that are only counted; attempt -1 where the job ended by itself."""
        self._job.frombytes(job.tobytes())
        self._time.frombytes(time.tobytes())
        self._gpus.frombytes(gpus.tobytes())
        self._attempt.frombytes(attempt.tobytes())
        self._slot_count.extend([0] * len(job))

    def close(self, job: int, time: float) -> None:
        """The job holds nothing any more, by itself."""
        self._job.append(job)
        self._time.append(time)
        self._gpus.append(0.0)
        self._attempt.append(_NOBODY)
        self._slot_count.append(0)

    def started_late(self, job: int, time: float) -> None:
        """The GPUs given to ``job`` last come free only at ``time``."""
        row = len(self._job) - 1
        while self._job[row] != job:
            row -= 1
        self._late.append((row, time))

    def held_until(self, job: int, attempt: int, time: float) -> None:
        """The GPUs of a stopped attempt were held until now."""
        self._held_until.append((job, attempt, time))

    def history(self, jobs: int, now: float) -> History:
        """All segments and counts; what is still held is held until ``now``."""
        job, gpus = np.array(self._job, dtype=np.int64), np.array(self._gpus)
        attempt, start = np.array(self._attempt, dtype=np.int64), np.array(self._time)
        changed = start.copy()
        for row, time in self._late:
            start[row] = time
        by_job = np.argsort(job, kind="stable")
        end = np.full(len(job), now)
        followed = by_job[:-1][job[by_job[1:]] == job[by_job[:-1]]]
        following = by_job[1:][job[by_job[1:]] == job[by_job[:-1]]]
        end[followed] = changed[following]
        # A start that was waited for and then withdrawn held nothing.
        holding = by_job[(gpus[by_job] > 0) & (end[by_job] >= start[by_job])]
        key = job[holding] * (attempt.max(initial=0) + 1) + attempt[holding]
        for number, which, time in self._held_until:
            wanted = number * (attempt.max(initial=0) + 1) + which
            end[holding[np.searchsorted(key, wanted, side="right") - 1]] = time
        first_start = np.full(jobs, np.inf)
        np.minimum.at(first_start, job[holding], start[holding])
        last_attempt = np.zeros(jobs, dtype=np.int64)
        np.maximum.at(last_attempt, job[holding], attempt[holding])
        running = np.zeros(jobs, dtype=np.bool_)
        running[job[by_job]] = gpus[by_job] > 0  # the last row of each job stands
        stopped = job[(gpus == 0) & (attempt != _NOBODY)]
        return History(
            self._segments(holding[np.argsort(start[holding], kind="stable")], start, end),
            np.where(np.isinf(first_start), np.nan, first_start),
            np.bincount(stopped, minlength=jobs).astype(np.int64),
            np.maximum(last_attempt - 1, 0),
            running,
        )

    def _segments(self, rows: IntColumn, start: FloatColumn, end: FloatColumn) -> Segments:
        """The segments that begin with ``rows``, in this order."""
        counts = np.array(self._slot_count, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64)
        moved = (np.cumsum(counts) - counts)[rows] - offsets[:-1]
        places = np.repeat(moved, counts[rows]) + np.arange(offsets[-1])
        return Segments(
            np.array(self._job, dtype=np.int64)[rows],
            start[rows],
            end[rows],
            np.array(self._gpus)[rows],
            offsets,
            np.array(self._slots, dtype=np.int64)[places],
        )
