"""Refusals of and warnings about a job that is submitted, or asked about."""

import math
from collections.abc import Sequence

from volvelle.core.composition import Composition
from volvelle.live.control.controller import Controller
from volvelle.live.http.errors import HttpError
from volvelle.live.job_request import JobRequest
from volvelle.live.notify import place_of
from volvelle.live.status.view import NodeStatusView
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
    said = _lacking(spec, composition)
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
    return tuple(said)


def _lacking(spec: JobSpec, composition: Composition) -> list[str]:
    """Clauses on declarations that parts lack of a job, and on a user's own part that failed at it."""
    said = []
    for part in composition:
        try:
            said.append(part.lacks(spec))
        except Exception as error:
            kind, failure = composition.failed(error)
            if kind not in composition.own:
                raise
            said.append(failure)
    return [each for each in said if each]


def begins_again(job: JobRequest, user: str, controller: Controller) -> tuple[str, ...]:
    """Say that a job may be stopped and lose its work, and whether forecasts count that before it happens.

    Empty where the policy lets jobs run to their end, or the job declares that it saves, or jobs of its
    name have counted iterations.
    """
    policy, spec = controller.composition.policy, controller.spec(job, user)
    stopped = policy.stops_jobs or (spec.elastic and policy.resizes)
    measured = job.name and controller.measured_rates(user, job.name)
    if not (stopped and spec.preemptible) or job.declares_checkpoints or measured:
        return ()
    counted = "which forecasts count until it is seen to save"
    return (
        f"policy {policy.name!r} may stop it for others: a script that saves nothing then begins again, "
        f"{counted if spec.starts_over else 'which its forecast does not count'} "
        "(--no-preempt keeps its GPUs)",
    )


def starts_several_times(job: JobRequest, user: str, controller: Controller) -> tuple[str, ...]:
    """Say that a command of one process starts on several nodes: it has to, or by what is free now."""
    composition, spec = controller.composition, controller.spec(job, user)
    gpus = spec.gpus
    command = " ".join(job.command)
    if gpus <= 1 or any(word in command for word in _LAUNCHERS) or spec.most_gpus > gpus:
        return ()
    there: dict[NodeKind, list[NodeStatusView]] = {}
    for node in controller.status.nodes:
        kind = NodeKind(node.gpu_type, node.labels)
        of_type = not spec.gpu_types or node.gpu_type in spec.gpu_types
        if of_type and kind.meets(spec.constraints):
            there.setdefault(kind, []).append(node)
    largest = max((node.gpus for nodes in there.values() for node in nodes), default=0)
    if 0 < largest < gpus:
        return (
            f"no node has {gpus:g} GPUs: its command starts once on each of "
            f"{math.ceil(gpus / largest)} nodes or more; torchrun and the like make it one job there",
        )
    if spec.exclusive or composition.policy.chooses_nodes:
        return ()
    there = {kind: [n for n in nodes if n.state == NodeState.UP] for kind, nodes in there.items()}
    whole = any(node.free >= gpus for nodes in there.values() for node in nodes)
    if whole or not any(_spreads(nodes, int(gpus), composition) for nodes in there.values()):
        return ()
    alone = {node.gpus for nodes in there.values() for node in nodes} == {gpus}
    one = (
        "--exclusive keeps it on one node"
        if alone
        else "placement consolidated-strict waits for one"
    )
    return (
        "by what is free now its command starts on several nodes, once on each "
        f"(placement {composition.placement.name!r}): torchrun and the like make it one job there; {one}",
    )


def _spreads(nodes: Sequence[NodeStatusView], gpus: int, composition: Composition) -> bool:
    """Whether a gang that one of the ``nodes`` could hold takes the free GPUs of several."""
    largest = max((node.gpus for node in nodes), default=0)
    enough = gpus <= largest and gpus <= sum(node.free for node in nodes)
    return enough and composition.placement.may_spread(gpus, largest)


_LAUNCHERS = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "mpirun", "VOLVELLE_NODE")
"""Words of commands that heed on how many nodes they run."""
