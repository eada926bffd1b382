"""Stores that can be stopped and set back: another program locks the file, the database server dies."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from fault_proxy import InjectedFault
from sqlalchemy import select

from volvelle.live.store.backup import back_up, restore
from volvelle.live.store.database import backend_of
from volvelle.live.store.schema import jobs

_WAYS = "backup restored", "disk put back as it was", "end of the log lost"
_LOG_HEAD, _FRAME_HEAD = 32, 24
_COPIED_FRAMES = 1000
"""So many frames of its log SQLite copies to the database, and begins the log again."""

sys.path.append(str(Path(__file__).parents[2] / "tests" / "live"))


class StoppableStore(Protocol):
    """A store that can be stopped and set back. ``url``: for ``volvelle serve``."""

    url: str

    def stop(self, seconds: float) -> InjectedFault:
        """Stop it for about so long; the injected fault."""
        ...

    def keep(self) -> None:
        """Keep it as it is, while no server writes to it."""
        ...

    def put_back(self) -> InjectedFault:
        """Set it back, while no server writes to it; how."""
        ...

    def taken_away(self) -> AbstractContextManager[bool]:
        """Its files are not there in the block, whoever writes to them; whether it has any."""
        ...

    def jobs(self) -> set[int]:
        """The numbers of the jobs in it, while no server writes to it."""
        ...

    def close(self) -> None:
        """Remove the store."""
        ...


class LockedFile:
    """SQLite."""

    def __init__(self, path: Path, kept: Path, rng: random.Random) -> None:
        self.url, self._path = f"sqlite:///{path}", path
        self._kept, self._rng = kept, rng
        self._way = ""

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

    def keep(self) -> None:
        """A backup, or a copy of the files; nothing if the end of the log is to be lost."""
        self._way = self._rng.choice(_WAYS)
        self._kept.mkdir(exist_ok=True)
        for file in self._kept.iterdir():
            file.unlink()
        if self._way == "backup restored":
            back_up(self.url, self._kept / self._path.name)
        elif self._way == "disk put back as it was":
            for file in self._path.parent.glob(f"{self._path.name}*"):
                shutil.copy2(file, self._kept)

    def put_back(self) -> InjectedFault:
        """By the way for which it was kept."""
        if self._way == "backup restored":
            restore(self._kept / self._path.name, self.url)
        elif self._way == "disk put back as it was":
            for file in self._path.parent.glob(f"{self._path.name}*"):
                file.unlink()
            for file in self._kept.iterdir():
                shutil.copy2(file, self._path.parent)
        else:
            _lose_end(self._path.with_name(f"{self._path.name}-wal"), self._rng)
        return f"store set back: {self._way}"

    @contextmanager
    def taken_away(self) -> Iterator[bool]:
        """By renaming them."""
        files = list(self._path.parent.glob(f"{self._path.name}*"))
        for file in files:
            file.rename(file.with_name(f"away-{file.name}"))
        yield True
        for file in files:
            file.with_name(f"away-{file.name}").rename(file)

    def jobs(self) -> set[int]:
        """From its table."""
        return _jobs(self.url)

    def close(self) -> None:
        """Nothing to do: the disk of the file is removed."""


def _lose_end(log: Path, rng: random.Random) -> None:
    """Cut a write-ahead log within what SQLite has not copied to the database yet."""
    content = log.read_bytes() if log.exists() else b""
    frame_bytes = _FRAME_HEAD + int.from_bytes(content[8:12])
    salt, frames = content[16:24], 0
    while content[(at := _LOG_HEAD + frames * frame_bytes) + 8 : at + 16] == salt and salt:
        frames += 1
    if frames < _COPIED_FRAMES:  # those that were copied are lost with the disk only
        os.truncate(log, _LOG_HEAD + rng.randrange(frames // 2, frames) * frame_bytes)


def _jobs(url: str) -> set[int]:
    engine = backend_of(url).engine()
    with engine.connect() as connection:
        numbers = set(connection.scalars(select(jobs.c.number)))
    engine.dispose()
    return numbers


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

    def keep(self) -> None:
        """A copy of its files, as of a disk."""
        self._copy("data", "kept")

    def put_back(self) -> InjectedFault:
        """Put the copy in place."""
        self._copy("kept", "data")
        return "store set back: disk put back as it was"

    def taken_away(self) -> AbstractContextManager[bool]:
        """Not done: it has a server of its own."""
        return nullcontext(False)

    def _copy(self, source: str, target: str) -> None:
        self._server.stop()
        shutil.rmtree(self._folder / target, ignore_errors=True)
        words = ("cp", "-a", str(self._folder / source), str(self._folder / target))
        subprocess.run(words, check=True)
        self._server.start()

    def jobs(self) -> set[int]:
        """From its table."""
        return _jobs(self.url)

    def close(self) -> None:
        """Stop the server and remove its data."""
        self._server.stop()
        shutil.rmtree(self._folder)
