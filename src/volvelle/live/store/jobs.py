"""The tables of accepted jobs and of their submissions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, Select, bindparam, delete, insert, select, update

from volvelle.live.store import schema
from volvelle.live.store.database import Database, StoreFailed
from volvelle.live.store.rows import CycleBatch, FirstForecast, JobEnd, JobRecord, Submission

# Statements of every cycle are made once: SQLAlchemy spends more on making one than SQLite on executing it.
_SELECT_SUBMISSIONS = select(
    schema.submissions
).where(  # of one user: for pairs SQLite reads the whole table
    schema.submissions.c.user == bindparam("user"),
    schema.submissions.c.key.in_(bindparam("keys", expanding=True)),
)
_INSERT_JOBS = insert(schema.jobs)
_INSERT_SUBMISSIONS = insert(schema.submissions)
_THIS_JOB = schema.jobs.c.number == bindparam("which")
_END_JOBS = (
    update(schema.jobs)
    .where(_THIS_JOB)
    .values({name: bindparam(name) for name in ("state", "reason", "ended", "status")})
)
_FORGET_JOB = delete(schema.jobs).where(_THIS_JOB)
_FORGET_SUBMISSION = delete(schema.submissions).where(
    schema.submissions.c.first == bindparam("which")
)
_FIRST = (
    update(schema.jobs)
    .where(_THIS_JOB)
    .values(
        forecast_start=bindparam("start"),
        forecast_finish=bindparam("finish"),
        first_p50=bindparam("p50"),
        first_p90=bindparam("p90"),
    )
)

_FIRST_FORECAST = ("start", "finish", "p50", "p90")
_FIELDS = fields(JobRecord)

_PER_STATEMENT = 500
"""Numbers in one statement: databases limit the parameters of one."""


class JobTable:
    """The jobs in ``database``. Every method may raise `StoreFailed`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, number: int) -> JobRecord | None:
        """One accepted job."""
        query = select(schema.jobs).where(schema.jobs.c.number == number)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _record(row)

    def list_unfinished(self) -> Iterator[JobRecord]:
        """The jobs that are not over, by number; those with equal requests share one."""
        query = select(schema.jobs).where(schema.jobs.c.state.is_(None))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(schema.jobs.c.number)).mappings().all()
        requests: dict[str, dict[str, Any]] = {}
        return (_record(row, requests) for row in rows)

    def list_latest(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """Jobs, the highest number first, below ``before``: of ``user``, ended in one of ``states``."""
        table = schema.jobs
        query: Select[Any] = select(table).order_by(table.c.number.desc()).limit(limit)
        if user is not None:
            query = query.where(table.c.user == user)
        if states is not None:
            query = query.where(table.c.state.in_(states))
        if before is not None:
            query = query.where(table.c.number < before)
        with self._database.reading() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def find_names(self, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Names and users of these jobs, by number."""
        table, wanted = schema.jobs, sorted(numbers)
        query = select(table.c.number, table.c.name, table.c.user)
        found: dict[int, tuple[str, str]] = {}
        with self._database.reading() as connection:
            for first in range(0, len(wanted), _PER_STATEMENT):
                these = wanted[first : first + _PER_STATEMENT]
                rows = connection.execute(query.where(table.c.number.in_(these)))
                found |= {number: (name, user) for number, name, user in rows}
        return found

    def find_submissions(
        self, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Submission]:
        """The submissions under these users and idempotency keys."""
        if not keys:
            return {}
        of_user: dict[str, list[str]] = {}
        for user, key in keys:
            of_user.setdefault(user, []).append(key)
        found: dict[tuple[str, str], Submission] = {}
        with self._database.reading() as connection:
            for user, own in of_user.items():
                rows = connection.execute(_SELECT_SUBMISSIONS, {"user": user, "keys": own})
                found.update(((user, row.key), Submission(*row)) for row in rows)
        return found

    def find_ends(self, numbers: Sequence[int]) -> dict[int, str]:
        """The final states of those of these jobs that are over."""
        if not numbers:
            return {}
        table = schema.jobs
        found: dict[int, str] = {}
        with self._database.reading() as connection:
            for first in range(0, len(numbers), _PER_STATEMENT):
                these = table.c.number.in_(numbers[first : first + _PER_STATEMENT])
                query = select(table.c.number, table.c.state).where(
                    these, table.c.state.is_not(None)
                )
                found.update((row.number, row.state) for row in connection.execute(query))
        return found

    def write_first_forecasts(self, forecasts: Iterable[FirstForecast]) -> None:
        """Store the first forecasts of jobs."""
        rows = [
            {"which": each.number} | {name: getattr(each, name) for name in _FIRST_FORECAST}
            for each in forecasts
        ]
        with self._database.writing() as connection:
            connection.execute(_FIRST, rows)

    @staticmethod
    def forget(connection: Connection, numbers: Iterable[int]) -> None:
        """Remove jobs that are over, and their idempotency keys, in a transaction that is open."""
        if which := [{"which": number} for number in numbers]:
            connection.execute(_FORGET_JOB, which)
            connection.execute(_FORGET_SUBMISSION, which)

    @staticmethod
    def write_batch(connection: Connection, batch: CycleBatch) -> None:
        """Write the jobs, submissions and ends of a cycle, in its transaction."""
        if batch.accepted:
            requests: dict[int, str] = {}
            connection.execute(_INSERT_JOBS, [_row(each, requests) for each in batch.accepted])
        if batch.submissions:
            rows = [msgspec.to_builtins(each) for each in batch.submissions]
            connection.execute(_INSERT_SUBMISSIONS, rows)
        if batch.ended:
            connection.execute(_END_JOBS, [_end_row(end) for end in batch.ended])


def _row(record: JobRecord, requests: dict[int, str]) -> dict[str, Any]:
    """The row of a job. ``requests``: encoded before, by the identity of their objects."""
    request = requests.get(id(record.request))
    if request is None:
        request = msgspec.json.encode(record.request).decode()
        requests[id(record.request)] = request
    return {each.name: getattr(record, each.name) for each in _FIELDS} | {"request": request}


def _end_row(end: JobEnd) -> dict[str, Any]:
    return {
        "which": end.number,
        "state": end.state,
        "reason": end.reason,
        "ended": end.ended,
        "status": msgspec.json.encode(end.status).decode(),
    }


def _record(row: RowMapping, requests: dict[str, dict[str, Any]] | None = None) -> JobRecord:
    """The job of a row. ``requests``: decoded before, by their texts."""
    values, known = dict(row), {} if requests is None else requests
    try:
        text = values["request"]
        if text not in known:
            known[text] = msgspec.json.decode(text)
        values["request"] = known[text]
        if values["status"] is not None:
            values["status"] = msgspec.json.decode(values["status"])
    except msgspec.DecodeError as error:
        raise StoreFailed(f"job {values['number']} cannot be read: {error}") from error
    return JobRecord(**values)
