"""From the store to the books: what was decided is decided, what was ordered is ordered again.

Whether it happened meanwhile, the nodes say when they join (`volvelle.live.control.ingestion`).
No running job is touched.
"""

from volvelle.core.events import JobSubmitted, NodeChanged
from volvelle.core.journal import Entry, Header
from volvelle.live.control.state import Books, check_composition
from volvelle.live.forecasts.forecaster import Outlook
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import Order
from volvelle.live.status.view import JobState
from volvelle.live.store import Batch, Store, StoredEntry
from volvelle.model.cluster import NodeState
from volvelle.model.node import Node

_RECALLED = 1000
"""Jobs of the past from which forecasts learn."""


def open_books(store: Store, header: Header, now: float) -> Books:
    """The books that ``store`` keeps, or new ones for ``header`` that begin ``now`` (since the Unix epoch).

    Raises `Problem` where the header cannot rule over real jobs.
    """
    check_composition(header.cluster, header.composition)
    kept = store.header()
    if kept is None:
        store.begin(header, now)
        return Books(header, now)
    before, epoch = kept
    books = Books(before, epoch)
    if not _replay(store, books, follow=False):
        books = Books(before, epoch)
        _replay(store, books, follow=True)
    return books


def recall(store: Store, books: Books) -> Outlook:
    """What was foreseen of jobs before, and how it erred."""
    outlook = Outlook(books.epoch)
    for record in reversed(store.jobs(states=[JobState.FINISHED.value], limit=_RECALLED)):
        if record.foreseen is not None and record.ended is not None:
            submitted = record.submitted
            outlook.recall(record.foreseen - submitted, record.ended - submitted)
    for life in books.lives.values():
        if life.foreseen is not None:
            submitted, foreseen = life.submitted - books.epoch, life.foreseen - books.epoch
            outlook.promised(life.number, submitted, foreseen)
    return outlook


def first_entry(books: Books) -> Batch:
    """Before anything else: no node is there until it joins."""
    events = tuple(
        NodeChanged(0.0, node.name, NodeState.DOWN) for node in books.header.cluster.nodes
    )
    decision = books.scheduler.handle(0.0, events)
    stored = StoredEntry(books.seq, Entry(0.0, events, decision))
    books.settle(0.0, events, decision)
    return Batch(stored)


def awaited(books: Books) -> tuple[Node, ...]:
    """The nodes that were there, or on which something may run that nobody saw end."""
    resources = books.scheduler.resources
    return tuple(
        node
        for node, state in zip(resources.nodes, resources.state, strict=True)
        if books.seq and (state is not NodeState.DOWN or books.tenancy.on_node(node.name))
    )


def orders_again(books: Books) -> list[Order]:
    """Whatever was ordered and has not been answered."""
    again = (books.order_again(attempt) for attempt in books.tenancy.attempts.values())
    return [order for order in again if order is not None]


def _replay(store: Store, books: Books, *, follow: bool) -> bool:
    """Fold the journal into ``books``; whether the scheduler still decides as it did then.

    With ``follow`` it is not asked: the code, or a plugged-in part, is not what it was. All that was decided
    holds all the same, and only a policy's own memory is lost.
    """
    scheduler = books.scheduler
    unfinished = {record.number: record for record in store.unfinished()}
    for stored in store.entries():
        entry = stored.entry
        for event in entry.events:
            if isinstance(event, JobSubmitted):
                books.accepted = event.number + 1
                if (record := unfinished.get(event.number)) is not None:
                    books.accept(record, JobRequest.model_validate(record.request))
        for fact in stored.facts:
            books.take(fact)
        if follow:
            scheduler.follow(entry.time, entry.events, entry.decision)
        elif scheduler.handle(entry.time, entry.events) != entry.decision:
            return False
        books.settle(entry.time, entry.events, entry.decision)
    return True
