"""Answers that the present server awaits after its store was set back."""

from dataclasses import dataclass, field
from typing import NamedTuple

from volvelle.live.messages import AttemptKey


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
