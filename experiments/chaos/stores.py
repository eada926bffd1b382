"""Stores that can be stopped: another program locks the file, the database server dies."""

import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from fault_proxy import InjectedFault

sys.path.append(str(Path(__file__).parents[2] / "tests" / "live"))


class StoppableStore(Protocol):
    """A store that can be stopped. ``url``: for ``volvelle serve``."""

    url: str

    def stop(self, seconds: float) -> InjectedFault:
        """Stop it for about so long; the injected fault."""
        ...

    def close(self) -> None:
        """Remove the store."""
        ...


class LockedFile:
    """SQLite."""

    def __init__(self, path: Path) -> None:
        self.url, self._path = f"sqlite:///{path}", path

    def stop(self, seconds: float) -> InjectedFault:
        """Hold the lock for writing, as a program does that backs the file up and hangs."""
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{self._path}?mode=rw", uri=True)) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            return "store locked by another program"
        return None

    def close(self) -> None:
        """Nothing to do: the disk of the file is removed."""


class PostgresqlServer:
    """PostgreSQL, in a folder of its own. Raises LookupError where it is not installed."""

    def __init__(self) -> None:
        import pytest  # noqa: PLC0415 - the tests' server skips tests
        from databases import Server  # noqa: PLC0415 - as above

        self._folder = Path(tempfile.mkdtemp(prefix="volvelle-chaos-pg-"))
        try:
            self._server = Server.make(self._folder)
        except pytest.skip.Exception as skipped:
            shutil.rmtree(self._folder)
            raise LookupError(str(skipped)) from None
        self._server.start()
        self.url = self._server.url

    def stop(self, seconds: float) -> InjectedFault:
        """Stop the server at once, as in a power cut, and start it again later."""
        self._server.stop()
        time.sleep(seconds)
        self._server.start()
        return "store's server died"

    def close(self) -> None:
        """Stop the server and remove its data."""
        self._server.stop()
        shutil.rmtree(self._folder)
