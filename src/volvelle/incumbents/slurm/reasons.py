"""Why a job waits: Slurm's word, and the limit, the jobs, the reservation or the nodes behind it."""

from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.entries import Entry
from volvelle.incumbents.slurm.limits import Bound

_FOR_NODES = "Resources", "Priority"


def explained(controller: Controller, entry: Entry) -> str:
    """Slurm's reason and what is behind it, in a line; empty for a job that runs."""
    reason = controller.reason(entry)
    if entry.shares is not None or not reason:
        return ""
    behind = _behind(controller, entry, reason)
    return f"{reason}: {behind}" if behind else reason


def _behind(controller: Controller, entry: Entry, reason: str) -> str:
    job, now = entry.job, controller.now
    match reason:
        case "BeginTime":
            said = f"it may not start for another {entry.eligible - now:.0f} s"
        case "JobHeldUser":
            said = "it is held until somebody releases it"
        case "Dependency":
            said = "it waits for " + ", ".join(sorted(entry.after & controller.keys.keys()))
        case "JobArrayTaskLimit":
            said = f"{job.throttle} tasks of its array run, and no more may at once"
        case "Licenses":
            asked = ", ".join(f"{name}:{amount:g}" for name, amount in job.licences.items())
            said = f"licences {asked} are in use or reserved"
        case "Reservation" | "ReqNodeNotAvail":
            names = [one.name for one in controller.reservations if one.end > now]
            said = f"reservations {', '.join(names)}" if names else "its nodes take no jobs"
        case "Resources" | "Priority":
            said = _ahead(controller, entry)
        case _:
            said = _limit(controller, entry, reason)
    return said


def _ahead(controller: Controller, entry: Entry) -> str:
    """How many jobs that wait for nodes of its partitions stand before it in the queue."""
    mine, before = {one.name for one in entry.partitions}, set()
    for row in controller.queue.order.tolist():
        place = controller.place_of[row]
        if place.entry is entry:
            break
        if place.partition.name in mine and controller.reason(place.entry) in _FOR_NODES:
            before.add(place.entry.number)
    ahead = len(before)
    return f"{ahead} jobs are ahead of it" if ahead else "it is the next for nodes"


def _limit(controller: Controller, entry: Entry, reason: str) -> str:
    """The jobs that use a limit up, and when the first of them ends at the latest."""
    job = entry.job
    for place in entry.partitions:
        for bound in controller.book.bounds(job.user, job.account, job.qos, place.name):
            if controller.book.exceeds(bound, job.asked) != reason:
                continue
            users = [one for one in controller.running.values() if _within(controller, one, bound)]
            if users:
                held = ", ".join(one.job.key for one in users[:5])
                soonest = min(one.ends for one in users) - controller.now
                most = ", ".join(f"{amount:g} {name}" for name, amount in bound.most.items())
                return (
                    f"at most {most}; {held} have it, the first of them for {soonest:.0f} s at most"
                )
    return ""


def _within(controller: Controller, entry: Entry, bound: Bound) -> bool:
    job = entry.job
    bounds = controller.book.bounds(job.user, job.account, job.qos, entry.partition)
    return any(one.scope == bound.scope for one in bounds)
