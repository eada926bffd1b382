"""Settles attempts: the messages to agents and the reports that follow from all that is known of them."""

from collections.abc import Callable, Mapping

from volvelle.live.agent import wire
from volvelle.live.agent.wire import StartTask, TaskEnded, TaskStarted
from volvelle.live.messages import AttemptStarted, Outcome, Report, Stop
from volvelle.live.nodes.coordinated_attempt import (
    CoordinatedAttempt,
    combine_ends,
    end_of_nothing,
    unknown_end,
)
from volvelle.live.nodes.node_session import NodeSession


class AttemptSettler:
    """Settles attempts from the reports of agents in ``sessions``.

    ``report`` goes to the controller, ``send`` to the agent of a connected node.
    """

    def __init__(
        self,
        sessions: Mapping[str, NodeSession],
        report: Callable[[Report], None],
        send: Callable[[str, wire.ToAgent], None],
    ) -> None:
        self._sessions, self._report, self._send = sessions, report, send

    def settle(self, attempt: CoordinatedAttempt, *, repeat: bool = False) -> None:
        """Send the messages and reports that follow from the state of an attempt.

        ``repeat``: report its end again, if it has ended.
        """
        if attempt.unknown:
            self._settle_unknown(attempt)
            return
        if attempt.end is not None:
            if repeat:
                self._report(attempt.end)
            if self.running_nodes(attempt):  # a task outlived its node: the node was not lost
                self._send_stops(attempt, Stop(*attempt.key, kill=True))
            return
        unreported = self._awaits_inventory(attempt)
        states = (self._sessions[name].tasks[attempt.key] for name in attempt.ended_nodes)
        ends = [state for state in states if isinstance(state, TaskEnded)]
        failed = any(end.outcome is not Outcome.FINISHED for end in ends)
        if failed and attempt.stop is None:
            self._send_stops(attempt, Stop(*attempt.key, kill=True))
        elif attempt.stop is not None:
            self._send_stops(attempt, attempt.stop)
        ending = failed or attempt.stop is not None or len(ends) == len(attempt.nodes) > 0
        if ending and not (self.running_nodes(attempt) or attempt.start_sent or unreported):
            self._conclude(attempt, ends)
        if not ending and not unreported:
            self._start_tasks(attempt)
        self._forward(attempt)

    def _settle_unknown(self, attempt: CoordinatedAttempt) -> None:
        """Every node's part ends by itself: a report of one node changes nothing on the others."""
        for name in attempt.ended_nodes:
            state = self._sessions[name].tasks[attempt.key]
            if isinstance(state, TaskEnded):
                self._report(unknown_end(name, state))
        if attempt.stop is not None:
            self._send_stops(attempt, attempt.stop)
            self._forward(attempt)

    def _forward(self, attempt: CoordinatedAttempt) -> None:
        """Forward the signal and the last iteration of one node to the others."""
        if attempt.signal:
            self._forward_signal(attempt, attempt.signal)
        if attempt.exit_at:
            self.forward_exit(attempt)

    def _conclude(self, attempt: CoordinatedAttempt, ends: list[TaskEnded]) -> None:
        attempt.end = combine_ends(attempt.key, ends) if ends else end_of_nothing(attempt)
        self._report(attempt.end)

    def running_nodes(self, attempt: CoordinatedAttempt) -> list[str]:
        """The nodes on which the attempt runs, as far as they have reported."""
        sessions = self._sessions
        return [
            name
            for name in attempt.nodes
            if isinstance(sessions[name].tasks.get(attempt.key), TaskStarted)
        ]

    def _awaits_inventory(self, attempt: CoordinatedAttempt) -> bool:
        """Whether a node that may have a task of the attempt has not reported yet."""
        names = attempt.nodes or tuple(self._sessions)
        return any(
            not (
                session.connected
                or attempt.key in session.tasks
                or (session.reported and not attempt.nodes)
            )
            for session in map(self._sessions.__getitem__, names)
        )

    def _start_tasks(self, attempt: CoordinatedAttempt) -> None:
        """Start the leading task; once it has started, the others; once all have, report it."""
        if attempt.start is None or attempt.started:
            return
        leading, *_ = nodes = attempt.nodes
        begun = {name for name in nodes if attempt.key in self._sessions[name].tasks}
        if len(begun) == len(nodes):
            attempt.started = True
            self._report(AttemptStarted(*attempt.key))
            return
        session = self._sessions[leading]
        first, address = session.tasks.get(attempt.key), session.address
        port = first.port if isinstance(first, TaskStarted) else 0  # not needed after a quick end
        for rank, name in enumerate(nodes if leading in begun else (leading,)):
            if name not in begun and name not in attempt.start_sent:
                attempt.start_sent.add(name)
                order = StartTask(start=attempt.start, rank=rank, address=address, port=port)
                self._send(name, order)

    def _send_stops(self, attempt: CoordinatedAttempt, stop: Stop) -> None:
        for name in {*self.running_nodes(attempt), *attempt.start_sent}:
            if self._sessions[name].connected and attempt.stops_sent.get(name) != stop:
                attempt.stops_sent[name] = stop
                self._send(name, stop)

    def _forward_signal(self, attempt: CoordinatedAttempt, signal: wire.SignalTask) -> None:
        """Have the stop signal sent on all nodes."""
        for name in self.running_nodes(attempt):
            if self._sessions[name].connected and name not in attempt.signal_sent:
                attempt.signal_sent.add(name)
                self._send(name, signal)

    def forward_exit(self, attempt: CoordinatedAttempt) -> None:
        """Have all running nodes write the last iteration; then confirm it to the leading node."""
        running = self.running_nodes(attempt)
        waiting = [name for name in running if name not in attempt.exit_confirmed]
        for name in waiting:
            if self._sessions[name].connected:
                self._send(name, wire.ExitAt(*attempt.key, iteration=attempt.exit_at))
        leading = attempt.nodes[0]
        if not waiting and self._sessions[leading].connected:
            self._send(leading, wire.ExitConfirmed(*attempt.key, iteration=attempt.exit_at))
