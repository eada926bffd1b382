"""The journal: every event and every decision of a run, in order.

One JSON document a line: first a `Header` from which the scheduler can be made again, then one `Entry`
for each moment. The same configuration writes the same bytes. `replay` folds a journal into the state it
led to; that is crash recovery, and it is how a bug report is opened.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from volvelle.core.composition import Composition, WrittenComposition
from volvelle.core.decision import Decision, decode_array, encode_array
from volvelle.core.events import Event
from volvelle.core.log import Batch, Submission
from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import Cluster
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem

FORMAT = 2
"""The latest. That of whole journals is 1: earlier versions read them too."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The description from which a scheduler is made.

    whole: the cluster with the profiling partition that a live world has beside ``cluster``.
    pruned: until when entries are without jobs that were over long ago (`volvelle.core.pruning`).
    """

    volvelle: str
    cluster: Cluster
    composition: WrittenComposition
    overheads: dict[str, float | None] = {}
    seed: int = 0
    format: int = 1
    whole: Cluster | None = None
    pruned: float | None = None

    def scheduler(self, composition: Composition | None = None) -> Scheduler:
        """A scheduler at its very start. ``composition``: of other parts than the header names."""
        return Scheduler(
            self.cluster,
            composition or self.composition.build(),
            overheads=Overheads.model_validate(self.overheads),
            seed=self.seed,
        )


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Events at ``time``, and the decision."""

    time: float
    events: tuple[Event, ...]
    decision: Decision


class Journal:
    """A journal in memory or, with ``file``, written as it grows."""

    def __init__(self, header: Header, file: IO[bytes] | None = None) -> None:
        self.header = header
        self.entries: list[Entry] = []
        self._file = file
        self._encoder = msgspec.json.Encoder(enc_hook=encode_array)
        if file is not None:
            file.write(self._encoder.encode(header) + b"\n")

    def take(self, batch: Batch, submission: Submission) -> None:
        """Append the moments of a batch."""
        entries = [Entry(*moment) for moment in batch.moments(submission)]
        if self._file is None:
            self.entries += entries
        else:
            self._write(entries)

    def _write(self, entries: Iterable[Entry]) -> None:
        assert self._file is not None
        self._file.write(b"".join(self._encoder.encode(entry) + b"\n" for entry in entries))

    def write(self, path: Path) -> None:
        """Write a journal kept in memory."""
        with path.open("wb") as file:
            Journal(self.header, file)._write(self.entries)


def read_journal(path: Path) -> tuple[Header, Iterator[Entry]]:
    """The header and the entries of a journal file, streamed. Raises `Problem` naming the line."""
    file = path.open("rb")
    try:
        header = read_header(file.readline(), path)
    except Problem:
        file.close()
        raise
    return header, _entries(file, path)


def read_header(line: bytes | str, path: Path) -> Header:
    """The header that a journal's first line holds. Raises `Problem` naming ``path``."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as error:
        raise Problem(f"{path} line 1 is not a journal's header: {error}") from None
    if header.format > FORMAT:
        raise Problem(
            f"{path} is a journal of format {header.format}, this Volvelle reads up to {FORMAT}",
            mend="install a newer Volvelle",
        )
    return header


def entry_decoder() -> msgspec.json.Decoder[Entry]:
    """The decoder of a journal's other lines."""
    return msgspec.json.Decoder(Entry, dec_hook=decode_array)


def _entries(file: IO[bytes], path: Path) -> Iterator[Entry]:
    decoder = entry_decoder()
    with file:
        for number, line in enumerate(file, start=2):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise Problem(
                    f"{path} line {number} cannot be read: {error}",
                    mend="cut the file before this line to read what precedes it",
                ) from None


def replay(header: Header, entries: Iterable[Entry]) -> Scheduler:
    """The scheduler in the state that ``entries`` led to.

    Raises `Problem` at the first moment at which it decides otherwise than the journal says: the
    code or a plugged-in part is not what it was. And for a pruned journal, which does not say which other
    jobs were there.
    """
    if header.pruned is not None:
        raise Problem(
            f"the journal is pruned up to {header.pruned:.0f} s: whoever decided then knew jobs that are no "
            "longer in it",
            mend="follow it (volvelle.core.journal.follow)",
        )
    scheduler = header.scheduler()
    scheduler.admissions.dependents.watched = True
    for entry in entries:
        decision = scheduler.handle(entry.time, entry.events)
        if decision != entry.decision:
            raise Problem(
                f"replaying the journal leads elsewhere at {entry.time} s: it says "
                f"{entry.decision}, now decided {decision}",
                mend=f"use the version that wrote it ({header.volvelle})",
            )
    return scheduler


def follow(header: Header, entries: Iterable[Entry]) -> Scheduler:
    """The scheduler in the state that ``entries`` led to, whatever it would have decided itself.

    For a journal of another version, or of a policy that has changed: no part is asked, all that was decided
    is taken for granted, and a policy with a memory of its own begins a new one.
    """
    scheduler = header.scheduler()
    scheduler.admissions.dependents.watched = True
    for entry in entries:
        scheduler.follow(entry.time, entry.events, entry.decision)
    return scheduler
