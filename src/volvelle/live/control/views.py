"""Builds status views from the controller state."""

import math
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import replace

from volvelle.core.promises import LATE, keeps
from volvelle.dashboard.sentences import NO_NODE
from volvelle.live.control.cycle_effects import EndedJob
from volvelle.live.control.gpu_ledger import PARTITION, AttemptPhase
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.state import ControllerState
from volvelle.live.scheduler_queries import believed_end, preemptions
from volvelle.live.status.publisher import StatusUpdate
from volvelle.live.status.reasons import BORROWS
from volvelle.live.status.view import (
    NO_GUARANTEES,
    PROFILING,
    Guarantee,
    JobState,
    JobStatusView,
    NodeStatusView,
)
from volvelle.model.cluster import NodeState
from volvelle.model.node import Node
from volvelle.profiling.partition import PartitionNode

_STATES = {
    AttemptPhase.STARTING: JobState.STARTING,
    AttemptPhase.RUNNING: JobState.RUNNING,
    AttemptPhase.STOPPING: JobState.STOPPING,
}


class ViewBuilder:
    """Builds views of ``state``, only of what changed."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._given = state.ledger.given()
        self._nodes = tuple(map(self._node_view, range(len(state.ledger.resources.nodes))))
        state.ledger.changed_slots.clear()

    @property
    def _all_nodes(self) -> tuple[NodeStatusView, ...]:
        partition = self._state.partition
        if partition is None:
            return self._nodes
        return (*self._nodes, *map(self._partition_view, partition.nodes, partition.rules.nodes))

    def update(
        self,
        jobs: Iterable[int],
        ended: Iterable[JobStatusView] = (),
        nodes: Iterable[str] = (),
    ) -> StatusUpdate:
        """The update after a cycle that changed these jobs and nodes."""
        state = self._state
        self._update_nodes(nodes)
        composition = state.scheduler.composition
        return StatusUpdate(
            seq=state.next_seq - 1,
            time=state.last_wall_time,
            policy=composition.policy.label,
            admission=composition.admission.label,
            jobs=tuple(
                self._job_view(state.jobs[number])
                for number in sorted(jobs)
                if number in state.jobs
            ),
            ended=tuple(ended),
            nodes=self._all_nodes,
        )

    def final_view(self, ended: EndedJob, published: Mapping[int, JobStatusView]) -> JobStatusView:
        """The last view of a job that is over. ``published``: views of jobs before this cycle."""
        view = self._job_view(ended.job)
        before = published.get(ended.job.number, view)
        finished = ended.state is JobState.FINISHED
        return replace(
            view,
            state=ended.state,
            profiling=False,
            reason=ended.reason,
            started=before.started,
            attempt=before.attempt,
            preemptions=max(before.preemptions, view.preemptions),
            grants=(),
            gpus=float(ended.job.request.gpus),
            ended=(at := self._state.dates.date(ended.ended)),
            guarantee=_at_end(view.guarantee, at) if finished else view.guarantee,
            predicted_start=None,
            predicted_p50=ended.job.predicted_p50 if finished else None,
            predicted_p90=ended.job.predicted_p90 if finished else None,
        )

    def _job_view(self, job: LiveJob) -> JobStatusView:
        ledger, dates = self._state.ledger, self._state.dates
        attempt, grant = ledger.attempts.get(job.number), ledger.pending.get(job.number)
        if attempt is not None:
            state, slots = _STATES[attempt.phase], tuple(sorted(attempt.slots))
        elif grant is not None:
            state, slots = JobState.STARTING, grant.slots
        else:
            state, slots = JobState.HELD if job.held else JobState.WAITING, ()
        return JobStatusView(
            number=job.number,
            identity=job.identity,
            name=job.request.name,
            user=job.user,
            state=state,
            gpus=float(len(slots) or job.request.gpus),
            submitted=job.submitted,
            request=job.request_json,
            started=None if attempt is None else dates.date(attempt.since),
            first_started=job.first_started,
            waited_for=job.waited_for,
            grants=tuple((each.node, each.gpus) for each in ledger.grants(slots)),
            attempt=0 if attempt is None else attempt.attempt,
            ran_on=job.ran_on,
            preemptions=preemptions(self._state.scheduler, job.number),
            failures=job.failures,
            reason=self._reason(job, state),
            reason_free=job.waiting_free if state is JobState.WAITING else None,
            iterations=job.iterations,
            saved_iterations=job.saved_iterations,
            total_iterations=job.total_iterations,
            iteration_seconds=job.iteration_seconds,
            metrics=job.metrics,
            predicted_start=None if job.held else job.predicted_start,
            predicted_p50=None if job.held else job.predicted_p50,
            predicted_p90=None if job.held else job.predicted_p90,
            guessed=job.guessed and not job.held,
            believed_end=None if attempt is None else self._believed_end(job.number),
            array_index=job.position if job.request.array > 1 else None,
            first_p50=job.first_p50,
            due=job.due,
            guarantee=self._guarantee(job),
            profiling=self._state.is_profiled(job.number),
            profile=job.profile,
            changed=job.changed,
        )

    def _believed_end(self, number: int) -> float | None:
        end = believed_end(self._state.scheduler, number)
        return None if end is None else self._state.dates.date(end)

    def _guarantee(self, job: LiveJob) -> Guarantee | None:
        """The guarantee to a job. One with a deadline that came in without a word has no guarantee."""
        if job.guarantee is not None or job.due is None:
            return job.guarantee
        came_in = (
            job.first_started is not None or self._state.scheduler.row_of(job.number) is not None
        )
        return NO_GUARANTEES if came_in else None

    def _reason(self, job: LiveJob, state: JobState) -> str:
        partition = self._state.partition
        if partition is not None and job.number in partition.jobs:
            return partition.describe(job.number, self._state.last_time)
        reason, joining = _reason(job, state), self._state.joining
        return f"{reason}; {joining}" if joining and reason == NO_NODE else reason

    def _update_nodes(self, names: Iterable[str]) -> None:
        """Rebuild the views of nodes that changed, or whose GPUs changed hands."""
        ledger = self._state.ledger
        resources, self._given = ledger.resources, ledger.given()
        changed = {resources.index[name] for name in names}
        if ledger.changed_slots:
            slots = [slot for slot in ledger.changed_slots if slot < PARTITION]
            changed.update(resources.slot_node[slots].tolist())
            ledger.changed_slots.clear()
        if not changed:
            return
        nodes = list(self._nodes)
        for at in sorted(changed):  # a new node comes after all others
            nodes[at : at + 1] = [self._node_view(at)]
        self._nodes = tuple(nodes)

    def _holders(self, slots: Iterable[int]) -> list[int]:
        """The job of each of these slots that is occupied, or given to one that starts."""
        held = ChainMap(self._state.ledger.occupied, self._given)
        return [held[slot] for slot in slots if slot in held]

    def _partition_view(self, node: Node, place: PartitionNode) -> NodeStatusView:
        state = self._state
        slots = state.ledger.slots_of(node.name)
        holders = self._holders(slots)
        drained = node.name in state.drained
        there = NodeState.DRAINING.value if drained else PROFILING
        return NodeStatusView(
            name=node.name,
            gpus=node.gpus,
            gpu_type=node.gpu_type,
            labels=node.labels,
            state=NodeState.DOWN.value if place.since == math.inf else there,
            free=len(slots) - len(holders),
            jobs=tuple(sorted(set(holders))),
        )

    def _node_view(self, at: int) -> NodeStatusView:
        resources = self._state.ledger.resources
        first, end = resources.first_slot[at : at + 2].tolist()
        holders = self._holders(range(first, end))
        node = resources.nodes[at]
        return NodeStatusView(
            name=node.name,
            gpus=node.gpus,
            gpu_type=node.gpu_type,
            labels=node.labels,
            state=resources.node_states[at].value,
            free=end - first - len(holders),
            jobs=tuple(sorted(set(holders))),
        )


def _at_end(guarantee: Guarantee | None, finish: float) -> Guarantee | None:
    """The guarantee to a job that has finished: it holds where the end disproves that it was late."""
    revoked = None if guarantee is None or guarantee.reason != LATE else guarantee.revoked
    if revoked is None or not keeps(finish, revoked):
        return guarantee
    return Guarantee(finish_by=revoked)


def _reason(job: LiveJob, state: JobState) -> str:
    match state:
        case JobState.HELD:
            return "; ".join(filter(None, ["held until it is released", job.begins_again]))
        case JobState.WAITING:
            return "; ".join(
                filter(
                    None,
                    [
                        job.waiting_reason or job.failure_reason,
                        job.begins_again,
                        job.no_progress,
                    ],
                )
            )
        case JobState.RUNNING if job.waiting_reason == BORROWS:
            return BORROWS
        case _:
            again = f"tried again after: {job.failure_reason}" if job.failure_reason else ""
            return again or job.no_progress
