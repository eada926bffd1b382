"""Whether machine code alone can play out what a scheduler believes, and the rules under which it does."""

import numpy as np

from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.core.view import JobView
from volvelle.model.arrays import FloatColumn


def can_play_out(scheduler: SchedulerState) -> bool:
    """Whether machine code knows all that decides how jobs go on, and asks no part in Python."""
    rules, s = scheduler.rules, scheduler.state
    if not s.compiled or rules.yields or ASKED in (rules.decides, rules.places):
        return False
    parts = scheduler.composition
    if (
        rules.learns
        or rules.notes
        or scheduler.admissions.dependents.blocked
        or rules.divides
        or parts.reports_every is not None
        or scheduler.cluster.changes
    ):
        return False
    if parts.admission.limit(0.0) is None:
        return False
    queued = s.count[COME] > s.count[QUEUED]
    if queued and (scheduler.admissions.arrival is None or not scheduler.admissions.prepared):
        return False  # what is believed of them is not in the table of arrivals
    jobs, here = JobView(s, scheduler.now), s.arrivals[:, s.count[QUEUED] : s.count[COME]]
    if jobs.column("pinned").any() or jobs.column("time_limit").any():
        return False
    asked = np.isnan(jobs.column("unit_rate")) & (jobs.column("table") < 0.0)
    return not asked.any() and machine_code_knows(here)


def machine_code_knows(arrivals: FloatColumn) -> bool:
    """Whether machine code knows all that is believed to happen to these jobs, columns of arrivals."""
    asked = np.isnan(arrivals[PLACE["unit_rate"]]) & (arrivals[PLACE["table"]] < 0.0)
    return not (asked.any() or arrivals[PLACE["time_limit"]].any())


def rules_ahead(scheduler: SchedulerState) -> Rules:
    """The rules under which machine code plays out what ``scheduler`` believes."""
    return scheduler.rules._replace(
        simulated=True, tick=0.0, admits=False, logs=False, pauses=NEVER
    )
