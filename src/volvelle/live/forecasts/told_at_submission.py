"""What finished jobs were told at submission, from the store, to be judged as those of a simulated run."""

import numpy as np

from volvelle.live.status.view import JobState
from volvelle.live.store import Store
from volvelle.metrics.told import Told

_JOBS = 1000
"""The latest finished jobs that are judged."""


def told_of(store: Store) -> Told:
    """The latest finished jobs, and those that are not over; dates are seconds since the Unix epoch."""
    finished = store.jobs.list_latest(states=[JobState.FINISHED.value], limit=_JOBS)
    records = sorted(
        (*finished, *store.jobs.list_unfinished()), key=lambda each: (each.submitted, each.number)
    )
    rows = [
        (
            each.submitted,
            each.ended,
            each.forecast_finish,
            each.promised_p50,
            each.promised_p90,
            each.request.get("gpus") or 1.0,
        )
        for each in records
    ]
    submit, finish, predicted, p50, p90, gpus = np.array(rows, np.float64).reshape(-1, 6).T
    return Told(submit, finish, predicted, p50, p90, gpus, ~np.isnan(finish))
