"""Beliefs become true: the beginning of a play-out."""

from volvelle.core.compiled import kernel
from volvelle.core.forward.expected import expect
from volvelle.core.state import *


@kernel
def believe(s: State) -> None:
    """Let what is believed of every job be true; what was expected of them is forgotten.

    The rest counts ``scale`` times. A job that did more than was believed of it ends now. A checkpoint
    that is being written holds what is believed done.
    """
    jobs, now, row = s.jobs, s.clock[NOW], s.count[OLDEST]
    for _ in range(s.count[JOBS]):
        done, rate, since = jobs.done[row], jobs.rate[row], jobs.progress_from[row]
        reached = done + max(now - since, 0.0) * rate
        work, unit = jobs.total[row], jobs.unit_rate[row]
        if jobs.scale[row] != 1.0 or work < reached:
            work = reached + jobs.scale[row] * max(work - reached, 0.0)
        jobs.total[row] = work
        jobs.scale[row] = 1.0
        jobs.true_work[row] = work
        jobs.true_unit_rate[row] = unit
        jobs.true_table[row] = jobs.table[row]
        jobs.truly_asked[row] = 0.0
        if unit != unit and jobs.table[row] < 0.0:  # noqa: PLR0124 - NaN
            jobs.truly_asked[row] = 1.0
        jobs.true_done[row] = done
        jobs.saved[row] = done
        jobs.true_rate[row] = rate
        jobs.since[row] = since
        jobs.saved_at[row] = since
        jobs.cadence_from[row] = since
        jobs.token[row] += 1.0
        row = jobs.younger[row]
    _keep_stops(s)


@kernel
def fall_silent(s: State) -> None:
    """Silence every clock of what no look-ahead foresees: nodes, switches, guarantees, dependents."""
    for clock in (NODE_AT, SWITCH_AT, PROMISED, ELIGIBLE):
        s.clock[clock] = INFINITY
    s.count[ENDLESS] = 0


@kernel
def _keep_stops(s: State) -> None:
    """Expect nothing but checkpoints that are being written."""
    heap, many = s.expected, s.count[EXPECTED]
    s.count[EXPECTED] = 0
    for i in range(many):
        if heap.kind[i] == STOPPED:
            time, number, row, attempt = heap.at[i], heap.of[i], int(heap.row[i]), heap.stamp[i]
            work = s.jobs.done[row] if s.jobs.number[row] == number else 0.0
            expect(s, time, STOPPED, number, row, attempt, work)


@kernel
def expect_ends(s: State) -> None:
    """Expect the end of every job that runs, by the truth about it."""
    jobs, now, row = s.jobs, s.clock[NOW], s.count[OLDEST]
    for _ in range(s.count[JOBS]):
        rate = jobs.true_rate[row]
        if rate > 0.0 and jobs.truly_asked[row] == 0.0:
            end = jobs.since[row] + (jobs.true_work[row] - jobs.true_done[row]) / rate
            expect(s, max(end, now), MILESTONE, jobs.number[row], row, jobs.token[row], 0.0)
        row = jobs.younger[row]
