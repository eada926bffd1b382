"""The store itself: opening, appending, reading."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    bindparam,
    delete,
    event,
    func,
    insert,
    make_url,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from volvelle.core.decision import decode_array, encode_array
from volvelle.core.journal import Entry, Header
from volvelle.live.records import Fact
from volvelle.live.store import schema
from volvelle.live.store.backends import Backend, backends
from volvelle.live.store.migrate import bring_up_to_date
from volvelle.live.store.rows import (
    Batch,
    Ended,
    JobRecord,
    Promise,
    StoredEntry,
    Submission,
    Token,
)
from volvelle.model.problems import Problem, nearest

_PAGE = 1000
"""Entries read at a time."""

# Statements of every cycle are made once: SQLAlchemy spends more on making one than SQLite on doing it.
_WRITER_AND_LAST = select(
    schema.writer.c.token, select(func.max(schema.entries.c.seq)).scalar_subquery()
)
_SUBMISSIONS = select(schema.submissions).where(
    tuple_(schema.submissions.c.user, schema.submissions.c.key).in_(
        bindparam("keys", expanding=True)
    )
)
_INSERT_ENTRY = insert(schema.entries)
_INSERT_JOBS = insert(schema.jobs)
_INSERT_SUBMISSIONS = insert(schema.submissions)
_THIS_JOB = schema.jobs.c.number == bindparam("which")
_END_JOBS = (
    update(schema.jobs)
    .where(_THIS_JOB)
    .values({name: bindparam(name) for name in ("state", "reason", "ended", "picture")})
)
_PROMISE = (
    update(schema.jobs)
    .where(_THIS_JOB)
    .values(
        foreseen=bindparam("seen"), promised_p50=bindparam("p50"), promised_p90=bindparam("p90")
    )
)


class StoreFailed(Exception):  # noqa: N818 - it is what happened
    """The store could not be read or written just now; nothing is known to have been committed."""


class Superseded(Problem):
    """Another controller has opened the store to write; this one must not go on."""


class Store:
    """What survives. Reading may be done from any thread; `append` only by the one writer.

    Every method may raise `StoreFailed`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine()
        self._for_writing = self._engine.execution_options(writing=True)
        self._writer: str | None = None
        self._shaken = False  # whether we were connected anew, and the lock may be another's
        event.listen(self._engine, "connect", self._connected)
        self._encode = msgspec.json.Encoder(enc_hook=encode_array).encode
        self._entry = msgspec.json.Decoder(Entry, dec_hook=decode_array)
        self._facts = msgspec.json.Decoder(tuple[Fact, ...])

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, url: str) -> Self:
        """The store at ``url`` (or at the path of a file), made or brought up to date where needed.

        Raises `Problem` where it cannot be reached or was written by a newer Volvelle.
        """
        store = cls(_backend(url))
        try:
            bring_up_to_date(store._engine)
        except SQLAlchemyError as error:
            raise Problem(
                f"cannot open the store {store.where}: {_in_words(error)}",
                mend="check that it is there, that it runs and that we may write to it",
            ) from error
        return store

    @property
    def where(self) -> str:
        """The URL, without a password."""
        return self._backend.url.render_as_string(hide_password=True)

    def claim(self) -> None:
        """Be the one writer from now on. Raises `Problem` where another is."""
        if not self._backend.lock():
            raise Problem(
                f"another volvelle serve is writing to {self.where}",
                mend="stop it first, or name another store",
            )
        token = secrets.token_hex(16)
        with self._writing() as connection:
            connection.execute(delete(schema.writer))
            connection.execute(insert(schema.writer).values(one=0, token=token))
        self._writer = token

    def close(self) -> None:
        """Let go of everything."""
        self._backend.unlock()
        self._engine.dispose()

    # ------------------------------------------------------------------ the journal

    def begin(self, header: Header, epoch: float) -> None:
        """Write what the journal begins with; ``epoch``: its time 0."""
        with self._writing() as connection:
            connection.execute(delete(schema.header))
            body = self._encode(header).decode()
            connection.execute(insert(schema.header).values(one=0, epoch=epoch, body=body))

    def header(self) -> tuple[Header, float] | None:
        """What the journal begins with, and when; None where nothing has begun."""
        with self._reading() as connection:
            row = connection.execute(select(schema.header)).mappings().first()
        if row is None:
            return None
        return msgspec.json.decode(row["body"], type=Header), row["epoch"]

    def append(self, batch: Batch) -> None:
        """Keep one cycle, for good. May be called again with the same after it failed.

        Raises `Superseded` where somebody else writes now.
        """
        self._keep(batch)
        if self._shaken:
            self._renew()
            self._shaken = False

    def _connected(self, *_: Any) -> None:
        self._shaken = True

    def _renew(self) -> None:
        """See to it that no other can open the store to write while we do."""
        try:
            if self._backend.renew():
                return
        except SQLAlchemyError as error:
            raise StoreFailed(f"{self.where}: {_in_words(error)}") from error
        raise StoreFailed(f"{self.where}: somebody else holds its lock")

    def _keep(self, batch: Batch) -> None:
        stored = batch.stored
        with self._writing() as connection:
            writer, last = connection.execute(_WRITER_AND_LAST).one_or_none() or (None, None)
            if writer != self._writer:
                raise Superseded(f"another volvelle serve has taken over {self.where}")
            if last is not None and last >= stored.seq:
                return  # an earlier try succeeded, and we were not told
            row = {
                "seq": stored.seq,
                "time": stored.entry.time,
                "body": self._encode(stored.entry).decode(),
                "facts": self._encode(stored.facts).decode(),
            }
            connection.execute(_INSERT_ENTRY, row)
            if batch.accepted:
                rows = [self._row(record) for record in batch.accepted]
                connection.execute(_INSERT_JOBS, rows)
            if batch.submissions:
                rows = [msgspec.to_builtins(each) for each in batch.submissions]
                connection.execute(_INSERT_SUBMISSIONS, rows)
            if batch.ended:
                connection.execute(_END_JOBS, [self._end(end) for end in batch.ended])

    def entries(self, after: int = -1) -> Iterator[StoredEntry]:
        """The journal from the entry after ``after`` on, read in pages."""
        for row in self._entry_rows(after):
            yield StoredEntry(
                row["seq"], self._entry.decode(row["body"]), self._facts.decode(row["facts"])
            )

    def journal(self, path: Path) -> None:
        """Write all of it as a journal file (`volvelle.core.journal`)."""
        with self._reading() as connection:
            head = connection.scalar(select(schema.header.c.body))
        with path.open("wb") as file:
            if head is not None:
                file.write(head.encode() + b"\n")
            for row in self._entry_rows():
                file.write(row["body"].encode() + b"\n")

    def _entry_rows(self, after: int = -1) -> Iterator[RowMapping]:
        table = schema.entries
        while True:
            query = select(table).where(table.c.seq > after).order_by(table.c.seq).limit(_PAGE)
            with self._reading() as connection:
                rows = connection.execute(query).mappings().all()
            if not rows:
                return
            yield from rows
            after = rows[-1]["seq"]

    # ------------------------------------------------------------------ jobs

    def submissions(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Submission]:
        """What was submitted under these keys of these users, as far as anything was."""
        if not keys:
            return {}
        with self._reading() as connection:
            rows = connection.execute(_SUBMISSIONS, {"keys": list(keys)})
            found = [Submission(*row) for row in rows]
        return {(each.user, each.key): each for each in found}

    def job(self, number: int) -> JobRecord | None:
        """One job that was accepted."""
        with self._reading() as connection:
            query = select(schema.jobs).where(schema.jobs.c.number == number)
            row = connection.execute(query).mappings().first()
        return None if row is None else _record(row)

    def unfinished(self) -> Iterator[JobRecord]:
        """The jobs that are not over, by number."""
        with self._reading() as connection:
            query = select(schema.jobs).where(schema.jobs.c.state.is_(None))
            rows = connection.execute(query.order_by(schema.jobs.c.number)).mappings().all()
        return (_record(row) for row in rows)

    def jobs(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """The latest jobs, latest first: of a user, over in one of ``states``, numbered under ``before``."""
        table = schema.jobs
        query: Select[Any] = select(table).order_by(table.c.number.desc()).limit(limit)
        if user is not None:
            query = query.where(table.c.user == user)
        if states is not None:
            query = query.where(table.c.state.in_(states))
        if before is not None:
            query = query.where(table.c.number < before)
        with self._reading() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def promise(self, promises: Iterable[Promise]) -> None:
        """Keep what was foreseen for jobs at their submission."""
        with self._writing() as connection:
            connection.execute(
                _PROMISE,
                [
                    {"which": each.number, "seen": each.foreseen, "p50": each.p50, "p90": each.p90}
                    for each in promises
                ],
            )

    def _row(self, record: JobRecord) -> dict[str, Any]:
        row: dict[str, Any] = msgspec.to_builtins(record)
        return row | {"request": self._encode(record.request).decode()}

    def _end(self, end: Ended) -> dict[str, Any]:
        return {
            "which": end.number,
            "state": end.state,
            "reason": end.reason,
            "ended": end.ended,
            "picture": self._encode(end.picture).decode(),
        }

    # ------------------------------------------------------------------ tokens

    def add_token(self, token: Token) -> None:
        """Let somebody in."""
        with self._writing() as connection:
            connection.execute(insert(schema.tokens), msgspec.to_builtins(token))

    def token(self, digest: str) -> Token | None:
        """Whose token has this digest; None where nobody's has, or it was revoked."""
        table = schema.tokens
        query = select(table).where(table.c.digest == digest, table.c.revoked.is_(False))
        with self._reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else Token(**row)

    def tokens(self) -> list[Token]:
        """All there ever were, the oldest first."""
        table = schema.tokens
        with self._reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.created, table.c.digest))
            return [Token(**row) for row in rows.mappings()]

    def revoke(self, digest: str) -> bool:
        """Let a token open nothing any more; whether there was one."""
        table = schema.tokens
        with self._writing() as connection:
            this = table.c.digest == digest
            return bool(connection.execute(update(table).where(this).values(revoked=True)).rowcount)

    # ------------------------------------------------------------------ connections

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._connection(self._for_writing.begin) as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._connection(self._engine.connect) as connection:
            yield connection

    @contextmanager
    def _connection(self, connect: Callable[[], Any]) -> Iterator[Connection]:
        try:
            with connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreFailed(f"{self.where}: {_in_words(error)}") from error


def _backend(url: str) -> Backend:
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise Problem(
            f"{url!r} is not the URL of a store",
            mend="write postgresql://USER@HOST/NAME",
            usage=True,
        ) from None
    name = parsed.get_backend_name()
    if name not in backends:
        raise Problem(
            f"stores of kind {name!r} are not known{nearest(name, backends)}",
            mend=f"known are {' and '.join(backends)}",
            usage=True,
        )
    return backends[name](parsed)


def _record(row: RowMapping) -> JobRecord:
    values = dict(row)
    values["request"] = msgspec.json.decode(values["request"])
    if values["picture"] is not None:
        values["picture"] = msgspec.json.decode(values["picture"])
    return JobRecord(**values)


def _in_words(error: SQLAlchemyError) -> str:
    """What the database itself says, in one line."""
    original = getattr(error, "orig", None)
    return str(original or error).strip().splitlines()[0]
