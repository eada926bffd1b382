"""Snapshots of the controller state: recovery begins with the latest and replays only the entries after it.

A snapshot is of one format and has a digest. One that cannot be used is passed over: there is one before it,
and behind all of them the whole journal.
"""

import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from volvelle.core.composition import Composition
from volvelle.core.decision import decode_array, encode_array
from volvelle.core.journal import Header
from volvelle.core.snapshot import Snapshot
from volvelle.live.control.gpu_ledger import LedgerMemory
from volvelle.live.control.live_jobs import JobMemory
from volvelle.live.control.profiling import PartitionMemory
from volvelle.live.control.servers import Servers
from volvelle.live.control.state import ControllerState
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.records import ClockSet, RateMeasured
from volvelle.live.status.view import HoldingView
from volvelle.live.store import Store, StoredSnapshot, StoreFailed, Superseded
from volvelle.model.problems import Problem

FORMAT = 4

_MAX_ENTRIES = 1000
"""Entries after which a snapshot is taken."""
_MAX_DECISION_SECONDS = 1.0
"""Seconds of decisions after which one is taken: a replay decides again."""
_MIN_PAUSE = 10.0
"""Between two snapshots passes so many times what the last one took, at least."""


class ControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A controller state but for what the store's table of jobs says.

    policy, admission: as the journal says. jobs: by number. submitted: when, where the clock was set, which
    the table of jobs does not know.
    """

    next_seq: int
    next_number: int
    last_time: float
    policy: str
    admission: str
    scheduler: Snapshot
    jobs: dict[int, JobMemory]  # type: ignore[valid-type]
    ledger: LedgerMemory
    drained: tuple[str, ...]
    servers: Servers
    holdings: tuple[HoldingView, ...]
    partition: PartitionMemory | None
    measured: tuple[RateMeasured, ...] = ()
    clock: tuple[ClockSet, ...] = ()
    submitted: dict[int, float] = {}

    @classmethod
    def of(cls, state: ControllerState) -> "ControllerSnapshot":
        """Of a state between two cycles."""
        return cls(
            next_seq=state.next_seq,
            next_number=state.next_number,
            last_time=state.last_time,
            policy=state.policy,
            admission=state.admission,
            scheduler=Snapshot.of(state.scheduler, state.header.volvelle),
            jobs={number: job.memory for number, job in state.jobs.items()},
            ledger=state.ledger.memory,
            drained=tuple(sorted(state.drained)),
            servers=state.servers,
            holdings=tuple(state.holdings),
            partition=None if state.partition is None else state.partition.memory,
            measured=state.measured.all,
            clock=state.dates.settings,
            submitted={
                number: job.submitted for number, job in state.jobs.items() if state.dates.settings
            },
        )

    def state(
        self, header: Header, epoch: float, composition: Composition, *, remember: bool
    ) -> tuple[ControllerState, list[str]]:
        """The state, without its jobs, and the names of parts that lost their memory. Raises `Problem`.

        composition, remember: see `volvelle.core.snapshot.Snapshot.resume`.
        """
        scheduler, forgetful = self.scheduler.resume(composition, remember=remember)
        state = ControllerState(header, epoch, scheduler)
        state.dates.settings = self.clock
        state.next_seq, state.next_number = self.next_seq, self.next_number
        state.last_time = self.last_time
        state.policy, state.admission = self.policy, self.admission
        state.ledger.remember(self.ledger)
        state.drained = set(self.drained)
        state.servers = self.servers
        state.holdings.extend(self.holdings)
        state.measured = MeasuredRates(self.measured)
        if state.partition is not None and self.partition is not None:
            state.partition.remember(self.partition)
        return state, forgetful


_DECODER = msgspec.msgpack.Decoder(ControllerSnapshot, dec_hook=decode_array)


def read_snapshot(stored: StoredSnapshot) -> ControllerSnapshot:
    """A stored snapshot. Raises `Problem` where it cannot be read."""
    if stored.format != FORMAT:
        raise Problem(f"it is of format {stored.format}, this Volvelle reads format {FORMAT}")
    try:
        return _DECODER.decode(zlib.decompress(stored.body))
    except (zlib.error, msgspec.DecodeError, ValueError) as error:
        raise Problem(f"it cannot be read ({error})") from None


class SnapshotWriter:
    """Takes snapshots for ``store`` when they are due.

    problem: why the last failed; empty: it did not.
    """

    def __init__(self, store: Store) -> None:
        self.problem = ""
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="snapshots")
        self._writing: Future[None] | None = None
        self._entries = 0
        self._seconds = 0.0
        self._next_time = 0.0

    def entry_stored(self, seconds: float) -> None:
        """An entry was stored, which took ``seconds`` to decide."""
        self._entries += 1
        self._seconds += seconds

    def take_if_due(self, state: ControllerState) -> None:
        """Take one of ``state``, all of which is stored; it is written by a thread."""
        many = self._entries >= _MAX_ENTRIES or self._seconds >= _MAX_DECISION_SECONDS
        began = time.monotonic()
        if many and began >= self._next_time and (self._writing is None or self._writing.done()):
            self._take(state)
            self._next_time = began + _MIN_PAUSE * (time.monotonic() - began)

    def close(self, state: ControllerState | None) -> None:
        """Finish, with a snapshot of ``state`` if there is one and it is new."""
        if state is not None and self._entries:
            self._take(state)
        self._thread.shutdown()

    def _take(self, state: ControllerState) -> None:
        self._entries, self._seconds = 0, 0.0
        try:
            snapshot = ControllerSnapshot.of(state)
        except Problem as problem:
            self.problem = f"no snapshot can be taken, the next start takes longer: {problem}"
            return
        encoded = msgspec.msgpack.encode(snapshot, enc_hook=encode_array)
        self._writing = self._thread.submit(self._write, state.next_seq - 1, encoded)

    def _write(self, seq: int, encoded: bytes) -> None:
        try:
            self._store.snapshots.write(StoredSnapshot(seq, FORMAT, zlib.compress(encoded, 1)))
        except (StoreFailed, Superseded) as failure:
            self.problem = f"no snapshot can be stored, the next start takes longer: {failure}"
        else:
            self.problem = ""
