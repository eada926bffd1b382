"""An image: a scheduler with all that it remembers, as bytes, from which it goes on exactly.

Beside a `volvelle.core.snapshot.Snapshot`, which says in named values where a scheduler is and can be read by
other versions, an image holds the tables of its state as they are. It can be read wherever these have the
same columns.
"""

from collections import deque

import msgspec
import numpy as np

from volvelle.core.composition import Composition, WrittenComposition
from volvelle.core.decision import IntArray, Promise, decode_array, encode_array
from volvelle.core.dependents import Dependents
from volvelle.core.entry import HeldJob
from volvelle.core.events import JobSubmitted
from volvelle.core.journal import Header
from volvelle.core.memory import NoPlainData, memory_of, remind
from volvelle.core.parts import KnownJob
from volvelle.core.registry import Part
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    ARRAYS,
    CLOCKS,
    COUNTERS,
    DIRTY,
    INFINITY,
    LOGS,
    NAMED_WAKE,
    OWN_ARRAYS,
    TABLES,
    State,
    StateTable,
)
from volvelle.model.cluster import Node, NodeState
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerType, Table

FORMAT = 1
"""To be raised where what an entry of `State.count` or `State.clock` means has changed."""

_LAYOUT = f"{State.layout} {COUNTERS} {CLOCKS}"


