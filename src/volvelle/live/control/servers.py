"""The servers that have written a journal, and whether its store was set back.

A store goes back in time when the end of its log is lost or a backup is put in its place. What it had
acknowledged since then it does not know any more. Nodes do: they remember how far each server had written
(`JournalPosition`), and attempts that run there carry the identity of their job and of their server.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from volvelle.live.messages import AttemptKey, JournalPosition
from volvelle.live.records import ServerBegan, ServerRecord, StoreBehind


@dataclass
class Servers:
    """A fold of the journal's `ServerRecord`s. ``present``: identity of the server in charge; "": none yet.

    settling: the store was set back, and not all nodes have told yet what runs there. next_number: above all
    numbers of jobs that a node is known to know.
    """

    present: str = ""
    settling: bool = False
    next_number: int = 0
    lost: list[StoreBehind] = field(default_factory=list)
    """What was found to be missing."""
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

    def behind(self, position: JournalPosition | None) -> StoreBehind:
        """The record of what `lacks`, or of a restored backup (None)."""
        return StoreBehind(position, self.first_number)

    def is_foreign(self, key: AttemptKey) -> bool:
        """Whether an attempt was ordered by a server, or is of a job, that is not in the journal."""
        return key.server not in self.last_entries or any(
            each.position is not None and each.first <= key.number < each.position.next_number
            for each in self.lost
        )

    @property
    def problem(self) -> str:
        """What is known of a store that was set back while the present server runs; empty: nothing."""
        found = self.lost[self.lost_before :]
        if not found and not self.settling:
            return ""
        first, end = self.lost[-1].first, self.next_number
        text = "the store was set back: what it had acknowledged since then is not in it"
        if end > first:
            text += f", such as jobs {first} to {end - 1}; new jobs are numbered from {end} on"
        if not self.settling:
            return text
        return f"{text}. Nothing is started until every node has told what runs there, or is lost"


@dataclass
class Settling:
    """What the present server waits for after the store was set back. In memory only: nodes tell it again.

    awaited: nodes that have not joined since it began. held: nodes that joined and take no new jobs yet.
    superseded: attempts of jobs in the store that it does not know of; they are being stopped. foreign:
    attempts of jobs that are not in the store. Each with the nodes that it is on.
    """

    awaited: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    superseded: dict[AttemptKey, set[str]] = field(default_factory=dict)
    foreign: dict[AttemptKey, set[str]] = field(default_factory=dict)

    def ended(self, key: AttemptKey) -> None:
        """An attempt has ended."""
        self.superseded.pop(key, None)
        self.foreign.pop(key, None)

    def forget_node(self, name: str) -> None:
        """What a node has told holds no more: it tells it again, or is lost."""
        self.awaited.discard(name)
        self.held.discard(name)
        for attempts in (self.superseded, self.foreign):
            for key, nodes in list(attempts.items()):
                nodes.discard(name)
                if not nodes:
                    del attempts[key]

    def foreign_on(self, name: str) -> list[AttemptKey]:
        """The attempts on a node of jobs that are not in the store."""
        return sorted(key for key, nodes in self.foreign.items() if name in nodes)

    def problem(self, name: str) -> str:
        """Why a node is held though all nodes have joined; empty: it is not."""
        foreign = self.foreign_on(name)
        if not foreign:
            return ""
        listed = ", ".join(f"job {key.number} attempt {key.attempt}" for key in foreign[:10])
        more = f" and {len(foreign) - 10} more" if len(foreign) > 10 else ""
        return (
            f"node {name!r} runs what is not in the store, which was set back: {listed}{more}. It runs on, "
            f"and nothing new starts there; to stop it at a checkpoint: volvelle nodes resume {name}"
        )
