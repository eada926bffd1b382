"""A snapshot: a scheduler with all that its parts remember, from which it goes on exactly.

It is a value that msgspec writes: a file of it is JSON (`read_snapshot`), a store packs it. Tables of the
state are kept as they are; a version whose tables have other columns refuses it in a sentence.
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.admissions import HeldJob
from volvelle.core.composition import Composition
from volvelle.core.decision import Promise, decode_array, encode_array
from volvelle.core.dependents import Dependents
from volvelle.core.events import JobSubmitted
from volvelle.core.journal import Header
from volvelle.core.memory import memory_of, remind
from volvelle.core.parts import KnownJob
from volvelle.core.promises import Promises
from volvelle.core.registry import Part
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import *
from volvelle.model.cluster import Node, NodeState
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerType, Table

FORMAT = 7
"""To be raised where what a field, or an entry of `State.count` or `State.clock`, means has changed."""

_LAYOUT = f"{State.layout} {COUNTERS} {CLOCKS}"


class _Table(msgspec.Struct, frozen=True, array_like=True):
    """A table of the state. ``more``: columns of floats without a name; ``size``: of a column.

    Only the first ``used`` entries of each column are written; all behind them are 0.
    """

    layout: str
    more: int
    size: int
    used: int
    floats: bytes
    ints: bytes

    @classmethod
    def of(cls, table: StateTable) -> "_Table":
        size = len(table)
        floats = np.asarray(table.floats, dtype=np.float64).reshape(len(table.floats), size)
        ints = np.asarray(table.ints, dtype=np.int64).reshape(len(table.ints), size)
        (places,) = ((floats != 0.0).any(axis=0) | (ints != 0).any(axis=0)).nonzero()
        used = int(places.max(initial=-1)) + 1
        columns = (part[:, :used].tobytes() for part in (floats, ints))
        return cls(table.layout, len(floats) - len(table.float_columns), size, used, *columns)

    def read(self, kind: type[StateTable]) -> StateTable:
        """The table, over lists. Raises `Problem` where it has other columns now."""
        if self.layout != kind.layout:
            raise Problem(f"the state's table of {kind.__name__.lower()} has other columns now")
        floats = (len(kind.float_columns) + self.more, self.used)
        ints = (len(kind.int_columns), self.used)
        table = kind.from_columns(
            np.frombuffer(self.floats).reshape(floats).tolist(),
            np.frombuffer(self.ints, np.int64).reshape(ints).tolist(),
        )
        table.grow(self.size)
        return table


class _Held(NamedTuple):
    """A job that its user holds. values: its columns; some are NaN, which JSON has not."""

    number: int
    values: bytes
    known: KnownJob


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a scheduler is between two moments.

    header: its parts as they are written; memories: what these remember.
    known: the jobs in the system, by number. queue: submissions that wait to be admitted. held: jobs that
    their users hold, and those ``recalled``; held_submissions: before they were admitted. models: of the
    tables of rates.
    """

    header: Header
    layout: str
    tables: dict[str, _Table]
    arrays: dict[str, bytes]
    nodes: tuple[tuple[Node, NodeState], ...]
    given: bytes
    known: tuple[tuple[int, KnownJob], ...]
    queue: tuple[JobSubmitted, ...]
    held: tuple[_Held, ...]
    held_submissions: tuple[JobSubmitted, ...]
    dependents: Dependents
    promises: tuple[Promise, ...]
    neighbours: dict[int, str]
    served: tuple[int, ...] | None
    models: tuple[Linear | Table | PerType, ...]
    memories: tuple[bytes, ...]
    recalled: tuple[int, ...] = ()
    format: int = FORMAT

    @classmethod
    def of(cls, scheduler: Scheduler, volvelle: str) -> "Snapshot":
        """Of a scheduler that learns of submissions as they come; ``volvelle`` is the version.

        Raises `Problem` where a part cannot write what it remembers.
        """
        assert scheduler.admissions.arrival is None
        s, resources = scheduler.state, scheduler.resources
        held = sorted(scheduler.admissions.held.items())
        return cls(
            header=Header(
                volvelle=volvelle,
                cluster=scheduler.cluster,
                composition=scheduler.composition.written,
                overheads=scheduler.overheads.model_dump(),
                seed=scheduler.seed,
            ),
            layout=_LAYOUT,
            tables={name: _Table.of(getattr(s, name)) for name in TABLES if name not in LOGS},
            arrays={
                name: np.asarray(getattr(s, name), dtype=ARRAYS[name][1]).tobytes()
                for name in OWN_ARRAYS
            },
            nodes=tuple(zip(resources.nodes, resources.node_states, strict=True)),
            given=resources.given.tobytes(),
            known=tuple((number, scheduler.known[number]) for number in scheduler.known),
            queue=tuple(scheduler.admissions.queue),
            held=tuple(
                _Held(number, np.array(one.values).tobytes(), one.known)
                for number, one in held
                if isinstance(one, HeldJob)
            ),
            held_submissions=tuple(one for _, one in held if isinstance(one, JobSubmitted)),
            dependents=scheduler.admissions.dependents.copy(),
            promises=tuple(scheduler.promises.values()),
            neighbours=scheduler.grants.neighbours,
            served=None
            if scheduler.grants.served is None
            else tuple(map(int, scheduler.grants.served)),
            models=scheduler.beliefs.models,
            memories=tuple(map(memory_of, scheduler.composition)),
            recalled=tuple(sorted(scheduler.admissions.recalled)),
        )

    @property
    def now(self) -> float:
        """Seconds on the world's clock."""
        return float(np.frombuffer(self.arrays["clock"])[NOW])

    def encode(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self, enc_hook=encode_array)

    def scheduler(self) -> Scheduler:
        """The scheduler, of the parts that it had."""
        return self.resume(self.header.composition.build())[0]

    def resume(
        self, composition: Composition, *, remember: bool = True
    ) -> tuple[Scheduler, list[str]]:
        """The scheduler, and the names of parts whose memory was lost and that begin a new one.

        composition: its parts as they were, or others in their place. remember: whether parts are to
        remember anything. Raises `Problem` where the state has other columns now, or where a placement that
        names GPUs is to take over jobs on counted ones, or the reverse.
        """
        if self.format != FORMAT:
            raise Problem(f"it is of format {self.format}, this Volvelle reads format {FORMAT}")
        scheduler = self.header.scheduler(composition)
        for node, node_state in self.nodes:
            scheduler.resources.change(node.name, node_state, node)
        scheduler.resources.given = np.frombuffer(self.given).reshape(2, -1).copy()
        before, forgetful = msgspec.structs.astuple(self.header.composition), []
        for part, label, memory in zip(scheduler.composition, before, self.memories, strict=True):
            same = part.label == label
            if part.__private_attributes__ and not (remember and same and _reminded(part, memory)):
                forgetful.append(part.name)
        self._restore_state(scheduler)
        for number, known in self.known:
            scheduler.known[number] = known
        scheduler.admissions.queue = deque(self.queue)
        scheduler.admissions.held = {
            one.number: HeldJob(tuple(np.frombuffer(one.values).tolist()), one.known)
            for one in self.held
        } | {event.number: event for event in self.held_submissions}
        scheduler.admissions.recalled = set(self.recalled)
        scheduler.admissions.dependents = self.dependents.copy()
        scheduler.promises = Promises(scheduler.state, self.promises)
        served = None if self.served is None else list(self.served)
        scheduler.grants.served = served
        scheduler.grants.neighbours = self.neighbours
        if scheduler.composition.written != self.header.composition:
            _take_over(scheduler)
        return scheduler, forgetful

    def _restore_state(self, scheduler: Scheduler) -> None:
        """Give ``scheduler`` the tables, over lists, and the kernels of its own parts."""
        if self.layout != _LAYOUT:
            raise Problem("the state has other tables now")
        state, policy = scheduler.state.copy(), scheduler.composition.policy
        for name, table in self.tables.items():
            setattr(state, name, table.read(TABLES[name]))
        for name, numbers in self.arrays.items():
            _, kind, _ = ARRAYS[name]
            setattr(state, name, np.frombuffer(numbers, kind).tolist())
        state.jobs.curve[:] = [-1.0] * len(state.jobs)  # curves are worked out again
        other_policy = policy.label != self.header.composition.policy
        if other_policy or self.tables["jobs"].more != policy.columns:
            state.jobs.set_more(policy.columns)
            state.clock[NAMED_WAKE] = INFINITY
        scheduler.replace_state(state, order_anew=other_policy)
        scheduler.beliefs.restore_models(self.models)


