"""The servers that have written a journal, and whether its store was set back.

A store goes back in time when the end of its log is lost or a backup is put in its place. The store
has lost later acknowledgements. Nodes have not: they remember the position of each server's journal
(`JournalPosition`), and attempts that run there carry the identity of their job and of their server.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from volvelle.live.messages import AttemptKey, JournalPosition
from volvelle.live.records import ServerBegan, ServerRecord, StoreBehind

_MAX_FOUND = 100
"""Records of what is missing that one node causes while a server runs."""

_MAX_JOBS_LOST = 10**9
"""Jobs that a store can have lost: a node that names a higher number is not believed that."""


@dataclass
class Servers:
    """A fold of the journal's `ServerRecord`s. ``present``: identity of the server in charge; "": none yet.

    settling: the store was set back, and not all nodes have reported their attempts yet. next_number: above
    all numbers of jobs that a node is known to know.
    """

    present: str = ""
    settling: bool = False
    next_number: int = 0
    lost: list[StoreBehind] = field(default_factory=list)
    """Entries found to be missing."""
    last_entries: dict[str, int] = field(default_factory=dict)
    """The last entry of each server before the present one, as far as it is in the journal."""
    first_number: int = 0
    """Number of the first job that the present server accepts."""
    lost_before: int = 0
    """How much of ``lost`` servers before the present one had found."""

    def apply_record(self, record: ServerRecord, seq: int, next_number: int) -> None:
        """Apply a record of entry ``seq``. next_number: of the next job, until then."""
        match record:
            case ServerBegan():
                self.last_entries[self.present] = seq - 1
                self.present, self.first_number = record.identity, next_number
                self.lost_before = len(self.lost)
            case StoreBehind():
                self.settling = True
                self.lost.append(record)
                if record.position is not None:
                    self.next_number = max(self.next_number, record.position.next_number)
            case _:
                self.settling = False

    def lacks(self, position: JournalPosition) -> bool:
        """Whether a journal was written further than this one goes, which is news."""
        if position.server == self.present:
            return False
        known = [each.seq for each in self._positions if each.server == position.server]
        return position.seq > max([*known, self.last_entries.get(position.server, -1)])

    def is_lost(self, server: str) -> bool:
        """Whether something that this server had written is known to be missing."""
        return any(each.server == server for each in self._positions)

    @property
    def _positions(self) -> Iterator[JournalPosition]:
        return (each.position for each in self.lost if each.position is not None)

    def behind(self, position: JournalPosition, node: str) -> StoreBehind | None:
        """The record of what `lacks`, as ``node`` says; None if it has said too much by now."""
        said = sum(each.node == node for each in self.lost[self.lost_before :])
        if said >= _MAX_FOUND:
            return None
        most = self.first_number + _MAX_JOBS_LOST
        if position.next_number > most:
            position = msgspec.structs.replace(position, next_number=most)
        return StoreBehind(position, self.first_number, node)

    def is_foreign(self, key: AttemptKey) -> bool:
        """Whether an attempt was ordered by a server, or is of a job, that is not in the journal."""
        return key.server not in self.last_entries or any(
            each.position is not None and each.first <= key.number < each.position.next_number
            for each in self.lost
        )

    @property
    def problem(self) -> str:
        """A message about a store that was set back while the present server runs; empty: none."""
        found = self.lost[self.lost_before :]
        if not found and not self.settling:
            return ""
        first, end = self.lost[-1].first, self.next_number
        text = "the store was set back: what it had acknowledged since then is not in it"
        if end > first:
            text += f", such as jobs {first} to {end - 1}; new jobs are numbered from {end} on"
        nodes = sorted({each.node for each in found} - {""})
        if nodes:
            text += f" ({', '.join(nodes[:10])} said so)"
        if not self.settling:
            return text
        return f"{text}. Nothing is started until every node has told what runs there, or is lost"
