"""Access to the store's database: connections, transactions, and its errors as ours."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
)

from volvelle.live.store.backends import Backend, backends
from volvelle.model.problems import Problem, nearest

_PERMANENT_ERRORS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)
_PERMANENT_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)


class StoreFailed(Exception):  # noqa: N818 - it is what happened
    """The store could not be read or written; nothing is known to have been committed.

    permanent: it will fail again, however often it is tried. full: its disk is full.
    """

    def __init__(self, message: str, *, permanent: bool = False, full: bool = False) -> None:
        super().__init__(message)
        self.permanent, self.full = permanent, full


class Database:
    """The database of ``backend``. Every method may be called from any thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.engine = backend.engine()
        self._writing_engine = self.engine.execution_options(writing=True)

    @property
    def where(self) -> str:
        """Its URL, without a password."""
        return self.backend.url.render_as_string(hide_password=True)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction for writing. Raises `StoreFailed`."""
        with self._connection(self._writing_engine.begin) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction for reading. Raises `StoreFailed`."""
        with self._connection(self.engine.connect) as connection:
            yield connection

    @contextmanager
    def _connection(self, connect: Callable[[], Any]) -> Iterator[Connection]:
        try:
            with connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            message = f"{self.where}: {database_message(error)}"
            raise StoreFailed(
                message, permanent=_is_permanent(error), full=_code(error) == sqlite3.SQLITE_FULL
            ) from error


def backend_of(url: str) -> Backend:
    """The backend for a URL, or for the path of a SQLite file. Raises `Problem`."""
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


def _is_permanent(error: SQLAlchemyError) -> bool:
    """Whether the database is damaged, or not what we take it for; not: out of reach, locked, full."""
    code = _code(error)
    missing = code == sqlite3.SQLITE_ERROR and "no such" in str(getattr(error, "orig", None))
    damaged = code is not None and code & 0xFF in _PERMANENT_CODES
    return isinstance(error, _PERMANENT_ERRORS) or missing or damaged


def _code(error: SQLAlchemyError) -> int | None:
    """SQLite's code of an error; None for those of other databases."""
    return getattr(getattr(error, "orig", None), "sqlite_errorcode", None)


def database_message(error: SQLAlchemyError) -> str:
    """The database's own message, in one line."""
    original = getattr(error, "orig", None)
    return str(original or error).strip().splitlines()[0]
