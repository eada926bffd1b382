"""Refusals of and warnings about a job that is submitted, or asked about."""

from volvelle.live.control.controller import Controller
from volvelle.live.http.errors import HttpError
from volvelle.live.job_request import JobRequest
from volvelle.live.notify import place_of
from volvelle.model.cluster import NodeState
from volvelle.model.job import JobSpec
from volvelle.model.node import NodeKind
from volvelle.model.units import format_duration


def check_targets(job: JobRequest, controller: Controller) -> None:
    """Raise `HttpError` where the operator does not allow a target of notifications."""
    settings = controller.notifications
    for each in job.notify:
        if not settings.allows(each.to):
            allowed = ", ".join((*settings.webhook_origins, *settings.mail_domains))
            raise HttpError(
                403,
                f"this server does not notify {place_of(each.to)} for users",
                place="notify",
                hint=f"it notifies {allowed}" if allowed else "leave it out, or ask an operator",
            )


def notices_of(job: JobRequest, user: str, controller: Controller) -> tuple[str, ...]:
    """Warnings to the user of a job about its request and about missing declarations."""
    composition, spec = controller.composition, controller.spec(job, user)
    policy = composition.policy
    said = [lacking for part in composition if (lacking := part.lacks(spec))]
    if job.priority and not policy.heeds_priority:
        said.append(f"policy {policy.name!r} ignores priorities")
    if job.time_limit is not None and job.estimate is not None and job.estimate > job.time_limit:
        longer, limit = format_duration(job.estimate), format_duration(job.time_limit)
        said.append(f"by its estimate it takes {longer}; its time limit ends it after {limit}")
    if job.deadline is not None and job.estimate is not None:
        takes, within = job.estimate, job.deadline.rewards[-1].deadline_seconds
        if takes > within and spec.most_gpus == spec.gpus:
            longer, due = format_duration(takes), format_duration(within)
            said.append(
                f"by its estimate it takes {longer}; its deadline is in {due}, which is missed"
            )
    if apart := _may_start_several_times(job, spec, controller):
        said.append(apart)
    return tuple(said)


def _may_start_several_times(job: JobRequest, spec: JobSpec, controller: Controller) -> str:
    """Say that a command of one process may start on several nodes, though one could hold its GPUs."""
    composition, gpus = controller.composition, spec.gpus
    command = " ".join(job.command)
    known = any(word in command for word in _LAUNCHERS) or spec.most_gpus > gpus
    if gpus <= 1 or known or spec.exclusive or composition.policy.chooses_nodes:
        return ""
    sizes: dict[NodeKind, list[int]] = {}
    for node in controller.status.nodes:
        kind = NodeKind(node.gpu_type, node.labels)
        of_type = not spec.gpu_types or node.gpu_type in spec.gpu_types
        if of_type and kind.meets(spec.constraints) and node.state == NodeState.UP:
            sizes.setdefault(kind, []).append(node.gpus)
    placement = composition.placement
    if not any(
        len(each) > 1 and gpus <= max(each) and placement.may_spread(int(gpus), max(each))
        for each in sizes.values()
    ):
        return ""
    whole = {size for each in sizes.values() for size in each} == {gpus}
    one = (
        "--exclusive keeps it on one node"
        if whole
        else "placement consolidated-strict waits for one"
    )
    return (
        f"its command may start on several nodes, once on each (placement {placement.name!r}): "
        f"torchrun and the like make it one job there; {one}"
    )


_LAUNCHERS = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "mpirun", "VOLVELLE_NODE")
"""Words of commands that heed on how many nodes they run."""
