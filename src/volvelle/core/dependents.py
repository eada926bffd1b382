"""Submissions that are blocked on dependencies, and how the jobs that they depend on ended."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from volvelle.core.events import JobSubmitted
from volvelle.model.job import Dependency


class Dependent(NamedTuple):
    """A submission that is blocked on dependencies.

    left: what it still waits for. since: seconds on the world's clock before which it does not come.
    place: in the table of arrivals, in a world that knows what comes. held: its user holds it meanwhile.
    """

    event: JobSubmitted
    left: tuple[Dependency, ...]
    since: float
    place: int | None = None
    held: bool = False


class End(NamedTuple):
    """When a job was through, and whether it did all that it was to do."""

    time: float
    ok: bool


class Dependents(Struct):
    """The blocked submissions, by number; ids of jobs that have ended, and how.

    A simulated world in which some job comes that is after others (``watched``) keeps for the whole run how
    jobs ended. Elsewhere that is kept for one moment: a submission leaves out of its dependencies
    what had ended before. followers: numbers, by the id of what they depend on. news: ids of jobs that
    have ended and that a blocked job depends on. due: times and numbers of those that are to come, as a heap.
    returned: places in the table of arrivals of jobs that were blocked and are in the admission queue,
    ascending.
    """

    blocked: dict[int, Dependent] = field(default_factory=dict, name="aside")  # so in snapshots
    ended: dict[str, End] = field(default_factory=dict)
    watched: bool = False
    followers: dict[str, list[int]] = field(default_factory=dict)
    news: list[str] = field(default_factory=list)
    due: list[tuple[float, int]] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)

    def copy(self) -> "Dependents":
        """The same, that goes its own way."""
        return Dependents(
            blocked=self.blocked.copy(),
            ended=self.ended.copy(),
            watched=self.watched,
            followers={name: numbers[:] for name, numbers in self.followers.items()},
            news=self.news[:],
            due=self.due[:],
            returned=self.returned[:],
        )

    def submissions(self) -> Iterator[JobSubmitted]:
        """The blocked submissions that are not held."""
        return (one.event for one in self.blocked.values() if not one.held)
