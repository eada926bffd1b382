"""Causes that keep a waiting job from starting whatever nodes are free, and when they are known to end."""

from collections.abc import Iterator

from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.entries import Entry
from volvelle.incumbents.slurm.queue import ELIGIBLE, WATCHED


def waits_for(controller: Controller, entry: Entry) -> str:
    """Why a job does not come into question now, in Slurm's words; empty: it does."""
    late = entry.eligible > controller.now
    if entry.waits_for_time_only:
        return "BeginTime" if late else ""
    job = entry.job
    if entry.held:
        return "JobHeldUser"
    if entry.barred:
        return entry.barred
    if late:
        return "BeginTime"
    if any(key in controller.keys for key in entry.after) or _is_not_alone(controller, entry):
        return "Dependency"
    running = 0 if job.array is None else controller.tasks.get(job.array, 0)
    return "JobArrayTaskLimit" if job.throttle and running >= job.throttle else ""


def _is_not_alone(controller: Controller, entry: Entry) -> bool:
    """Whether a singleton waits for a job of the same name and user (sbatch(1), ``--dependency``)."""
    if not entry.is_singleton:
        return False
    mine = entry.job.user, entry.job.name
    return any(
        other.number != entry.number
        and (other.shares is not None or other.job.id < entry.job.id)
        and (other.job.user, other.job.name) == mine
        for other in controller.entries.values()
    )


def lacks_licences(controller: Controller, entry: Entry) -> bool:
    """Whether licences are in use, or reserved for others while the job may run."""
    now, end = controller.now, controller.now + entry.limit
    for name, amount in entry.job.licences.items():
        free = controller.licences.get(name, 0.0)
        for one in controller.reservations:
            if one.start < end and one.end > now and one.name != entry.job.reservation:
                free -= one.licences.get(name, 0.0)
        if free < amount:
            return True
    return False


def moments(controller: Controller) -> Iterator[float]:
    """Later times at which something is known to change though nothing ends: holds, reservations."""
    queue, now = controller.queue, controller.now
    if queue.latest > now:
        times, held = queue.table[queue.order][:, [ELIGIBLE, WATCHED]].T
        yield from times[(times > now) & (held < 2.0)].tolist()
    for one in controller.reservations:
        yield from (time for time in (one.start, one.end) if time > now)
