"""Hangs a new picture after each cycle, drawing anew only what has changed, and keeps what happened."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from volvelle.live.books import Books, Over
from volvelle.live.lives import gpus_free
from volvelle.live.picture import Change, Happening, JobPicture, NodePicture, Picture

_REMEMBERED = 10_000
"""Happenings that can still be asked for."""


class Gallery:
    """Draws the pictures of ``books``."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.happenings: deque[Happening] = deque(maxlen=_REMEMBERED)
        jobs = {number: self._drawn(number) for number in books.lives}
        self.picture = self._hang(0, jobs, self._nodes())

    def farewell(self, over: Over) -> JobPicture:
        """The last picture of a job."""
        books, before = self._books, self.picture.jobs.get(over.life.number)
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
        self, touched: Iterable[int], farewells: Iterable[JobPicture], *, nodes: bool
    ) -> Picture:
        """The picture after a cycle that touched these jobs; ``nodes``: and perhaps nodes."""
        before = self.picture
        jobs = before.jobs.copy()
        changes: list[Change] = []
        for last in farewells:
            jobs.pop(last.number, None)
            changes.append(_change(last))
        for number in sorted(touched):
            if number in self._books.lives:
                drawn = jobs[number] = self._drawn(number)
                old = before.jobs.get(number)
                if old is None or old.state is not drawn.state:
                    changes.append(_change(drawn))
        if changes:
            books = self._books
            self.happenings.append(
                Happening(seq=books.seq - 1, time=books.epoch + books.last, changes=tuple(changes))
            )
        self.picture = self._hang(
            before.version + 1, jobs, self._nodes() if nodes else before.nodes
        )
        return self.picture

    def _drawn(self, number: int) -> JobPicture:
        books = self._books
        return books.lives[number].picture(books.scheduler, books.tenancy, books.epoch)

    def _hang(
        self, version: int, jobs: dict[int, JobPicture], nodes: tuple[NodePicture, ...]
    ) -> Picture:
        composition = self._books.scheduler.composition
        return Picture(
            version=version,
            time=self._books.epoch + self._books.last,
            policy=composition.policy.label,
            admission=composition.admission.label,
            jobs=jobs,
            nodes=nodes,
        )

    def _nodes(self) -> tuple[NodePicture, ...]:
        tenancy = self._books.tenancy
        resources = tenancy.resources
        holders: dict[int, set[int]] = {}
        if tenancy.occupied:
            nodes = resources.slot_node[np.array(list(tenancy.occupied))].tolist()
            for node, number in zip(nodes, tenancy.occupied.values(), strict=True):
                holders.setdefault(node, set()).add(number)
        free = gpus_free(tenancy).tolist()
        return tuple(
            NodePicture(
                name=node.name,
                gpus=node.gpus,
                gpu_type=node.gpu_type,
                state=resources.state[at].value,
                free=free[at],
                jobs=tuple(sorted(holders.get(at, ()))),
            )
            for at, node in enumerate(resources.nodes)
        )


def _change(drawn: JobPicture) -> Change:
    return Change(number=drawn.number, user=drawn.user, state=drawn.state, reason=drawn.reason)
