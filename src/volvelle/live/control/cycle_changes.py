"""Changes that one cycle collects before the scheduler decides: records, events, orders."""

from collections.abc import Iterator
from contextlib import contextmanager

from volvelle.core.events import Event, JobSubmitted, NodeChanged
from volvelle.live.control.gpu_ledger import Attempt
from volvelle.live.control.state import ControllerState
from volvelle.live.control.step_fits import StepFit
from volvelle.live.messages import Order
from volvelle.live.records import ControlRecord
from volvelle.live.scheduler_queries import estimated_work
from volvelle.model.cluster import NodeState


class CycleChanges:
    """The changes of a cycle at ``now``. Records are applied to the state at once."""

    def __init__(self, state: ControllerState, now: float) -> None:
        self.state = state
        self.now = now
        self.records: list[ControlRecord] = []
        self.orders: list[Order] = []
        self.job_events: list[Event] = []
        self.node_events: list[NodeChanged] = []
        self.profiled: list[JobSubmitted] = []
        """Jobs that come to the scheduler after their profiles."""
        self.fits: list[StepFit] = []
        """Models of jobs' steps that are wanted."""
        self.touched: set[int] = set()
        """Numbers of the jobs that changed."""
        self.node_problems: dict[str, str] = {}
        """Problems of nodes, by name; empty: the problem is solved."""
        self.part_failures: dict[str, str] = {}
        """By kind, what happened where a user's own part failed: it is replaced before the decision."""

    @contextmanager
    def asking_parts(self, *answers: type[Exception]) -> Iterator[None]:
        """A user's own part that raises an error within has failed. answers: errors that are answers."""
        try:
            yield
        except answers:
            raise
        except Exception as error:
            composition = self.state.scheduler.composition
            kind, what = composition.failed(error)
            if kind not in composition.own:
                raise
            self.part_failures.setdefault(kind, what)

    def record(self, record: ControlRecord) -> None:
        """Record a fact that is no input of the scheduler."""
        self.records.append(record)
        self.state.apply_record(record, self.now)

    def node_state(self, name: str) -> NodeState | None:
        """The state of a node after the events so far; None if it is not known."""
        for change in reversed(self.node_events):
            if change.name == name:
                return change.state
        resources = self.state.scheduler.resources
        index = resources.index.get(name)
        return None if index is None else resources.node_states[index]

    def estimated_work(self, attempt: Attempt) -> float:
        """Units of work that the job has done by estimate, at least those at the attempt's start."""
        estimated = estimated_work(self.state.scheduler, attempt.number, self.now)
        return max(estimated, attempt.work)
