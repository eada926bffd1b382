"""After the store was set back: what nodes know is collected, and jobs go on once it is known."""

from volvelle.core.events import UNRECORDED, JobFinished, NodeChanged
from volvelle.live.control.attempt_ends import AttemptEnds
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import Attempt
from volvelle.live.messages import (
    MAX_JOURNALS,
    AttemptKey,
    JournalPosition,
    NodeJoined,
    Start,
    Stop,
    TellEnds,
)
from volvelle.live.records import ProfileConcluded, StoreSettled
from volvelle.live.status.view import JobState
from volvelle.model.cluster import NodeState

_SET_BACK = "before the store was set back"


class Settlement:
    """Settles in a cycle what the store has lost, with the state in `Settling`."""

    def __init__(self, changes: CycleChanges, ends: AttemptEnds) -> None:
        self._changes, self._state, self._ends = changes, changes.state, ends

    def settle(self) -> None:
        """After the store was set back: go on once it is known what runs where."""
        state, changes = self._state, self._changes
        settling = state.settling
        if state.servers.settling:
            numbers = tuple(sorted(state.jobs))
            changes.orders += [TellEnds(name, numbers) for name in settling.ask()]
        if state.servers.settling and settling.is_known:
            changes.record(StoreSettled())
            for number in sorted(settling.finished.keys() & state.jobs.keys()):
                self._finish_lost(number)
            settling.finished.clear()
            for attempt in list(state.ledger.attempts.values()):
                self._go_on(attempt)
        if state.servers.settling:
            return
        for name in sorted(settling.held):
            if not settling.foreign_on(name):
                settling.held.discard(name)
                let_in(changes, name)

    def _finish_lost(self, number: int) -> None:
        """End a job that has finished in what the store has lost, unless it runs by what its nodes say."""
        state, changes = self._state, self._changes
        ended, attempt = state.settling.finish(number), state.ledger.attempts.get(number)
        if ended is None or (attempt is not None and attempt.key not in state.settling.missing):
            return
        changes.touched.add(number)
        if state.is_profiled(number):
            finished = JobState.FINISHED.value
            changes.record(ProfileConcluded(number, changes.now, finished, _SET_BACK))
        else:
            submitted = state.time_of(state.jobs[number].submitted)
            ended = min(max(ended, submitted), changes.now)
            changes.job_events.append(JobFinished(ended, number, UNRECORDED))

    def _go_on(self, attempt: Attempt) -> None:
        """Send the order about an attempt again, now that it is known what runs where.

        One that no node has may have run, and ended, in what the store has lost: it is not started again.
        """
        order = self._state.unconfirmed_order(attempt)
        if isinstance(order, Start) and attempt.key not in self._state.settling.there:
            self._ends.lose(attempt, "", set(), "the store was set back, and no node knows of it")
        elif order is not None:
            self._changes.orders.append(order)
        elif attempt.key in self._state.settling.missing:
            self._changes.orders.append(Stop(*attempt.key, kill=True))

    def hold(self, name: str) -> bool:
        """Let a node that joined take no new jobs yet, if that is not safe. Returns whether so."""
        state = self._state
        if not state.servers.settling and not state.settling.foreign_on(name):
            return False
        state.settling.held.add(name)
        self._changes.node_problems[name] = state.settling.problem(name)
        return True

    def compare_journals(self, report: NodeJoined) -> None:
        """Notice that a node knows more than the journal."""
        for position in report.known[-MAX_JOURNALS:]:
            if self._state.servers.lacks(position):
                self._record_loss(position, report.node.name)
        for key in report.attempts:
            if self._state.shows_loss(key):
                self._record_loss(JournalPosition(key.server, 0, key.number + 1), report.node.name)

    def _record_loss(self, position: JournalPosition, node: str) -> None:
        found = self._state.servers.behind(position, node)
        if found is not None:
            self._changes.record(found)

    def reconcile_unknown(self, key: AttemptKey, node: str) -> None:
        """Decide about an attempt that is not in the GPU ledger."""
        state, orders = self._state, self._changes.orders
        earlier = key.server != state.servers.present  # else it was never ordered, or is over
        if state.is_ours(key) and state.servers.settling and earlier:
            state.settling.superseded.setdefault(key, set()).add(node)
            orders.append(Stop(*key))
        elif state.is_foreign(key):
            state.settling.foreign.setdefault(key, set()).add(node)
        else:
            orders.append(Stop(*key, kill=True))


def let_in(changes: CycleChanges, name: str) -> None:
    """A node that was held takes new jobs, if it can start them."""
    state = changes.state
    if name in state.troubled:
        return
    changes.node_problems[name] = ""
    if state.partition is not None and (mine := state.partition.node(name)) is not None:
        mine.since = 0.0
    elif name not in state.drained and changes.node_state(name) is NodeState.DRAINING:
        changes.node_events.append(NodeChanged(changes.now, name, NodeState.UP))
