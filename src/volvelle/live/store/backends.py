"""Differences between databases: set-up of a connection, and exclusion of a second writer."""

import fcntl
import os
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from volvelle.model.extras import install
from volvelle.model.problems import Problem

_ROOM_BYTES = 32 << 20
"""The size of the file that keeps room on a disk: thousands of cancellations and ends of attempts."""

_LOCK = int.from_bytes(b"volvelle", "big")
"""Number of our advisory lock; PostgreSQL has one set of them for each database."""


class Backend(ABC):
    """One kind of database, at one URL."""

    name: ClassVar[str]

    def __init__(self, url: URL) -> None:
        self.url = url

    @abstractmethod
    def engine(self) -> Engine:
        """An engine whose commits are durable."""

    @abstractmethod
    def lock(self) -> bool:
        """Become the only writer until `unlock` or the end of the process. Returns whether that succeeded."""

    def holder(self) -> str:
        """The process that holds the lock, ``" (process 7)"``; empty where that is not known."""
        return ""

    def renew(self) -> bool:
        """Whether we still hold the lock, after a failure that may have lost it."""
        return True

    def is_there(self) -> bool:
        """Whether the database is still the one that was locked."""
        return True

    def keep_room(self) -> bool:
        """Keep room on its disk for what has to be written when that is full. Returns whether there is."""
        return True

    def use_room(self) -> bool:
        """Free the room that was kept. Returns whether there was any."""
        return False

    @abstractmethod
    def unlock(self) -> None:
        """Let another process write."""


class Sqlite(Backend):
    """A file. The lock is a lock on a second file beside it."""

    name = "sqlite"

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        if not url.database or url.database == ":memory:":
            raise Problem("a store in memory loses everything", mend="name a file")
        self.path = Path(url.database)
        self._held: IO[bytes] | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the file when it was locked."""

    def engine(self) -> Engine:
        """Write-ahead log, synced at every commit; readers do not wait."""
        if not self.path.parent.is_dir():
            raise Problem(
                f"cannot make the store {self.path}: there is no folder {self.path.parent}",
                mend="make it, or name another place",
            )
        engine = create_engine(self.url, connect_args={"timeout": 10.0})

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # the driver must not begin transactions
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # a transaction that begins as a reader cannot write once another has written
            writing = connection.get_execution_options().get("writing")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine

    def lock(self) -> bool:
        """Take the lock file."""
        file = os.fdopen(os.open(self._lock_file, os.O_WRONLY | os.O_CREAT, 0o600), "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        with suppress(OSError):  # a full disk
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), b"%d" % os.getpid())
        self._held = file
        self._file = self._found()
        return True

    def holder(self) -> str:
        """The process that wrote its number into the lock file."""
        with suppress(OSError):
            number = self._lock_file.read_text(encoding="ascii", errors="replace")
            return f" (process {number})" if number.isdigit() else ""
        return ""

    @property
    def _lock_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def is_there(self) -> bool:
        """Whether the file at the path is the one that was locked, as far as that can be seen now."""
        try:
            return self._file is None or self._found() == self._file
        except OSError:
            return True  # the next write says more

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def keep_room(self) -> bool:
        """Keep a file beside it, made while the disk has twice its size."""
        if self._room.exists():
            return True
        try:
            disk = os.statvfs(self.path.parent)
            if disk.f_bavail * disk.f_frsize < 2 * _ROOM_BYTES:
                return False
            with self._room.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)
        except OSError:
            self.use_room()
            return False
        return True

    def use_room(self) -> bool:
        """Delete that file."""
        there = self._room.exists()
        with suppress(OSError):
            self._room.unlink(missing_ok=True)
        return there

    @property
    def _room(self) -> Path:
        return self.path.with_name(f"{self.path.name}.room")

    def unlock(self) -> None:
        """Release the lock file."""
        if self._held is not None:
            self._held.close()
            self._held = None


_TIMEOUT = {"connect_timeout": 5}
"""Seconds to wait for a server that does not answer."""


class Postgresql(Backend):
    """A server. The lock is an advisory lock, held by a connection of its own."""

    name = "postgresql"

    def __init__(self, url: URL) -> None:
        super().__init__(url.set(drivername="postgresql+psycopg"))
        self._held: Connection | None = None

    def engine(self) -> Engine:
        """Connections are tested before use: the server may have been restarted."""
        try:
            return create_engine(self.url, pool_pre_ping=True, connect_args=_TIMEOUT)
        except ImportError:
            raise Problem("stores on PostgreSQL need psycopg", mend=install("postgresql")) from None

    def lock(self) -> bool:
        """Take the advisory lock of this database."""
        engine = create_engine(self.url, poolclass=NullPool, connect_args=_TIMEOUT)
        connection = engine.connect()
        locked = connection.scalar(text("select pg_try_advisory_lock(:lock)"), {"lock": _LOCK})
        connection.commit()
        if not locked:
            connection.close()
            return False
        self._held = connection
        return True

    def renew(self) -> bool:
        """A restarted server has no locks."""
        if self._held is not None:
            with suppress(SQLAlchemyError):
                self._held.execute(text("select 1"))
                self._held.commit()
                return True
            self.unlock()
        return self.lock()

    def unlock(self) -> None:
        """Give the lock back, at once and not when the server notices that the connection is closed."""
        if self._held is not None:
            with suppress(SQLAlchemyError), self._held:
                self._held.execute(text("select pg_advisory_unlock(:lock)"), {"lock": _LOCK})
            self._held = None


backends: dict[str, type[Backend]] = {kind.name: kind for kind in (Sqlite, Postgresql)}
"""Backends by the first word of a store's URL."""
