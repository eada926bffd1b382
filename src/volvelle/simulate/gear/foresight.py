"""A whole simulation in which every job's finish is predicted at its submission, compiled.

The simulation goes from one submission to the next. There, for each job that came, the jobs in the
system are played out with nobody else arriving, as `volvelle.simulate.predict` says. The plain twin is
the general engine with a `Predictor`, and ``py_func``.
"""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.simulate.gear.loop import Floats, Input, play_out

_SUBMIT, _SINCE, _RATE, _TRULY_LEFT = Input.SUBMIT, Input.SINCE, Input.RATE, Input.TRULY_LEFT


@compiled
def foresee(
    jobs: Floats,
    rates: Floats,
    capacity: float,
    order: int,
    preemptive: bool,
    strict: bool,
    elastic: bool,
    weights: Floats,
    floor: float,
    delta: float,
) -> tuple[Floats, Floats, Floats]:
    """First starts, finishes and finishes predicted of ``jobs``; the arguments are those of `play_out`.

    Decisions are taken at events (no period). ``jobs`` is changed.
    """
    count = jobs.shape[1]
    start, finish, predicted = (
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.full(count, np.nan),
    )
    inside = np.empty(count, np.int64)
    active, come = 0, 0
    while come < count:
        now = jobs[_SUBMIT, come]
        dirty, kept = False, 0
        for i in range(active):  # those who end at this moment
            job = inside[i]
            if (
                jobs[_RATE, job] > 0.0
                and jobs[_SINCE, job] + jobs[_TRULY_LEFT, job] / jobs[_RATE, job] <= now
            ):
                finish[job] = now
                dirty = True
            else:
                inside[kept] = job
                kept += 1
        active = present = kept
        while come < count and jobs[_SUBMIT, come] <= now:
            inside[active] = come
            active += 1
            come += 1
        columns = np.empty((jobs.shape[0], active))
        for i in range(active):
            columns[:, i] = jobs[:, inside[i]]
        for i in range(present, active):
            _, ends, _ = play_out(
                columns[:, : i + 1].copy(), present, now, rates, capacity, order, preemptive, strict,
                elastic, 0.0, weights, floor, delta, dirty, i, np.inf,
            )  # fmt: skip
            predicted[inside[i]] = ends[i]
        until = np.nextafter(jobs[_SUBMIT, come], -np.inf) if come < count else np.inf
        starts, ends, _ = play_out(
            columns, present, now, rates, capacity, order, preemptive, strict,
            elastic, 0.0, weights, floor, delta, dirty, -1, until,
        )  # fmt: skip
        kept = 0
        for i in range(active):
            job = inside[i]
            if np.isnan(start[job]):
                start[job] = starts[i]
            if not np.isnan(ends[i]):
                finish[job] = ends[i]
                continue
            jobs[:, job] = columns[:, i]
            inside[kept] = job
            kept += 1
        active = kept
    return start, finish, predicted
