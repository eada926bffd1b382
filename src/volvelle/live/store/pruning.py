"""Pruning of old entries to jobs that are not over, or were not long ago.

Records of such jobs stay, all records of nodes and servers, and the latest measurements.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from volvelle.core.pruning import Survey, pruned, says_nothing
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.messages import AttemptEnded, AttemptStarted
from volvelle.live.records import (
    AskedBy,
    ControlRecord,
    ProfileConcluded,
    ProfileQueued,
    RateMeasured,
)
from volvelle.live.store.rows import StoredEntry


def jobs_over(entries: Iterable[StoredEntry], kept: Set[int]) -> dict[int, str]:
    """The jobs that were over before the end of ``entries``, by number with their ids; none of ``kept``.

    A job is not over while one of its attempts runs. The latest job stays: numbers are given once.
    """
    survey, by_profiler, latest = Survey(), set[int](), -1
    running: set[tuple[int, int]] = set()
    for stored in entries:
        survey.take(stored.entry)
        for record in stored.records:
            match record:
                case ProfileQueued():
                    latest = max(latest, record.number)
                case ProfileConcluded():
                    by_profiler.add(record.number)
                case AttemptStarted():
                    running.add((record.number, record.attempt))
                case AttemptEnded():
                    running.discard((record.number, record.attempt))
    over = survey.over() | {number: str(number) for number in by_profiler}
    stay = {latest, *kept, *(number for number, _ in running)}
    return {number: name for number, name in over.items() if number not in stay}


def without(entries: Sequence[StoredEntry], gone: Mapping[int, str]) -> Iterator[StoredEntry]:
    """The ``entries`` without these jobs; empty entries are left out."""
    records = [record for stored in entries for record in stored.records]
    rates = MeasuredRates(record for record in records if isinstance(record, RateMeasured))
    latest, ids = set(rates.all), set(gone.values())

    def stays(record: ControlRecord) -> bool:
        match record:
            case RateMeasured():
                return record in latest
            case AskedBy():
                return not record.of_job or record.subject not in ids
            case _:
                return getattr(record, "number", None) not in gone

    for stored in entries:
        entry, kept = pruned(stored.entry, gone), tuple(filter(stays, stored.records))
        if kept or not says_nothing(entry):
            yield StoredEntry(stored.seq, entry, kept)
