"""The coordination state of one attempt, and how the ends of its tasks combine."""

from dataclasses import dataclass, field

from volvelle.live.agent.wire import NodeTask, SignalTask, TaskEnded
from volvelle.live.messages import AttemptEnded, AttemptKey, Outcome, Start, Stop, UnknownEnded

_SEVERITY = (Outcome.FINISHED, Outcome.STOPPED, Outcome.FAILED, Outcome.LOST)
"""An attempt ends as its worst task."""

UNHEARD_OF = "no node knows of it"


class LatestAttempts:
    """The latest of the attempts that are noted, of each line: a job under one start of a server."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, str], int] = {}

    def note(self, key: AttemptKey) -> None:
        """Count an attempt, and with it those before it."""
        line = key.number, key.identity
        self._latest[line] = max(key.attempt, self._latest.get(line, 0))

    def reaches(self, key: AttemptKey) -> bool:
        """Whether an attempt counts: it, or a later one of its line."""
        return key.attempt <= self._latest.get((key.number, key.identity), 0)


@dataclass
class CoordinatedAttempt:
    """An attempt: its orders, and what was sent to its nodes.

    unknown: agents report it, and this server neither ordered it nor had it placed before: such as of a store
    that was set back. Its ``nodes`` are the reporting ones, and a report of one of them concerns itself only.
    start_sent, stops_sent, signal_sent: sent on the present connection of each node. exit_confirmed: nodes
    whose control blocks hold the last iteration. ended_nodes: in the order of their reports.
    """

    key: AttemptKey
    nodes: tuple[str, ...] = ()
    unknown: bool = False
    start: Start | None = None
    stop: Stop | None = None
    start_sent: set[str] = field(default_factory=set)
    stops_sent: dict[str, Stop] = field(default_factory=dict)
    ended_nodes: list[str] = field(default_factory=list)
    started: bool = False
    end: AttemptEnded | None = None
    signal: SignalTask | None = None
    signal_sent: set[str] = field(default_factory=set)
    exit_at: int = 0
    exit_confirmed: set[str] = field(default_factory=set)

    def forget_connection(self, name: str) -> None:
        """Node ``name`` has a new connection, on which nothing was sent yet."""
        self.start_sent.discard(name)
        self.stops_sent.pop(name, None)
        self.signal_sent.discard(name)
        self.exit_confirmed.discard(name)


def lost_task(task: NodeTask, reason: str) -> TaskEnded:
    """The end of a task that was lost."""
    return TaskEnded(task=task, outcome=Outcome.LOST, reason=reason)


def attempt_end(key: AttemptKey, outcome: Outcome, reason: str) -> AttemptEnded:
    """The end of an attempt of which no task ended."""
    return AttemptEnded(*key, outcome=outcome, reason=reason)


def combine_ends(key: AttemptKey, ends: list[TaskEnded]) -> AttemptEnded:
    """The end of an attempt from the ends of its tasks, in the order of their reports.

    Of several failures the first gives the reason: the others may follow from it. After a stop the exit code
    is that of the leading node, which saves.
    """
    worst = max(ends, key=lambda end: _SEVERITY.index(end.outcome))
    leading = min(ends, key=lambda end: end.task.rank)
    several = len(worst.task.nodes) > 1
    prefix = f"{worst.task.nodes[worst.task.rank]}: " if several and worst.reason else ""
    return AttemptEnded(
        *key,
        outcome=worst.outcome,
        exit_code=(leading if worst.outcome is Outcome.STOPPED else worst).exit_code,
        reason=prefix + worst.reason,
        permanent=worst.permanent,
        node_failed=worst.node_failed,
        iterations=max(end.iterations for end in ends),
        saved_iterations=max(end.saved_iterations for end in ends),
        ago=min((end.ago for end in ends if end.ago is not None), default=None),
    )


def unknown_end(name: str, end: TaskEnded) -> UnknownEnded:
    """A node's end of a task of an attempt that this server neither ordered nor had placed before."""
    task = end.task
    return UnknownEnded(*task.key, node=name, outcome=end.outcome, nodes=task.nodes, ago=end.ago)


def end_of_nothing(attempt: CoordinatedAttempt) -> AttemptEnded:
    """The end of an attempt of which no task ever started."""
    if attempt.start:
        return attempt_end(attempt.key, Outcome.STOPPED, "")
    return attempt_end(attempt.key, Outcome.LOST, UNHEARD_OF)
