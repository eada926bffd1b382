"""Coordinates attempts over nodes: orders become tasks on nodes, reports of tasks become reports of attempts.

No sockets and no clock: orders and messages of agents go in; reports and messages to agents come out. For
each node it mirrors what the agent reported (`NodeSession`); for each attempt it keeps the orders
(`CoordinatedAttempt`). After every change the attempts concerned are settled from these two
(`AttemptSettler`). So the order of messages does not matter, nor whether one is repeated or lost.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

import msgspec

from volvelle.live.agent import wire
from volvelle.live.agent.wire import NodeTask, TaskEnded, TaskStarted
from volvelle.live.messages import (
    AttemptKey,
    AttemptProgress,
    EndsTold,
    Forget,
    JournalPosition,
    NodeCondition,
    NodeJoined,
    OfAttempt,
    Order,
    Outcome,
    Report,
    SetBatchSize,
    Start,
    Stop,
    TellEnds,
)
from volvelle.live.nodes.attempt_settler import AttemptSettler
from volvelle.live.nodes.coordinated_attempt import (
    UNHEARD_OF,
    CoordinatedAttempt,
    LatestAttempts,
    attempt_end,
    lost_task,
    unknown_end,
)
from volvelle.live.nodes.node_session import NodeSession
from volvelle.model.node import Node

_MAX_TASKS = 1000
"""Limit of the tasks of a node that are believed without having been placed there by this server."""

_MAX_REASON = 2000
"""Characters of the reason of an end that are kept."""

_ENDS_AT_A_TIME = 100
"""Jobs of which a node is asked at once how they ended."""


class AttemptCoordinator:
    """Coordinates attempts on ``nodes`` and on those that are ``leaving``.

    ``report`` goes to the controller, ``send`` to the agent of a connected node. placed: the nodes of
    attempts from before. Reports of an agent on attempts of other nodes than its own are refused. Reports on
    attempts that were neither placed nor ordered can be of a store that was set back since: they are passed
    to the controller, count for the agent's own node alone, and are bounded.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        report: Callable[[Report], None],
        send: Callable[[str, wire.ToAgent], None],
        leaving: Iterable[Node] = (),
        placed: Mapping[AttemptKey, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self._report, self._send, self._placed = report, send, placed
        self._refused: set[str] = set()
        self._sessions = {node.name: NodeSession(node) for node in nodes}
        self._sessions |= {node.name: NodeSession(node, leaving=True) for node in leaving}
        self._settler = AttemptSettler(self._sessions, report, send)
        self._attempts: dict[AttemptKey, CoordinatedAttempt] = {}
        self._ordered, self._forgotten = LatestAttempts(), LatestAttempts()
        """Attempts up to these are not started, or not accepted from an agent."""

    # ------------------------------------------------------------------ orders

    def order(self, order: Order) -> None:
        """Carry an order out, as far as the nodes are connected."""
        if isinstance(order, TellEnds):
            self._tell_ends(order)
            return
        key = order.key
        match order:
            case Start():
                self._start(key, order)
            case Stop():
                if key not in self._attempts and not self._is_ours(key):
                    self._report(attempt_end(key, Outcome.LOST, UNHEARD_OF))
                    return
                attempt = self._attempts.setdefault(key, CoordinatedAttempt(key))
                if attempt.stop is None or order.kill:
                    attempt.stop = order
                self._settler.settle(attempt, repeat=True)
            case Forget():
                self._forget(key)
            case SetBatchSize():
                for name in self._attempts[key].nodes if key in self._attempts else ():
                    if self._sessions[name].connected:
                        self._send(name, order)

    def _tell_ends(self, order: TellEnds) -> None:
        """Ask a node for the past ends of jobs, so many at a time that an answer is no large frame."""
        if (session := self._sessions.get(order.node)) is not None:
            session.asked = deque(
                order.numbers[first : first + _ENDS_AT_A_TIME]
                for first in range(0, len(order.numbers), _ENDS_AT_A_TIME)
            )
            self._ask_for_ends(order.node, session)

    def _ask_for_ends(self, name: str, session: NodeSession) -> None:
        if session.asked:
            self._send(name, wire.ListEnds(session.asked[0]))
        else:
            self._report(EndsTold(name))

    def _start(self, key: AttemptKey, order: Start) -> None:
        known = self._attempts.get(key)
        if known is None and self._ordered.reaches(key):
            return
        if known is not None and known.unknown:  # no node can have it before it is ordered
            for name in known.nodes:
                self._sessions[name].tasks.pop(key, None)
            del self._attempts[key]
        attempt = self._attempts.setdefault(key, CoordinatedAttempt(key))
        self._ordered.note(key)
        names = [grant.node for grant in order.grants]
        attempt.start, attempt.nodes = order, self._known_names(names)
        for name in names:
            if name not in self._sessions:
                reason = f"there is no node {name}"
                attempt.end = attempt.end or attempt_end(key, Outcome.LOST, reason)
        attempt.started = False
        self._settler.settle(attempt, repeat=True)

    def _forget(self, key: AttemptKey) -> None:
        known = self._attempts.get(key)
        if known is not None and known.unknown:
            for name in known.ended_nodes:
                self._forget_on(name, key)
            self._keep_unknown(
                known, [name for name in known.nodes if name not in known.ended_nodes]
            )
            return
        if not self._is_ours(key):
            return
        self._ordered.note(key)
        self._forgotten.note(key)
        attempt = self._attempts.pop(key, CoordinatedAttempt(key))
        for name in attempt.nodes:
            self._forget_on(name, key)

    def _forget_on(self, name: str, key: AttemptKey) -> None:
        session = self._sessions[name]
        if session.tasks.pop(key, None) and session.connected:
            self._send(name, Forget(*key))

    def _leave_unknown(self, attempt: CoordinatedAttempt, name: str) -> None:
        """An unknown attempt is not on a node any more."""
        self._keep_unknown(attempt, [each for each in attempt.nodes if each != name])

    def _keep_unknown(self, attempt: CoordinatedAttempt, nodes: list[str]) -> None:
        """An unknown attempt is on these nodes now."""
        attempt.nodes = tuple(nodes)
        attempt.ended_nodes = [name for name in attempt.ended_nodes if name in nodes]
        if not nodes:
            del self._attempts[attempt.key]

    def _is_ours(self, key: AttemptKey) -> bool:
        """Whether an attempt was placed before, or ordered since: this or a later one of its job."""
        return key in self._placed or self._ordered.reaches(key)

    # ------------------------------------------------------------------ nodes

    def add_node(self, node: Node) -> None:
        """Accept a node that was not known, or has changed."""
        known = self._sessions.get(node.name)
        if known is None or known.node != node:
            # Its tasks stay known until it joins or is lost.
            tasks = {} if known is None else known.tasks
            self._sessions[node.name] = NodeSession(node, tasks=tasks)

    def node_joined(
        self,
        name: str,
        address: str,
        tasks: Iterable[TaskStarted | TaskEnded],
        known: tuple[JournalPosition, ...] = (),
        problem: str = "",
        *,
        keeps_ends: bool = False,
    ) -> None:
        """The agent of a node has connected, with these tasks. For the rest see `NodeJoined`."""
        session = self._sessions[name]
        before, session.tasks = session.tasks, {}
        session.connected = session.reported = True
        session.address = address
        session.asked.clear()
        for attempt in self._attempts_on(name):
            attempt.forget_connection(name)
        for state in tasks:
            self._accept(name, state)
        for key, task in before.items():
            known_attempt = self._attempts.get(key)
            if key in session.tasks or known_attempt is None:
                continue
            if known_attempt.unknown:
                self._leave_unknown(known_attempt, name)
            else:
                vanished = lost_task(task.task, f"{name} knows nothing of it any more")
                self._record(name, task if isinstance(task, TaskEnded) else vanished)
        self._report(
            NodeJoined(
                node=session.node,
                leaving=session.leaving,
                attempts=tuple(session.tasks),
                known=known,
                problem=problem[:_MAX_REASON],
                keeps_ends=keeps_ends,
            )
        )
        self._settle_on(name)

    def node_disconnected(self, name: str) -> None:
        """The connection to a node has ended; it may come back."""
        self._sessions[name].connected = False

    def node_lost(self, name: str, reason: str) -> None:
        """A node was reported lost; all its processes have ended with certainty."""
        session = self._sessions[name]
        session.connected, session.reported = False, True
        for attempt in list(self._attempts_on(name)):
            if attempt.unknown:
                session.tasks.pop(attempt.key, None)
                self._leave_unknown(attempt, name)
            elif not isinstance(session.tasks.get(attempt.key), TaskEnded):
                rank = attempt.nodes.index(name)
                number, attempt_number, identity = attempt.key
                task = NodeTask(number, attempt_number, rank, attempt.nodes, identity)
                self._record(name, lost_task(task, f"{name} was lost: {reason}"))
        self._settle_on(name)

    def remove_node(self, name: str) -> None:
        """A node is gone, and with it attempts that only its agent knew of."""
        for attempt in list(self._attempts_on(name)):
            self._leave_unknown(attempt, name)
        self._sessions.pop(name, None)

    def end_task(self, name: str, ended: TaskEnded) -> None:
        """A task has ended, as others than its agent know; if that has said so, its word counts."""
        session = self._sessions.get(name)
        if session is not None and not isinstance(session.tasks.get(ended.task.key), TaskEnded):
            session.reported = True
            self.on_message(name, ended)

    def in_use(self, name: str) -> bool:
        """Whether an attempt is on a node, or is to be started there."""
        return any(
            (attempt.end is None and not attempt.unknown)
            or name in self._settler.running_nodes(attempt)
            for attempt in self._attempts_on(name)
        )

    def may_be_in_use(self, name: str) -> bool:
        """Whether an attempt may be on a node; always true before its agent has reported."""
        return not self._sessions[name].reported or self.in_use(name)

    def _settle_on(self, name: str) -> None:
        for attempt in list(self._attempts.values()):
            if name in attempt.nodes or not attempt.nodes:
                self._settler.settle(attempt)

    # ------------------------------------------------------------------ messages of agents

    def on_message(self, name: str, message: wire.FromAgent) -> None:
        """A message of a connected node."""
        match message:
            case TaskStarted() | TaskEnded():
                if self._accept(name, message):
                    attempt = self._attempts[message.task.key]
                    self._settler.settle(attempt, repeat=isinstance(message, TaskEnded))
            case AttemptProgress():
                known = self._attempt_on(name, message)
                if known is not None and known.end is None:
                    self._report(message)
            case wire.PastEnds():
                self._past_ends(name, message.ends)
            case wire.Condition():
                self._report(NodeCondition(name, message.problem[:_MAX_REASON]))
            case wire.SignalTask():
                if known := self._coordinated(name, message):
                    known.signal = message
                    known.signal_sent = {name}
                    self._settler.settle(known)
            case wire.ExitAt():
                if known := self._coordinated(name, message):
                    known.exit_at, known.exit_confirmed = message.iteration, {name}
                    self._settler.settle(known)
            case wire.ExitConfirmed():
                known = self._attempt_on(name, message)
                if known is not None and known.exit_at == message.iteration:
                    known.exit_confirmed.add(name)
                    self._settler.forward_exit(known)

    def _past_ends(self, name: str, ends: Iterable[TaskEnded]) -> None:
        """A node has listed forgotten ends; the ends of placed attempts count as new ones do."""
        session = self._sessions[name]
        if not session.asked:
            return
        asked = session.asked.popleft()
        for end in islice(ends, _MAX_TASKS):
            key = end.task.key
            if not end.task.is_of(name):
                self._refuse(name, key)
            elif key not in self._placed and key.number in asked:
                self._report(unknown_end(name, end))
            elif self._accept(name, end):
                self._settler.settle(self._attempts[key])
        self._ask_for_ends(name, session)

    def _attempt_on(self, name: str, message: OfAttempt) -> CoordinatedAttempt | None:
        """The attempt of a node's message; None, and a refusal, if it is not on that node."""
        known = self._attempts.get(message.key)
        if known is not None and name not in known.nodes:
            self._refuse(name, message.key)
            return None
        return known

    def _coordinated(self, name: str, message: OfAttempt) -> CoordinatedAttempt | None:
        """The attempt of a node's message that concerns its other nodes too; None if it does not."""
        known = self._attempt_on(name, message)
        return None if known is None or (known.unknown and known.stop is None) else known

    def _refuse(self, name: str, key: AttemptKey) -> None:
        if name not in self._refused:  # once: an agent could say it for ever
            self._refused.add(name)
            sys.stderr.write(
                f"warning: the agent of {name} reports on attempt {key.attempt} of job {key.number}, "
                "which is not on that node; such reports are refused\n"
            )

    def _accept(self, name: str, state: TaskStarted | TaskEnded) -> bool:
        """Record a task's state, unless its attempt was forgotten or is of other nodes; whether it was."""
        key = state.task.key
        if not state.task.is_of(name) or not self._may_be_on(name, key):
            self._refuse(name, key)
        elif not self._forgotten.reaches(key):
            self._record(name, state)
            return True
        ended = isinstance(state, TaskEnded)
        self._send(name, Forget(*key) if ended else Stop(*key, kill=True))
        return False

    def _may_be_on(self, name: str, key: AttemptKey) -> bool:
        """Whether a node may have a part of an attempt."""
        known = self._attempts.get(key)
        if key in self._placed:
            return name in self._placed[key]
        if known is not None and not known.unknown:
            return name in known.nodes
        tasks = self._sessions[name].tasks
        return key in tasks or len(tasks) < _MAX_TASKS

    def _record(self, name: str, state: TaskStarted | TaskEnded) -> None:
        """Mirror the state of a task."""
        key = state.task.key
        attempt = self._attempts.get(key)
        if attempt is None:
            unknown = key not in self._placed
            attempt = self._attempts[key] = CoordinatedAttempt(key, unknown=unknown)
        if not attempt.unknown:
            self._ordered.note(key)
            placed = self._placed.get(key, state.task.nodes)
            attempt.nodes = attempt.nodes or self._known_names(placed)
        attempt.start_sent.discard(name)
        if isinstance(state, TaskEnded):
            state = msgspec.structs.replace(state, reason=state.reason[:_MAX_REASON])
            if name not in attempt.ended_nodes:
                attempt.ended_nodes.append(name)
        self._sessions[name].tasks[key] = state
        if attempt.unknown:
            ranks = {
                each: self._sessions[each].tasks[key].task.rank for each in (*attempt.nodes, name)
            }
            attempt.nodes = tuple(sorted(ranks, key=ranks.__getitem__))

    def _known_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """The ``names`` that the cluster still has."""
        return tuple(name for name in names if name in self._sessions)

    def _attempts_on(self, name: str) -> Iterator[CoordinatedAttempt]:
        return (attempt for attempt in self._attempts.values() if name in attempt.nodes)
