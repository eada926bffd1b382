"""The store: the journal, appended to by one writer, and the tables of jobs and tokens."""

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from threading import Lock
from typing import Any, Self

import msgspec
from sqlalchemy import (
    Connection,
    RowMapping,
    Table,
    bindparam,
    delete,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from volvelle.core.decision import decode_array, encode_array
from volvelle.core.journal import FORMAT, Entry, Header
from volvelle.live.records import ControlRecord
from volvelle.live.store import schema
from volvelle.live.store.backends import Backend
from volvelle.live.store.backup import RESTORED
from volvelle.live.store.database import Database, StoreFailed, backend_of, database_message
from volvelle.live.store.jobs import JobTable
from volvelle.live.store.outbox import Outbox
from volvelle.live.store.pruning import jobs_over, without
from volvelle.live.store.rows import CycleBatch, StoredEntry
from volvelle.live.store.snapshots import SnapshotTable
from volvelle.live.store.tokens import TokenTable
from volvelle.live.store.upgrade import upgrade_store
from volvelle.model.problems import Problem

_PAGE_ROWS = 1000
"""Entries read at a time."""

_PRUNED_AT_ONCE = 10_000
"""Entries: the server writes in between."""

_STRAGGLERS_SECONDS = 3600.0
"""How long after the end of a job there may still be news of it."""

_LAST = schema.entries.c.seq.desc()
_SELECT_WRITER_AND_LAST = select(
    schema.writer.c.token,
    select(schema.entries.c.seq).order_by(_LAST).limit(1).scalar_subquery(),
    select(schema.entries.c.digest).order_by(_LAST).limit(1).scalar_subquery(),
)
_INSERT_ENTRY = insert(schema.entries)


class Superseded(Problem):
    """Another controller has claimed the store; this one must not go on."""


class Store:
    """The state that survives the controller. Any thread may read; only the one writer may `append`.

    Every method may raise `StoreFailed`.
    """

    def __init__(self, backend: Backend) -> None:
        self._database = Database(backend)
        self.jobs = JobTable(self._database)
        self.tokens = TokenTable(self._database)
        self.outbox = Outbox(self._database)
        self.snapshots = SnapshotTable(self._database, self._check_writer, self._entry_digest)
        self._writer: str | None = None
        self.restored = False
        """Whether it was restored from a backup and not written to since. Known to the writer."""
        self._reconnected = False  # then the lock may have been lost
        self._pruning = Lock()
        """A lock against readers of the journal while entries are taken from it."""
        event.listen(self._database.engine, "connect", self._on_connect)
        self._encode = msgspec.json.Encoder(enc_hook=encode_array).encode
        self._decode_entry = msgspec.json.Decoder(Entry, dec_hook=decode_array).decode
        self._decode_records = msgspec.json.Decoder(tuple[ControlRecord, ...]).decode

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, url: str) -> Self:
        """The store at ``url`` (or at the path of a file), created or upgraded if necessary.

        Raises `Problem` if it cannot be reached or was written by a newer Volvelle.
        """
        store = cls(backend_of(url))
        try:
            upgrade_store(store._database.backend, store._database.engine)
        except SQLAlchemyError as error:
            raise Problem(
                f"cannot open the store {store.where}: {database_message(error)}",
                mend="check that it is there, that it runs and that we may write to it",
            ) from error
        return store

    @property
    def where(self) -> str:
        """Its URL, without a password."""
        return self._database.where

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """Any failure is a `Problem`: a server that begins does not wait for its store."""
        try:
            yield
        except StoreFailed as failure:
            raise Problem(
                f"the store cannot be used: {failure}",
                mend=f"see that {self.where} has space and can be written, or put a backup in its place",
            ) from failure

    def claim(self) -> None:
        """Become the one writer. Raises `Problem` if there is another."""
        if not self._database.backend.lock():
            raise Problem(
                f"another volvelle serve is writing to {self.where}{self._database.backend.holder()}",
                mend="stop it first, or name another store",
            )
        token = secrets.token_hex(16)
        with self._database.writing() as connection:
            self.restored = connection.scalar(select(schema.writer.c.token)) == RESTORED
            connection.execute(delete(schema.writer))
            connection.execute(insert(schema.writer).values(one=0, token=token))
        self._writer = token
        self.keep_room()

    def keep_room(self) -> bool:
        """Keep room on its disk for cancellations and ends of jobs. Returns whether there is."""
        return self._database.backend.keep_room()

    def use_room(self) -> bool:
        """Free the room that was kept. Returns whether there was any."""
        return self._database.backend.use_room()

    def close(self) -> None:
        """Release the lock and all connections."""
        self._database.backend.unlock()
        self._database.engine.dispose()

    def _on_connect(self, *_: Any) -> None:
        self._reconnected = True

    def _renew_lock(self) -> None:
        """Make sure that no other controller can claim the store while we write."""
        try:
            if self._database.backend.renew():
                return
        except SQLAlchemyError as error:
            raise StoreFailed(f"{self.where}: {database_message(error)}") from error
        raise StoreFailed(f"{self.where}: another process holds its lock")

    def _check_writer(self, connection: Connection) -> None:
        if connection.scalar(select(schema.writer.c.token)) != self._writer:
            raise Superseded(f"another volvelle serve has taken over {self.where}")

    # ------------------------------------------------------------------ the journal

    def begin(self, header: Header, epoch: float) -> None:
        """Write the journal's header; ``epoch``: its time 0."""
        with self._database.writing() as connection:
            connection.execute(delete(schema.header))
            body = self._encode(header).decode()
            connection.execute(insert(schema.header).values(one=0, epoch=epoch, body=body))

    def header(self) -> tuple[Header, float] | None:
        """The journal's header and epoch; None if there is no journal. Raises `Problem` if it is damaged."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.header)).mappings().first()
        if row is None:
            return None
        try:
            header = msgspec.json.decode(row["body"], type=Header)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._damaged(f"the journal's header cannot be read ({error})") from None
        if header.format > FORMAT:
            raise Problem(
                f"{self.where} holds a journal of format {header.format}, this Volvelle reads up to {FORMAT}",
                mend="install a newer Volvelle",
            )
        return header, row["epoch"]

    def append(self, batch: CycleBatch) -> None:
        """Commit one cycle. May be called again with the same batch after it failed.

        Raises `Superseded` if another controller has claimed the store, or its file was removed or replaced.
        """
        self._write(batch)
        self.check_there()
        if self._reconnected:
            self._renew_lock()
            self._reconnected = False

    @property
    def loss(self) -> str:
        """Why all that is written is lost: its file was removed or replaced; empty if it was not."""
        if self._database.backend.is_there():
            return ""
        return f"the store {self.where} was removed, or another file is in its place"

    def check_there(self) -> None:
        """Raise `Superseded` if what is written is lost."""
        if loss := self.loss:
            raise Superseded(loss)

    def _write(self, batch: CycleBatch) -> None:
        stored = batch.entry
        with self._database.writing() as connection:
            row = connection.execute(_SELECT_WRITER_AND_LAST).one_or_none()
            writer, last_seq, last_digest = row or (None, None, None)
            if writer != self._writer:
                raise Superseded(f"another volvelle serve has taken over {self.where}")
            if last_seq is not None and last_seq >= stored.seq:
                return  # an earlier try had succeeded
            connection.execute(_INSERT_ENTRY, self._as_row(stored, last_digest or ""))
            self.jobs.write_batch(connection, batch)
            self.outbox.write(connection, batch.notifications)

    def _as_row(self, stored: StoredEntry, before: str) -> dict[str, Any]:
        """An entry as it is stored, behind the one with the digest ``before``."""
        body, records = self._encode(stored.entry).decode(), self._encode(stored.records).decode()
        return {
            "seq": stored.seq,
            "time": stored.entry.time,
            "body": body,
            "records": records,
            "digest": _chained(before, body, records),
        }

    def entries(self, after: int = -1) -> Iterator[StoredEntry]:
        """The journal from the entry after ``after`` on, read in pages.

        Raises `Problem` for an entry that is missing, was changed, or cannot be read.
        """
        return map(self._entry, self._entry_rows(after))

    def _entry(self, row: RowMapping) -> StoredEntry:
        try:
            entry = self._decode_entry(row["body"])
            records = self._decode_records(row["records"])
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise self._damaged(f"entry {row['seq']:,} cannot be read ({error})") from None
        return StoredEntry(row["seq"], entry, records)

    def write_journal(self, path: Path) -> None:
        """Write the whole journal to a file (`volvelle.core.journal`)."""
        with self._pruning, path.open("wb") as file:
            with self._database.reading() as connection:
                header = connection.scalar(select(schema.header.c.body))
            if header is not None:
                file.write(header.encode() + b"\n")
            for row in self._entry_rows():
                file.write(row["body"].encode() + b"\n")

    def _entry_rows(self, after: int = -1) -> Iterator[RowMapping]:
        if after < 0:
            yield from self._pruned_rows()
            after = self._last_pruned()
        yield from self._written_rows(after)

    def _written_rows(self, after: int) -> Iterator[RowMapping]:
        """The entries after ``after``, as they were written."""
        digest = "" if after < 0 else self._entry_digest(after)
        for row in self._read_pages(schema.entries, after):
            after += 1
            if row["seq"] != after:
                raise self._damaged(f"entry {after:,} of the journal is missing")
            digest = _chained(digest, row["body"], row["records"])
            if row["digest"] != digest:
                raise self._changed(after)
            yield row

    def _pruned_rows(self) -> Iterator[RowMapping]:
        for row in self._read_pages(schema.pruned_entries, -1):
            if row["digest"] != _chained("", row["body"], row["records"]):
                raise self._changed(row["seq"])
            yield row

    def _read_pages(self, table: Table, after: int) -> Iterator[RowMapping]:
        """The rows of a table of entries after ``after``, read in pages."""
        while True:
            query = select(table).where(table.c.seq > after).order_by(table.c.seq).limit(_PAGE_ROWS)
            with self._database.reading() as connection:
                rows = connection.execute(query).mappings().all()
            if not rows:
                return
            yield from rows
            after = rows[-1]["seq"]

    def _last_pruned(self) -> int:
        """The last entry that was pruned, which is a link to those before; -1 if none was."""
        found = self.header()
        if found is None or found[0].pruned is None:
            return -1
        with self._database.reading() as connection:
            seq: int | None = connection.scalar(select(func.min(schema.entries.c.seq)))
        if seq is None:
            raise self._damaged("the journal has no entries")
        return seq

    def _changed(self, seq: int) -> Problem:
        return self._damaged(f"entry {seq:,} of the journal is not what was written")

    def _entry_digest(self, seq: int) -> str:
        """The digest of an entry. Raises `Problem` if it is missing."""
        query = select(schema.entries.c.digest).where(schema.entries.c.seq == seq)
        with self._database.reading() as connection:
            digest: str | None = connection.scalar(query)
        if digest is None:
            raise self._damaged(f"entry {seq:,} of the journal is missing")
        return digest

    def _damaged(self, what: str) -> Problem:
        return Problem(
            f"the store {self.where} is damaged: {what}",
            mend="put a backup in its place, or begin a new store",
        )

    # ------------------------------------------------------------------ what is forgotten

    def prune(self, until: float, kept: Set[int]) -> bool:
        """Forget the jobs that were over an hour before ``until``, but ``kept``; at most so many at once.

        until: on the journal's clock. Entries from the earlier snapshot on stay as they are. Returns whether
        there is more to forget. Raises `Superseded` as `append`, and `Problem` where the journal is damaged.
        """
        earliest = min(self.snapshots.seqs(), default=0)
        old = takewhile(
            lambda stored: stored.seq < earliest and stored.entry.time < until,
            map(self._entry, self._written_rows(self._last_pruned())),
        )
        new = list(islice(old, _PRUNED_AT_ONCE))
        if not new:
            return False
        before = list(self._pruned_rows())
        entries = [*map(self._entry, before), *new]
        over = takewhile(lambda stored: stored.entry.time < until - _STRAGGLERS_SECONDS, entries)
        gone = jobs_over(over, kept)
        rows = [self._as_row(stored, "") for stored in without(entries, gone)]
        with self._pruning, self._database.writing() as connection:
            self._check_writer(connection)
            _replace_pruned(connection, {row["seq"]: row["digest"] for row in before}, rows)
            connection.execute(delete(schema.entries).where(schema.entries.c.seq < new[-1].seq))
            self._mark_pruned(connection, new[-1].entry.time)
            self.jobs.forget(connection, gone)
        return len(new) == _PRUNED_AT_ONCE

    def _mark_pruned(self, connection: Connection, until: float) -> None:
        body = connection.execute(select(schema.header.c.body)).scalar_one()
        header = msgspec.json.decode(body, type=Header)
        header = msgspec.structs.replace(header, format=FORMAT, pruned=until)
        connection.execute(update(schema.header).values(body=self._encode(header).decode()))


def _replace_pruned(
    connection: Connection, before: Mapping[int, str], rows: Sequence[dict[str, Any]]
) -> None:
    """Put ``rows`` in the place of those ``before``, their digests by sequence number."""
    table = schema.pruned_entries
    news = [row for row in rows if before.get(row["seq"]) != row["digest"]]
    unchanged = {row["seq"] for row in rows} - {row["seq"] for row in news}
    if stale := [{"which": seq} for seq in before.keys() - unchanged]:
        connection.execute(delete(table).where(table.c.seq == bindparam("which")), stale)
    if news:
        connection.execute(insert(table), news)


def _chained(before: str, body: str, records: str) -> str:
    """The digest of an entry, behind the one with the digest ``before``."""
    written = f"{before}\n{body}\n{records}".encode()
    return hashlib.blake2b(written, digest_size=16).hexdigest()
