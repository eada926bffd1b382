"""Which running jobs a waiting one may stop, and which of them it does stop.

Source: "Preemption" of Slurm's documentation, slurm.conf(5) (``PreemptType``, ``PreemptMode``,
``PreemptExemptTime``, ``preempt_reorder_count``, ``preempt_strict_order``). ``SUSPEND`` and ``GANG`` are
refused where the site is read; grace times are not modelled.
"""

import numpy as np

from volvelle.incumbents.slurm.choosing import choose
from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.entries import Entry, Place
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.site import Partition
from volvelle.model.arrays import Bools

OFF = "OFF"


def may_preempt(rules: Rules, qos: str, partition: str, other_qos: str, other: str) -> bool:
    """Whether a job of a QOS in a partition may stop one of another QOS in another partition."""
    if rules.preempts_by == "qos":
        mine = rules.qos.get(qos)
        return (
            mine is not None
            and other_qos in mine.preempts
            and _mode(rules, other_qos, other) != OFF
        )
    if rules.preempts_by == "partition_prio":
        above = rules.partitions[partition].tier > rules.partitions[other].tier
        return above and _mode(rules, other_qos, other) != OFF
    return False


def _mode(rules: Rules, qos: str, partition: str) -> str:
    own = rules.qos.get(qos)
    by_qos = own.preempt_mode if own is not None and rules.preempts_by == "qos" else ""
    found = (by_qos if by_qos.lower() != "cluster" else "") or rules.partitions[
        partition
    ].preempt_mode
    if not found:
        found = next((mode for mode in ("REQUEUE", "CANCEL") if mode in rules.preempt_modes), OFF)
    return found.upper()


def mode_of(rules: Rules, entry: Entry) -> str:
    """The fate of a running job that is stopped: ``REQUEUE``, ``CANCEL``, or ``OFF``."""
    mode = _mode(rules, entry.job.qos, entry.partition)
    return "CANCEL" if mode == "REQUEUE" and not entry.job.requeue else mode


def candidates(controller: Controller, entry: Entry, partition: Partition) -> list[Entry]:
    """The running jobs that a job may stop, those of the least priority and the fewest nodes first."""
    rules, now = controller.rules, controller.now
    if rules.preempts_by == "none":
        return []
    found = []
    for other in controller.running.values():
        if now < other.start + rules.exempt_seconds(other.job.qos) or other.job.reservation:
            continue
        if may_preempt(rules, entry.job.qos, partition.name, other.job.qos, other.partition):
            found.append(other)
    found.sort(key=lambda one: one.job.id)
    if rules.youngest_first:
        found.sort(key=lambda one: -one.start)
    else:
        found.sort(key=lambda one: _worth(rules, one))
    return found


def stops_by_class(rules: Rules) -> Bools:
    """Which classes of jobs may stop which, (classes, classes)."""
    classes = rules.classes
    if len(rules.stops) != len(classes):
        rules.stops = np.array([[may_preempt(rules, *a, *b) for b in classes] for a in classes])
        rules.may_stop = np.array([bool(row.any()) for row in rules.stops])
    return rules.stops


def stoppable(controller: Controller) -> Bools:
    """Which holdings jobs of each class may stop now, (classes, holdings)."""
    holdings = controller.holdings
    stops: Bools = stops_by_class(controller.rules)[:, holdings.classes]
    stops &= controller.now >= holdings.exempt
    return stops


def _worth(rules: Rules, entry: Entry) -> tuple[float, int]:
    if rules.preempts_by == "qos":
        own = rules.qos.get(entry.job.qos)
        level = own.priority if own is not None else 0.0
    else:
        level = float(rules.partitions[entry.partition].tier)
    return level, len(entry.shares or ())


def victims_of(
    controller: Controller, place: Place, usable: Bools
) -> tuple[list[int], list[Entry]] | None:
    """The nodes on which a job would start if it stopped others, and which: all it may stop there.

    Candidates are taken away one by one until the job fits. Then they are put in order of how many nodes
    they have among the chosen, the last first, and it is tried again (``preempt_reorder_count`` and once).
    """
    rules = controller.rules
    order = candidates(controller, place.entry, place.partition)
    ground = rules.demands.ground
    tries = 0
    while order:
        free = controller.free.copy()
        for at, candidate in enumerate(order):
            for share in candidate.shares or ():
                free[:, share.node] += (share.cpus, share.memory, share.gpus)
            nodes = choose(ground, place.demand, free, usable)
            if nodes is None:
                continue
            tries += 1
            if tries > rules.reorders + 1 or len(order) <= tries:
                return nodes, [one for one in order[: at + 1] if _is_on(one, nodes)]
            before = order[:at]
            if rules.strict_order:
                order = [candidate, *before, *order[at + 1 :]]
            else:
                before.sort(key=lambda one: -_overlap(one, nodes))
                order = [candidate, *before, *order[at + 1 :]]
            break
        else:
            return None
    return None


def _overlap(entry: Entry, nodes: list[int]) -> int:
    return sum(share.node in nodes for share in entry.shares or ())


def _is_on(entry: Entry, nodes: list[int]) -> bool:
    return _overlap(entry, nodes) > 0
