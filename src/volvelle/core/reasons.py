"""The reasons why jobs wait, worked out on demand."""

import numpy as np

from volvelle.core.fill import TARGET, TARGET_REASON, fill
from volvelle.core.order_policy import OrderPolicy
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import DECIDED, DIRTY, ORDER, Reason


def reasons_to_wait(scheduler: Scheduler) -> dict[int, Reason]:
    """The dominant cause for each job in the system that holds no GPUs, by number.

    Under an order that is kept, that is what serving all jobs in this order would say of them now; a job that
    would be served waits for the next round where something changed since the last, and has no place else.
    Other policies said so at their last decision.
    """
    s, view = scheduler.state, scheduler.view()
    jobs, policy = view.jobs, scheduler.composition.policy
    waits = jobs.held == 0.0
    reasons = jobs.column("reason")
    undecided = (jobs.column("started") > s.clock[DECIDED]) & bool(s.count[DIRTY])
    if scheduler.rules.grouped:
        free = np.max(np.subtract(s.types.capacity, s.types.used), initial=0.0)
        behind = np.where(jobs.min_gpus <= free, float(Reason.ORDER), float(Reason.GPUS))
        reasons = np.where(undecided, float(Reason.ROUND), behind)
    elif scheduler.rules.decides == ORDER and isinstance(policy, OrderPolicy):
        with np.errstate(all="ignore"):
            keys = np.asarray(policy.key(jobs, view.now), dtype=np.float64)
        least = jobs.min_gpus if policy.elastic else jobs.gpus
        most = jobs.max_gpus if policy.elastic else jobs.gpus
        given = (fill.py_func if jobs.interpreted else fill)(
            jobs.matrix,
            np.argsort(keys, kind="stable"),
            least,
            most,
            view.capacity,
            view.quota,
            policy.preemptive,
            policy.strict,
        )
        placed = Reason.ROUND if s.count[DIRTY] else Reason.PLACEMENT
        reasons = np.where(given[TARGET] > 0.0, float(placed), given[TARGET_REASON])
        reasons = np.where(undecided, float(Reason.ROUND), reasons)
    numbers = jobs.number[waits].astype(np.int64).tolist()
    return {
        number: Reason(int(reason))
        for number, reason in zip(numbers, reasons[waits].tolist(), strict=True)
    }
