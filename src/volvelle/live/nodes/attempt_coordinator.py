"""What the nodes say, put together: parts on nodes become attempts, orders become parts.

No sockets and no clock: orders, and what agents say, go in; reports, and messages to agents, come out. For
each node it mirrors what the agent there has said; for each attempt it keeps what was ordered. After every
change the attempts concerned are settled anew from these two, so it does not matter what came first, twice
or not at all.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from volvelle.live.agent import wire
from volvelle.live.agent.wire import Began, Ended, Key, Part, Run
from volvelle.live.messages import (
    AttemptEnded,
    AttemptProgress,
    AttemptStarted,
    Forget,
    NodeJoined,
    Order,
    Outcome,
    Report,
    Start,
    Stop,
)
from volvelle.model.node import Node

_WORSE = (Outcome.FINISHED, Outcome.STOPPED, Outcome.FAILED, Outcome.LOST)
"""A gang ends as its worst part."""


@dataclass
class _Site:
    """A node as its agent describes it. ``here``: connected; ``heard``: since we began, or lost."""

    node: Node
    leaving: bool = False
    here: bool = False
    heard: bool = False
    address: str = ""
    parts: dict[Key, Began | Ended] = field(default_factory=dict)


@dataclass
class _Gang:
    """An attempt.

    asked, stopped, signalled: what the present connection of each node was told. exit_on: nodes on whose
    pages the last iteration stands.
    """

    key: Key
    nodes: tuple[str, ...] = ()
    start: Start | None = None
    stop: Stop | None = None
    asked: set[str] = field(default_factory=set)
    stopped: dict[str, Stop] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    started: bool = False
    over: AttemptEnded | None = None
    signal: wire.Signal | None = None
    signalled: set[str] = field(default_factory=set)
    exit_at: int = 0
    exit_on: set[str] = field(default_factory=set)


class Gangs:
    """Over ``nodes`` and those that are ``leaving``.

    ``report`` goes to the controller, ``tell`` to the agent of a node that is here.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        report: Callable[[Report], None],
        tell: Callable[[str, wire.ToAgent], None],
        leaving: Iterable[Node] = (),
    ) -> None:
        self._report, self._tell = report, tell
        self._sites = {node.name: _Site(node) for node in nodes}
        self._sites |= {node.name: _Site(node, leaving=True) for node in leaving}
        self._gangs: dict[Key, _Gang] = {}
        self._newest: dict[int, int] = {}
        """The newest attempt that was ordered, by the job's number: older ones are not started."""
        self._forgotten: dict[int, int] = {}
        """The newest attempt that was forgotten, by the job's number."""

    # ------------------------------------------------------------------ orders

    def order(self, order: Order) -> None:
        """Carry out, as far as the nodes are there."""
        key = order.number, order.attempt
        match order:
            case Start():
                self._start(key, order)
            case Stop():
                gang = self._gangs.setdefault(key, _Gang(key))
                self._saw(key)
                if gang.stop is None or order.kill:
                    gang.stop = order
                self._settle(gang, again=True)
            case Forget():
                self._forget(key)

    def _start(self, key: Key, order: Start) -> None:
        if key not in self._gangs and self._newest.get(order.number, 0) >= order.attempt:
            return
        gang = self._gangs.setdefault(key, _Gang(key))
        self._saw(key)
        names = [grant.node for grant in order.grants]
        gang.start, gang.nodes = order, self._known(names)
        for name in names:
            if name not in self._sites:
                gang.over = gang.over or _end(key, Outcome.LOST, f"there is no node {name}")
        gang.started = False
        self._settle(gang, again=True)

    def _forget(self, key: Key) -> None:
        number, attempt = key
        self._saw(key)
        self._forgotten[number] = max(attempt, self._forgotten.get(number, 0))
        gang = self._gangs.pop(key, _Gang(key))
        for name in gang.nodes:
            if self._sites[name].parts.pop(key, None) and self._sites[name].here:
                self._tell(name, Forget(number, attempt))

    def _saw(self, key: Key) -> None:
        self._newest[key[0]] = max(key[1], self._newest.get(key[0], 0))

    # ------------------------------------------------------------------ what agents say

    def joined(self, name: str, address: str, parts: Iterable[Began | Ended]) -> None:
        """The agent of a node is there (again), with all that is on the node."""
        site = self._sites[name]
        before, site.parts = site.parts, {}
        site.here = site.heard = True
        site.address = address
        for gang in self._with(name):
            gang.asked.discard(name)
            gang.stopped.pop(name, None)
            gang.signalled.discard(name)
            gang.exit_on.discard(name)
        for said in parts:
            self._heed(name, said)
        for key, known in before.items():
            if key not in site.parts and key in self._gangs:
                vanished = _lost(known.part, f"{name} knows nothing of it any more")
                self._note(name, known if isinstance(known, Ended) else vanished)
        attempts = tuple(site.parts)
        self._report(NodeJoined(node=site.node, leaving=site.leaving, attempts=attempts))
        self._settle_on(name)

    def know(self, node: Node) -> None:
        """There is a node, from now on if it was not known."""
        known = self._sites.get(node.name)
        if known is None or known.node != node:
            self._sites[node.name] = _Site(node)

    def away(self, name: str) -> None:
        """The connection to a node has ended; it is waited for."""
        self._sites[name].here = False

    def lost(self, name: str, reason: str) -> None:
        """A node is gone for good, as was said, and with certainty all that ran there."""
        site = self._sites[name]
        site.here, site.heard = False, True
        for gang in self._with(name):
            if not isinstance(site.parts.get(gang.key), Ended):
                rank = gang.nodes.index(name)
                part = Part(*gang.key, rank, gang.nodes)
                self._note(name, _lost(part, f"{name} was lost: {reason}"))
        self._settle_on(name)

    def uses(self, name: str) -> bool:
        """Whether an attempt is on a node, or is to be."""
        return any(g.over is None or name in self._running(g) for g in self._with(name))

    def may_use(self, name: str) -> bool:
        """Whether an attempt may be on a node, so far as we heard: before we did nobody knows."""
        return not self._sites[name].heard or self.uses(name)

    def said(self, name: str, message: wire.FromAgent) -> None:
        """Something new from a node that is here."""
        match message:
            case Began() | Ended():
                if self._heed(name, message):
                    self._settle(self._gangs[message.part.key], again=isinstance(message, Ended))
            case AttemptProgress(number=number, attempt=attempt):
                gang = self._gangs.get((number, attempt))
                if gang is not None and gang.over is None:
                    self._report(message)
            case wire.Signal(number, attempt):
                if gang := self._gangs.get((number, attempt)):
                    gang.signal = message
                    gang.signalled = {name}
                    self._settle(gang)
            case wire.ExitAt(number, attempt, iteration):
                if gang := self._gangs.get((number, attempt)):
                    gang.exit_at, gang.exit_on = iteration, {name}
                    self._settle(gang)
            case wire.ExitTold(number, attempt, iteration):
                gang = self._gangs.get((number, attempt))
                if gang is not None and gang.exit_at == iteration:
                    gang.exit_on.add(name)
                    self._spread_exit(gang)
            case wire.Renew(number, attempt, ticket):
                gang = self._gangs.get((number, attempt))
                holds = gang is not None and gang.stop is None
                self._tell(name, wire.Renewed(ticket, holds))

    def _heed(self, name: str, said: Began | Ended) -> bool:
        """Note what a node said, unless all about it is forgotten; whether so."""
        number, attempt = said.part.key
        if attempt > self._forgotten.get(number, 0):
            self._note(name, said)
            return True
        ended = isinstance(said, Ended)
        self._tell(name, Forget(number, attempt) if ended else Stop(number, attempt, kill=True))
        return False

    def _note(self, name: str, said: Began | Ended) -> None:
        """Mirror what a node said of its part."""
        key = said.part.key
        self._saw(key)
        gang = self._gangs.setdefault(key, _Gang(key))
        gang.nodes = gang.nodes or self._known(said.part.nodes)
        gang.asked.discard(name)
        if isinstance(said, Ended) and name not in gang.ended:
            gang.ended.append(name)
        self._sites[name].parts[key] = said

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names of nodes that the cluster still has."""
        return tuple(name for name in names if name in self._sites)

    def _with(self, name: str) -> Iterator[_Gang]:
        return (gang for gang in self._gangs.values() if name in gang.nodes)

    # ------------------------------------------------------------------ settling

    def _settle_on(self, name: str) -> None:
        for gang in list(self._gangs.values()):
            if name in gang.nodes or not gang.nodes:
                self._settle(gang)

    def _settle(self, gang: _Gang, *, again: bool = False) -> None:
        """Do and report what follows from all that is known of ``gang``; ends ``again`` where asked."""
        if gang.over is not None:
            if again:
                self._report(gang.over)
            if self._running(gang):  # against what a lost node left: it was not lost
                self._stop(gang, Stop(*gang.key, kill=True))
            return
        unknown = self._unknown(gang)
        parts = (self._sites[name].parts[gang.key] for name in gang.ended)
        ends = [part for part in parts if isinstance(part, Ended)]
        bad = any(end.outcome is not Outcome.FINISHED for end in ends)
        if bad and gang.stop is None:
            self._stop(gang, Stop(*gang.key, kill=True))
        elif gang.stop is not None:
            self._stop(gang, gang.stop)
        ending = bad or gang.stop is not None or len(ends) == len(gang.nodes) > 0
        if ending and not (self._running(gang) or gang.asked or unknown):
            if ends:
                self._conclude(gang, _together(gang.key, ends))
            else:
                how = (Outcome.STOPPED, "") if gang.start else (Outcome.LOST, "nobody knows of it")
                self._conclude(gang, _end(gang.key, *how))
        if not ending and not unknown:
            self._begin(gang)
        if gang.signal:
            self._spread_signal(gang, gang.signal)
        if gang.exit_at:
            self._spread_exit(gang)

    def _conclude(self, gang: _Gang, ended: AttemptEnded) -> None:
        gang.over = ended
        self._report(ended)

    def _running(self, gang: _Gang) -> list[str]:
        """The nodes on which the attempt runs, as far as we heard."""
        sites = self._sites
        return [n for n in gang.nodes if isinstance(sites[n].parts.get(gang.key), Began)]

    def _unknown(self, gang: _Gang) -> bool:
        """Whether some node that may know more of it has yet to be heard."""
        names = gang.nodes or tuple(self._sites)
        return any(
            not (site.here or gang.key in site.parts or (site.heard and not gang.nodes))
            for site in map(self._sites.__getitem__, names)
        )

    def _begin(self, gang: _Gang) -> None:
        """Ask the leading node to begin; once it did, the others; once all did, say so."""
        if gang.start is None or gang.started:
            return
        leading, *_ = nodes = gang.nodes
        begun = {name for name in nodes if gang.key in self._sites[name].parts}
        if len(begun) == len(nodes):
            gang.started = True
            self._report(AttemptStarted(*gang.key))
            return
        first, address = self._sites[leading].parts.get(gang.key), self._sites[leading].address
        port = first.port if isinstance(first, Began) else 0  # after a quick end nobody needs it
        for rank, name in enumerate(nodes if leading in begun else (leading,)):
            if name not in begun and name not in gang.asked:
                gang.asked.add(name)
                self._tell(name, Run(start=gang.start, rank=rank, address=address, port=port))

    def _stop(self, gang: _Gang, stop: Stop) -> None:
        for name in {*self._running(gang), *gang.asked}:
            if self._sites[name].here and gang.stopped.get(name) != stop:
                gang.stopped[name] = stop
                self._tell(name, stop)

    def _spread_signal(self, gang: _Gang, signal: wire.Signal) -> None:
        """Have the job told by its signal on all nodes."""
        for name in self._running(gang):
            if self._sites[name].here and name not in gang.signalled:
                gang.signalled.add(name)
                self._tell(name, signal)

    def _spread_exit(self, gang: _Gang) -> None:
        """Have the last iteration on the pages of all nodes that still run; then tell the first."""
        told = wire.ExitTold(*gang.key, gang.exit_at)
        waiting = [name for name in self._running(gang) if name not in gang.exit_on]
        for name in waiting:
            if self._sites[name].here:
                self._tell(name, wire.ExitAt(*gang.key, gang.exit_at))
        if not waiting and self._sites[gang.nodes[0]].here:
            self._tell(gang.nodes[0], told)


def _lost(part: Part, reason: str) -> Ended:
    return Ended(part=part, outcome=Outcome.LOST, reason=reason)


def _end(key: Key, outcome: Outcome, reason: str) -> AttemptEnded:
    return AttemptEnded(number=key[0], attempt=key[1], outcome=outcome, reason=reason)


def _together(key: Key, ends: list[Ended]) -> AttemptEnded:
    """The end of an attempt from those of its parts, in the order in which they were heard of.

    Of several failures the first tells: the others may follow from it.
    """
    worst = max(ends, key=lambda end: _WORSE.index(end.outcome))
    gang = len(worst.part.nodes) > 1
    place = f"{worst.part.nodes[worst.part.rank]}: " if gang and worst.reason else ""
    return AttemptEnded(
        number=key[0],
        attempt=key[1],
        outcome=worst.outcome,
        exit_code=worst.exit_code,
        reason=place + worst.reason,
        iterations=max(end.iterations for end in ends),
        saved_iterations=max(end.saved_iterations for end in ends),
    )
