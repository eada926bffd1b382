"""The scheduler: a pure state machine. Events in, one decision out; no clock, no I/O, no threads.

A cycle (`Scheduler.handle`) reads top to bottom::

    events ─▶ handlers ─▶ admit ─▶ due? ─▶ decide (policy) ─▶ place ─▶ commit ─▶ decision

The handlers (`volvelle.core.handlers`) let the state follow what happened. The rest is the forward loop
(`volvelle.core.forward.advance`), which asks for an answer (`volvelle.core.answers`) where a part is written
in Python. A simulated world runs the same loop over the same state, with a clock.
"""

from collections.abc import Sequence

from volvelle.core.answers import ANSWERS
from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobSubmitted
from volvelle.core.fork import Fork, seconds_to_stop
from volvelle.core.forward.moments import begin_moment
from volvelle.core.handlers import fold, follow
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import AHEAD, LIMITS, PHASE


class Scheduler(SchedulerState):
    """Events in, decisions out."""

    def handle(self, now: float, events: Sequence[Event]) -> Decision:
        """Take all that happened at ``now`` and answer what changes."""
        self._begin(now)
        for event in events:
            fold(self, event)
        self.make_room()
        self.state.count[PHASE] = LIMITS
        self.run(ANSWERS, moments=1)
        return self._decided()

    def follow(self, now: float, events: Sequence[Event], decision: Decision) -> None:
        """Let ``decision`` be what was decided then, by another policy or another version of this one.

        The policy is not asked and so remembers nothing of it; it is asked at the next `handle`.
        """
        self._begin(now)
        for event in events:
            fold(self, event)
        self.make_room()
        follow(self, decision)
        self.run(ANSWERS, moments=1)
        self._decided()

    def _begin(self, now: float) -> None:
        self.state.count[PHASE] = AHEAD
        self.make_room()
        begin_moment(self.state, now)
        dependents = self.admissions.dependents
        if not (dependents.watched or dependents.news):
            dependents.ended.clear()

    def _decided(self) -> Decision:
        """The decision at this moment."""
        *_, moment = self.drain().moments(lambda time, number: self._unseen(number))
        return moment.decision

    @staticmethod
    def _unseen(number: int) -> JobSubmitted:
        raise AssertionError(f"job {number} was submitted to a world, not to `Scheduler.handle`")

    @property
    def ahead(self) -> Fork:
        """A look-ahead with the jobs that are admitted, and no others, for guarantees."""
        return Fork(self, overrun=seconds_to_stop).without_queue()
