"""The times that finished jobs were told at submission, from the store, judged as those of a run."""

from collections.abc import Iterable

import numpy as np

from volvelle.live.status.view import JobState
from volvelle.live.store.jobs import JobTable
from volvelle.metrics.told import Told

_JOBS = 1000
"""The latest finished jobs that are judged."""


def told_of(jobs: JobTable, waiting: Iterable[float]) -> Told:
    """The latest finished jobs, with when jobs were submitted that are not over; seconds since the epoch."""
    rows = [
        (
            each.submitted,
            each.ended,
            each.forecast_finish,
            each.first_p50,
            each.first_p90,
            each.request.get("gpus") or 1.0,
        )
        for each in jobs.list_latest(states=[JobState.FINISHED.value], limit=_JOBS)
    ]
    rows += [(submitted, None, None, None, None, 1.0) for submitted in waiting]
    rows.sort(key=lambda row: row[0])
    submit, finish, predicted, p50, p90, gpus = np.array(rows, np.float64).reshape(-1, 6).T
    return Told(submit, finish, predicted, p50, p90, gpus, ~np.isnan(finish))