def _take_over(scheduler: Scheduler) -> None:
    """Let other parts than before go on with the jobs that are there. Raises `Problem`."""
    jobs, placement = scheduler.state.jobs, scheduler.composition.placement
    for number, row in scheduler.known.rows.items():
        if jobs.held[row] > 0.0 and bool(scheduler.slots_of(row)) != placement.names_gpus:
            does, mend = "only counts GPUs", "names them, as in --placement consolidated"
            if placement.names_gpus:
                does, mend = "names GPUs", "only counts them, as in --placement none"
            raise Problem(
                f"placement {placement.label!r} {does}, and jobs of the snapshot hold some",
                mend=f"choose one that {mend}",
                usage=True,
            )
        jobs.table[row] = float(scheduler.beliefs.formula(*scheduler.known[number])[1])
    scheduler.count_pools()
    scheduler.count_capacity()
    scheduler.apply_rules()
    scheduler.state.count[DIRTY] = 1


def _reminded(part: Part, memory: bytes) -> bool:
    """Let a part remember what it did; whether that was possible."""
    try:
        remind(part, memory)
    except msgspec.DecodeError:
        return False
    return True


class _AnyFormat(msgspec.Struct):
    """The base of snapshots of all formats."""

    header: msgspec.Raw
    format: int


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file. Raises `Problem` naming it."""
    try:
        written = path.read_bytes()
        if (found := msgspec.json.decode(written, type=_AnyFormat).format) != FORMAT:
            raise Problem(
                f"{path} is a snapshot of format {found}, this Volvelle reads format {FORMAT}",
                mend="take one anew from /v1/snapshot, or use the Volvelle that wrote it",
            )
        return msgspec.json.decode(written, type=Snapshot, dec_hook=decode_array)
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}", mend="check the path") from None
    except msgspec.DecodeError as error:
        raise Problem(
            f"{path} is no snapshot: {error}", mend="take one from /v1/snapshot"
        ) from None
