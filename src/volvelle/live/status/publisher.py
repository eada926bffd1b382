"""Hangs a new picture after each cycle, drawing anew only what has changed, and keeps what happened."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace

from volvelle.live.control.state import Books, Over
from volvelle.live.status.view import (
    ChangeEvent,
    JobStatusView,
    NodeStatusView,
    StateChange,
    StatusView,
)

_REMEMBERED = 10_000
"""Happenings that can still be asked for."""


class Gallery:
    """Draws the pictures of ``books``."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.happenings: deque[ChangeEvent] = deque(maxlen=_REMEMBERED)
        jobs = {number: self._drawn(number) for number in books.lives}
        self._jobs_of = Counter(job.user for job in jobs.values())
        nodes = tuple(map(self._node, range(len(books.tenancy.resources.nodes))))
        books.tenancy.moved.clear()
        self.status = self._hang(0, jobs, nodes)

    def farewell(self, over: Over) -> JobStatusView:
        """The last picture of a job."""
        books, before = self._books, self.status.jobs.get(over.life.number)
        drawn = over.life.picture(books.scheduler, books.tenancy, books.epoch)
        last = drawn if before is None else before
        return replace(
            drawn,
            state=over.state,
            reason=over.reason,
            started=last.started,
            attempt=last.attempt,
            preemptions=max(last.preemptions, drawn.preemptions),
            grants=(),
            gpus=float(over.life.request.gpus),
            ended=books.epoch + books.last,
        )

    def draw(
        self, touched: Iterable[int], farewells: Iterable[JobStatusView], nodes: Iterable[str]
    ) -> StatusView:
        """The picture after a cycle that touched these jobs and changed the state of these nodes."""
        before = self.status
        jobs = before.jobs.copy()
        changes: list[StateChange] = []
        for last in farewells:
            if jobs.pop(last.number, None) is not None:
                self._jobs_of[last.user] -= 1
            changes.append(_change(last))
        for number in sorted(touched):
            if number in self._books.lives:
                drawn = jobs[number] = self._drawn(number)
                old = before.jobs.get(number)
                self._jobs_of[drawn.user] += old is None
                if old is None or old.state is not drawn.state:
                    changes.append(_change(drawn))
        if changes:
            books = self._books
            self.happenings.append(
                ChangeEvent(
                    seq=books.seq - 1, time=books.epoch + books.last, changes=tuple(changes)
                )
            )
        self.status = self._hang(before.version + 1, jobs, self._changed_nodes(nodes))
        return self.status

    def _drawn(self, number: int) -> JobStatusView:
        books = self._books
        return books.lives[number].picture(books.scheduler, books.tenancy, books.epoch)

    def _hang(
        self, version: int, jobs: dict[int, JobStatusView], nodes: tuple[NodeStatusView, ...]
    ) -> StatusView:
        composition = self._books.scheduler.composition
        return StatusView(
            version=version,
            time=self._books.epoch + self._books.last,
            policy=composition.policy.label,
            admission=composition.admission.label,
            jobs=jobs,
            jobs_of=+self._jobs_of,
            nodes=nodes,
        )

    def _changed_nodes(self, names: Iterable[str]) -> tuple[NodeStatusView, ...]:
        """The nodes, drawn anew where they changed or somebody came or went."""
        tenancy, before = self._books.tenancy, self.status.nodes
        resources = tenancy.resources
        changed = {resources.index[name] for name in names}
        if tenancy.moved:
            changed.update(resources.slot_node[list(tenancy.moved)].tolist())
            tenancy.moved.clear()
        if not changed:
            return before
        nodes = list(before)
        for at in sorted(changed):  # a new node comes after all others
            nodes[at : at + 1] = [self._node(at)]
        return tuple(nodes)

    def _node(self, at: int) -> NodeStatusView:
        tenancy = self._books.tenancy
        resources, occupied = tenancy.resources, tenancy.occupied
        first, end = resources.first_slot[at : at + 2].tolist()
        holders = [occupied[slot] for slot in range(first, end) if slot in occupied]
        node = resources.nodes[at]
        return NodeStatusView(
            name=node.name,
            gpus=node.gpus,
            gpu_type=node.gpu_type,
            state=resources.state[at].value,
            free=end - first - len(holders),
            jobs=tuple(sorted(set(holders))),
        )


def _change(drawn: JobStatusView) -> StateChange:
    return StateChange(number=drawn.number, user=drawn.user, state=drawn.state, reason=drawn.reason)
