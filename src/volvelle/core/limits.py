"""Hard limits on how long jobs run: a job whose time is over is ended at a checkpoint."""

from volvelle.core.entry import drop
from volvelle.core.forward.jobs import stop
from volvelle.core.forward.log import log_event
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import INFINITY, TIMED, TIMED_OUT
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.model.units import format_duration


def runs_out(scheduler: SchedulerState, row: int) -> float:
    """When the time of the job in ``row`` is over if it runs on; infinite without a limit or GPUs."""
    jobs = scheduler.state.jobs
    if jobs.time_limit[row] <= 0.0 or jobs.held[row] == 0.0:
        return INFINITY
    return float(jobs.started[row] + max(jobs.time_limit[row] - jobs.attained[row], 0.0))


def end_overrun(scheduler: SchedulerState) -> None:
    """End the jobs whose time is over; let the forward loop know whose is next."""
    s, now, soonest = scheduler.state, scheduler.now, INFINITY
    for number, row in list(scheduler.known.rows.items()):
        over_at = runs_out(scheduler, row)
        if over_at > now + SAME_MOMENT:
            soonest = min(soonest, over_at)
            continue
        limit = format_duration(float(s.jobs.time_limit[row]))
        scheduler.notes.reasons[number] = f"its time limit of {limit} is over"
        log_event(s, scheduler.rules, TIMED_OUT, number, 0.0, 0.0)
        scheduler.admissions.note_end(scheduler.spec(number).id, ok=False)
        stop(s, scheduler.rules, row, now)
        drop(scheduler, row)
    s.clock[TIMED] = soonest