class _Table(msgspec.Struct, frozen=True, array_like=True):
    """A table of the state. ``more``: columns of floats without a name; ``size``: of a column."""

    layout: str
    more: int
    size: int
    floats: bytes
    ints: bytes

    @classmethod
    def of(cls, table: StateTable) -> "_Table":
        floats = np.asarray(table.floats, dtype=np.float64)
        ints = np.asarray(table.ints, dtype=np.int64)
        more = len(floats) - len(table.float_columns)
        return cls(table.layout, more, len(table), floats.tobytes(), ints.tobytes())

    def read(self, kind: type[StateTable]) -> StateTable:
        """The table, over lists. Raises `Problem` where it has other columns now."""
        if self.layout != kind.layout:
            raise Problem(f"the state's table of {kind.__name__.lower()} has other columns now")
        floats = (len(kind.float_columns) + self.more, self.size)
        ints = (len(kind.int_columns), self.size)
        return kind.from_columns(
            np.frombuffer(self.floats).reshape(floats).tolist(),
            np.frombuffer(self.ints, np.int64).reshape(ints).tolist(),
        )


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """All that a scheduler is.

    parts, memories: its parts as they are written, and what they remember (empty where that cannot be
    kept). models: of the tables of rates.
    """

    layout: str
    tables: dict[str, _Table]
    arrays: dict[str, bytes]
    nodes: tuple[tuple[Node, NodeState], ...]
    given: bytes
    known: tuple[tuple[int, KnownJob], ...]
    queue: tuple[JobSubmitted, ...]
    held: tuple[tuple[int, HeldJob], ...]
    held_submissions: tuple[JobSubmitted, ...]
    dependents: Dependents
    promises: tuple[Promise, ...]
    neighbours: dict[int, str]
    served: tuple[int, ...] | None
    nodes_wanted: dict[int, IntArray]
    models: tuple[Linear | Table | PerType, ...]
    rates: tuple[tuple[int, ...], bytes]
    parts: WrittenComposition
    memories: tuple[bytes, ...]
    format: int = FORMAT

    @classmethod
    def of(cls, scheduler: Scheduler) -> "Image":
        """Of a scheduler that is told of submissions as they come, between two moments."""
        s, resources = scheduler.state, scheduler.resources
        held = sorted(scheduler.held.items())
        rates = np.asarray(s.rates, dtype=np.float64)
        return cls(
            layout=_LAYOUT,
            tables={name: _Table.of(getattr(s, name)) for name in TABLES if name not in LOGS},
            arrays={
                name: np.asarray(getattr(s, name), dtype=ARRAYS[name][1]).tobytes()
                for name in OWN_ARRAYS
            },
            nodes=tuple(zip(resources.nodes, resources.node_states, strict=True)),
            given=resources.given.tobytes(),
            known=tuple((number, scheduler.known[number]) for number in scheduler.known),
            queue=tuple(scheduler.queue),
            held=tuple((number, one) for number, one in held if isinstance(one, HeldJob)),
            held_submissions=tuple(one for _, one in held if isinstance(one, JobSubmitted)),
            dependents=scheduler.dependents.copy(),
            promises=tuple(scheduler.promises.values()),
            neighbours=scheduler.neighbours,
            served=None if scheduler.served is None else tuple(map(int, scheduler.served)),
            nodes_wanted=scheduler.nodes_wanted,
            models=scheduler.tables.models,
            rates=(rates.shape, rates.tobytes()),
            parts=scheduler.composition.written,
            memories=tuple(map(_memory, scheduler.composition)),
        )

    def encode(self) -> bytes:
        """As bytes."""
        return msgspec.msgpack.encode(self, enc_hook=encode_array)

    def scheduler(
        self, header: Header, composition: Composition, *, remember: bool = True
    ) -> tuple[Scheduler, list[str]]:
        """The scheduler, and the names of parts whose memory was lost and that begin a new one.

        composition: as it was, or with another policy or admission. remember: whether parts are to remember
        anything. Raises `Problem` where the state has other columns now.
        """
        scheduler = header.scheduler(composition)
        for node, node_state in self.nodes:
            scheduler.resources.change(node.name, node_state, node)
        scheduler.resources.given = np.frombuffer(self.given).reshape(2, -1).copy()
        forgetful = []
        for part, memory in zip(scheduler.composition, self.memories, strict=True):
            same = part.label in msgspec.structs.astuple(self.parts)
            if part.__private_attributes__ and not (remember and same and _reminded(part, memory)):
                forgetful.append(part.name)
        scheduler.tables.restore(self.models)
        state = self._state(scheduler.state)
        policy, admission = scheduler.composition.policy, scheduler.composition.admission
        if policy.label != self.parts.policy:
            state.jobs.set_more(policy.columns)
            state.clock[NAMED_WAKE] = INFINITY
            state.count[DIRTY] = 1
        scheduler.replace_state(state, order_anew=policy.label != self.parts.policy)
        if admission.label != self.parts.admission:
            scheduler.count_capacity()
        for number, known in self.known:
            scheduler.known[number] = known
        scheduler.queue = deque(self.queue)
        scheduler.held = dict(self.held)
        scheduler.held |= {event.number: event for event in self.held_submissions}
        scheduler.dependents = self.dependents.copy()
        scheduler.promises = {promise.number: promise for promise in self.promises}
        scheduler.neighbours = self.neighbours
        scheduler.served = None if self.served is None else list(self.served)
        scheduler.nodes_wanted = self.nodes_wanted
        return scheduler, forgetful

    def _state(self, new: State) -> State:
        """The state, with the kernels of a ``new`` one."""
        if self.layout != _LAYOUT:
            raise Problem("the state has other tables now")
        state = new.copy()
        for name, table in self.tables.items():
            setattr(state, name, table.read(TABLES[name]))
        for name, numbers in self.arrays.items():
            _, kind, _ = ARRAYS[name]
            setattr(state, name, np.frombuffer(numbers, kind).tolist())
        shape, rates = self.rates
        state.rates = np.frombuffer(rates).reshape(shape).tolist()
        state.jobs.curve[:] = [-1.0] * len(state.jobs)  # curves are worked out again
        return state


def read_image(encoded: bytes) -> Image:
    """The image that `Image.encode` wrote. Raises `Problem` where it is none, or of another format."""
    try:
        image = _DECODER.decode(encoded)
    except (msgspec.DecodeError, ValueError) as error:
        raise Problem(f"the scheduler's image cannot be read: {error}") from None
    if image.format != FORMAT:
        raise Problem(f"the scheduler's image is of format {image.format}, not {FORMAT}")
    return image


_DECODER = msgspec.msgpack.Decoder(Image, dec_hook=decode_array)


def _memory(part: Part) -> bytes:
    try:
        return memory_of(part)
    except NoPlainData:
        return b""


def _reminded(part: Part, memory: bytes) -> bool:
    """Let a part remember what it did; whether that was possible."""
    try:
        remind(part, memory)
    except NoPlainData:
        return False
    return True
