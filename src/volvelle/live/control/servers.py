"""The servers that have written a journal, and whether its store was set back.

A store goes back in time when the end of its log is lost or a backup is put in its place. The store
has lost later acknowledgements. Nodes have not: they remember the position of each server's journal
(`JournalPosition`), and attempts that run there carry the identity of their job and of their server.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

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


class FinishedPart(NamedTuple):
    """A node's part of an attempt on ``nodes`` that has finished, at this time of the journal's clock."""

    key: AttemptKey
    nodes: tuple[str, ...]
    time: float


@dataclass
class Settling:
    """Nodes and attempts that the present server awaits after the store was set back. In memory only: nodes
    report them again.

    awaited: nodes that have not joined since it began. held: nodes that joined and take no new jobs yet.
    superseded: attempts of jobs in the store that it does not know of; they are being stopped. foreign:
    attempts of jobs that are not in the store. Each with its nodes. there: attempts that by the
    store were ordered and not yet started, and that a node has. missing: attempts that are on these nodes by
    the store, and are not. untold: nodes that have not told yet which jobs of the store have ended there, and
    whether they were asked. finished: parts of attempts in which nodes say that a job has finished that by
    the store is not over, by its number and the node.
    """

    awaited: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    superseded: dict[AttemptKey, set[str]] = field(default_factory=dict)
    foreign: dict[AttemptKey, set[str]] = field(default_factory=dict)
    there: set[AttemptKey] = field(default_factory=set)
    missing: dict[AttemptKey, set[str]] = field(default_factory=dict)
    untold: dict[str, bool] = field(default_factory=dict)
    finished: dict[int, dict[str, FinishedPart]] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether it is known what runs where, and what has ended since."""
        return not (self.awaited or self.superseded or self.untold)

    def ask(self) -> list[str]:
        """The nodes that are to be asked now what has ended there."""
        names = sorted(name for name, asked in self.untold.items() if not asked)
        self.untold.update(dict.fromkeys(names, True))
        return names

    def finish(self, number: int) -> float | None:
        """When a job has finished, as all nodes of one of its attempts say; None: it has not."""
        parts = self.finished.get(number, {})
        for part in parts.values():
            if all(name in parts and parts[name].key == part.key for name in part.nodes):
                return part.time
        return None

    def ended(self, key: AttemptKey) -> None:
        """An attempt has ended."""
        self.superseded.pop(key, None)
        self.foreign.pop(key, None)
        self.missing.pop(key, None)

    def ended_on(self, name: str, key: AttemptKey) -> None:
        """The part of an attempt on a node has ended."""
        for attempts in (self.superseded, self.foreign, self.missing):
            if (nodes := attempts.get(key)) is not None:
                nodes.discard(name)
                if not nodes:
                    del attempts[key]

    def forget_node(self, name: str) -> None:
        """Drop the reports of a node: it reports again, or is lost."""
        self.awaited.discard(name)
        self.held.discard(name)
        self.untold.pop(name, None)
        for key in [*self.superseded, *self.foreign, *self.missing]:
            self.ended_on(name, key)

    def foreign_on(self, name: str) -> list[AttemptKey]:
        """The attempts on a node of jobs that are not in the store."""
        return sorted(key for key, nodes in self.foreign.items() if name in nodes)

    def problem(self, name: str) -> str:
        """Attempts that keep a node, or all nodes, from starting jobs; empty: none."""
        superseded = sorted(key for key, nodes in self.superseded.items() if name in nodes)
        if superseded:
            return (
                f"node {name!r} says that it runs what the store does not know of: {_listed(superseded)}. It "
                "is being stopped, and nothing is started anywhere before it has ended"
            )
        foreign = self.foreign_on(name)
        if not foreign:
            return ""
        return (
            f"node {name!r} runs what is not in the store, which was set back: {_listed(foreign)}. It runs "
            f"on, and nothing new starts there; to stop it at a checkpoint: volvelle nodes resume {name}"
        )


def _listed(keys: list[AttemptKey]) -> str:
    listed = ", ".join(f"job {key.number} attempt {key.attempt}" for key in keys[:10])
    return listed + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")
