"""A journal without jobs that were over long ago; all that concerns other jobs stays in it, word for word.

A pruned journal can be followed (`volvelle.core.journal.follow`) and measured, and not replayed: the policy
that decided then knew the jobs that are gone.
"""

from collections.abc import Mapping, Set

import numpy as np
from msgspec import structs

from volvelle.core.decision import NO_INTS, Decision, IntArray, Sharing
from volvelle.core.events import (
    ArrivalsAnnounced,
    Event,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    WakeUp,
)
from volvelle.core.journal import Entry


class Survey:
    """The jobs that came and left in the entries of a journal, which are taken one after the other."""

    def __init__(self) -> None:
        self._submitted: dict[int, JobSubmitted] = {}
        self._ended: set[int] = set()

    def take(self, entry: Entry) -> None:
        """The next entry."""
        decision = entry.decision
        for event in entry.events:
            if isinstance(event, JobSubmitted):
                self._submitted[event.number] = event
            elif isinstance(event, (JobFinished, JobCancelled)):
                self._ended.add(event.number)
        self._ended.update(one.number for one in decision.rejected)
        self._ended.update(one.number for one in decision.concluded)

    def over(self) -> dict[int, str]:
        """The jobs that are over, by number with their ids, but for the last one that came, and for those
        that a job waited for which is not over: when it came depends on their ends."""
        last = max(self._submitted, default=-1)
        left = self._submitted.keys() - self._ended
        awaited = {one.job for number in left for one in self._submitted[number].spec.after}
        ids = {number: self._submitted[number].spec.id for number in self._submitted.keys() - left}
        return {
            number: name
            for number, name in sorted(ids.items())
            if number != last and name not in awaited
        }


def pruned(entry: Entry, gone: Mapping[int, str]) -> Entry:
    """The entry without jobs ``gone``, their ids by number."""
    ids = set(gone.values())
    events = tuple(_without(event, ids) for event in entry.events if _stays(event, gone.keys()))
    return Entry(entry.time, events, _pruned_decision(entry.decision, gone.keys()))


def says_nothing(entry: Entry) -> bool:
    """Whether nothing happened, and nothing was decided."""
    return not entry.events and entry.decision == Decision()


def _stays(event: Event, gone: Set[int]) -> bool:
    if isinstance(event, (WakeUp, ArrivalsAnnounced)):
        return False
    return getattr(event, "number", None) not in gone


def _without(event: Event, ids: Set[str]) -> Event:
    """The event; a submission after no job that is gone."""
    if not isinstance(event, JobSubmitted) or not any(one.job in ids for one in event.spec.after):
        return event
    after = tuple(one for one in event.spec.after if one.job not in ids)
    return structs.replace(event, spec=structs.replace(event.spec, after=after))


def _pruned_decision(decision: Decision, gone: Set[int]) -> Decision:
    stays = np.array([number not in gone for number in decision.job.tolist()], dtype=np.bool_)
    rows = np.flatnonzero(stays)
    slots = [decision.slots_of(row) for row in rows.tolist()]
    named = len(decision.slot_offsets) > 0 and len(rows) > 0
    offsets = np.cumsum([0, *map(len, slots)]).astype(np.int64) if named else NO_INTS
    return Decision(
        job=decision.job[rows],
        gpus=decision.gpus[rows],
        gpu_type=decision.gpu_type[rows],
        attempt=decision.attempt[rows],
        slot_offsets=offsets,
        slots=np.concatenate(slots) if named else NO_INTS,
        rejected=tuple(one for one in decision.rejected if one.number not in gone),
        concluded=tuple(one for one in decision.concluded if one.number not in gone),
        partner=_pruned_partners(decision.partner, rows, gone),
        sharing=None if decision.sharing is None else _pruned_sharing(decision.sharing, gone),
        promises=tuple(one for one in decision.promises if one.number not in gone),
    )


def _pruned_partners(partner: IntArray, rows: IntArray, gone: Set[int]) -> IntArray:
    if not len(partner):
        return NO_INTS
    kept = [-1 if number in gone else number for number in partner[rows].tolist()]
    return np.array(kept, dtype=np.int64)


def _pruned_sharing(sharing: Sharing, gone: Set[int]) -> Sharing | None:
    rows = [row for row, number in enumerate(sharing.job.tolist()) if number not in gone]
    if not rows:
        return None
    return Sharing(sharing.job[rows], sharing.cpus[rows], sharing.memory_gb[rows])
