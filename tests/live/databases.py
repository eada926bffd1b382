"""Databases to try stores on: a file, and a throw-away PostgreSQL server where its programs are found."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_USERS = ("postgres", "nobody")
"""As whom a server runs where we are root, as which it refuses to."""


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server of our own, in ``folder``, on ``port`` of this machine."""

    folder: Path
    port: int
    user: str | None

    @classmethod
    def make(cls, folder: Path) -> "Server":
        """Make its files; skips the test where PostgreSQL is not installed."""
        if shutil.which("initdb") is None or shutil.which("postgres") is None:
            pytest.skip("no PostgreSQL here: there is no initdb or no postgres on the PATH")
        user = None
        if os.geteuid() == 0:
            known = [user for user in _USERS if _exists(user)]
            if not known:
                pytest.skip("PostgreSQL does not run as root, and there is nobody else")
            user = known[0]
            shutil.chown(folder, user)
        server = cls(folder, _free_port(), user)
        server._run("initdb", "-D", str(folder / "data"), "-U", "volvelle", "-A", "trust", "-N")
        return server

    @property
    def url(self) -> str:
        """Of its only database."""
        return f"postgresql://volvelle@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Let it run, and wait until it does."""
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", str(log), "-o", options, "start")

    def stop(self) -> None:
        """End it at once."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, *command: str) -> None:
        if self.user is None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
            return
        who = pwd.getpwnam(self.user)
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            user=who.pw_uid,
            group=who.pw_gid,
            extra_groups=[],
            env=os.environ | {"HOME": str(self.folder)},
        )


@contextmanager
def postgresql() -> Iterator[Server]:
    """A server at work, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="volvelle-pg-", dir="/tmp") as folder:
        server = Server.make(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
