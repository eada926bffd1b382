"""Why jobs wait, as text with numbers: the dominant reason of the last decision; and who borrows GPUs."""

from typing import NamedTuple, Self

import numpy as np

from volvelle.core.eligibility import limits_of
from volvelle.core.reasons import reasons_to_wait
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import Reason
from volvelle.dashboard.sentences import NO_NODE
from volvelle.model.cluster import NodeState

_NAMED = 3
"""Jobs that a reason names."""

BORROWS = "on GPUs that its pool borrows"


class WaitingReason(NamedTuple):
    """A reason, as text. free: the GPUs that it counts as free; None: none, or those of some nodes."""

    text: str
    free: int | None = None


NO_REASON = WaitingReason("")


def waiting_reasons(scheduler: Scheduler, only: int | None = None) -> dict[int, WaitingReason]:
    """The reason of each job without GPUs that is not held, or of one; `BORROWS` on borrowed GPUs."""
    reasons, jobs = reasons_to_wait(scheduler), scheduler.state.jobs
    free_gpus, labels = _FreeGpus(scheduler), _Labels.of(scheduler)
    if only is not None:
        reasons = {number: reason for number, reason in reasons.items() if number == only}
    rows, nowhere = scheduler.known.rows, _nowhere(scheduler)
    found: dict[int, WaitingReason] = {}
    described: dict[tuple[object, ...], WaitingReason] = {}
    for number, reason in reasons.items():
        if nowhere:
            found[number] = WaitingReason(nowhere)
            continue
        if why := scheduler.composition.policy.why(number):
            found[number] = WaitingReason(why)
            continue
        row = rows[number]
        wanted, types, pool = float(jobs.least[row]), int(jobs.types[row]), int(jobs.pool[row])
        constraints = scheduler.known[number].spec.constraints
        like = reason, wanted, types, pool, constraints
        if like not in described:
            free, kinds = free_gpus.of_kinds(types), free_gpus.named(types)
            described[like] = _describe(labels, reason, wanted, free, kinds, pool, constraints)
        found[number] = described[like]
    others = _admission_reasons(scheduler) | _dependency_reasons(scheduler) | _borrowers(scheduler)
    return found | {number: WaitingReason(text) for number, text in others.items()}


def _nowhere(scheduler: Scheduler) -> str:
    """Why no job can start whatever it requests; empty where a node takes jobs."""
    resources = scheduler.resources
    if resources.schedulable.any():
        return ""
    down = all(state is NodeState.DOWN for state in resources.node_states)
    return NO_NODE if down else "no node takes new jobs: all are drained, down or not back yet"


def _borrowers(scheduler: Scheduler) -> dict[int, str]:
    if not any(pool.lends for pool in scheduler.cluster.pools):
        return {}
    view = scheduler.view()
    return dict.fromkeys(view.jobs.number[view.borrowed].astype(np.int64).tolist(), BORROWS)


class _Labels(NamedTuple):
    """Objects that the reasons name."""

    policy: str
    placement: str
    limits: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, scheduler: Scheduler) -> Self:
        parts = scheduler.composition
        limits = limits_of(scheduler.cluster, parts.policy)
        return cls(parts.policy.label, parts.placement.label, tuple(limits.items()))


def _admission_reasons(scheduler: Scheduler) -> dict[int, str]:
    admission = scheduler.composition.admission
    why = f": {admission.holds_back}" if admission.holds_back else ""
    text = f"admission {admission.name!r} does not admit it yet{why}"
    return {
        event.number: f"{text}; {_jobs(place)} before it in the admission queue" if place else text
        for place, event in enumerate(scheduler.admissions.waiting)
    }


def _dependency_reasons(scheduler: Scheduler) -> dict[int, str]:
    return {
        number: _waits_for([one.job for one in dependent.left])
        for number, dependent in scheduler.admissions.dependents.blocked.items()
        if not dependent.held
    }


def _waits_for(names: list[str]) -> str:
    """Which jobs another waits for, the first few by name."""
    if not names:
        return "the jobs that it waited for have ended; it comes soon"
    named, more = names[:_NAMED], len(names) - _NAMED
    text = ", ".join(named) + (f" and {more:,} more" if more > 0 else "")
    return f"waits for job{'s' if len(names) > 1 else ''} {text}"


def _describe(
    labels: _Labels,
    cause: Reason,
    wanted: float,
    free: tuple[int, str],
    kinds: str,
    pool: int,
    constraints: tuple[str, ...],
) -> WaitingReason:
    total, most = free
    gpus = f"{wanted:g} {kinds}GPU{'' if wanted == 1 else 's'}"
    there = f"{total} free"
    if constraints:
        among = f"nodes with {', '.join(constraints)}"
        there = f"{total} free on {among}" if total else f"none free on {among}"
    there += f", most {most}" if total else ""
    policy = labels.policy
    name, limit = labels.limits[pool] if pool >= 0 else ("", 0.0)
    if cause is Reason.ORDER and total < wanted:
        cause = Reason.GPUS
    counts = None if constraints or cause in (Reason.QUOTA, Reason.ROUND) else total
    texts = {
        Reason.ORDER: f"{there}, but a job before it in the order waits for more",
        Reason.QUOTA: f"waits for {gpus} of pool {name!r}, whose {limit:g} are in use",
        Reason.PLACEMENT: f"placement {labels.placement!r} finds no room for {gpus}: {there}",
        Reason.POLICY: f"policy {policy!r} gives its GPUs to others: {there}",
        Reason.RESERVED: f"{there}, kept for work that comes or waits in the pools that own them",
        Reason.ROUND: f"the next round of policy {policy!r} decides",
    }
    return WaitingReason(texts.get(cause, f"waits for {gpus}: {there}"), counts)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


class _FreeGpus:
    """Free GPUs on nodes that take jobs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._resources = scheduler.resources
        self._free = np.where(self._resources.schedulable, self._resources.free, 0)
        self._cache: dict[int, tuple[int, str]] = {}

    def named(self, types: int) -> str:
        """The kinds that a job may have, as in ``h100 or a100``; empty where these are all."""
        there = self._resources.types
        names = dict.fromkeys(name for at, name in enumerate(there) if types >> at & 1)
        return "" if "" in names or len(names) == len({*there}) else f"{' or '.join(names)} "

    def of_kinds(self, types: int) -> tuple[int, str]:
        """Free GPUs on a set of kinds of nodes; the node that has most, and such a domain of each level."""
        if types not in self._cache:
            resources = self._resources
            free = np.where((types >> resources.node_type) & 1, self._free, 0)
            most = []
            if total := int(free.sum()):
                best = int(np.argmax(free))
                most.append(f"on {resources.nodes[best].name} ({free[best]})")
                for depth, there in reversed([*enumerate(resources.domains)]):
                    by_domain = np.bincount(there, free)
                    domain = int(np.argmax(by_domain))
                    node = resources.nodes[int(np.argmax(there == domain))]
                    name = (node.domain[depth : depth + 1] or ("none",))[0]
                    level = resources.levels[depth].name
                    most.append(f"in {level} {name} ({by_domain[domain]:g})")
            self._cache[types] = total, ", ".join(most)
        return self._cache[types]
