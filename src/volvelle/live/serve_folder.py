"""The folder of a server, where commands on the same machine find its address and token.

::

    token         the first operator's token
    agents.token  the token with which agents join; both files are readable by their owner only
    secrets.key   the key of jobs' secrets, unless it is elsewhere; not in the store nor in its backups
    server.json   the server's address, while it listens
    starting      the process of a server that does not listen yet
    store.db      the store, unless it is elsewhere
    clock         when the journal began, by the machine's clock since boot
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from volvelle.model.problems import Problem

DEFAULT_FOLDER = Path("volvelle-serve")
ATTACH_FOLDER = Path("volvelle-attach")
"""The default folder of a server that shows the cluster of another scheduler."""


def read_secret(path: Path) -> str:
    """The secret in ``path``; empty if there is none or it is not readable."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def write_secret(path: Path, secret: str) -> None:
    """Write ``secret`` so that at no moment anybody but its owner can read it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
    partial.replace(path)


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens. ``certificate``: its TLS certificate, if it has one."""

    url: str
    certificate: str | None = None


@dataclass(frozen=True)
class ServeFolder:
    """The folder at ``path``."""

    path: Path

    @classmethod
    def nearest(cls, start: Path, seconds: float = 0.0) -> "ServeFolder | None":
        """A default folder in ``start`` or a folder above it, if a server listens or starts there.

        A server that starts within ``seconds`` is waited for.
        """
        end = time.monotonic() + seconds
        while True:
            for folder in (start, *start.parents):
                if found := cls._in(folder):
                    return found
            if time.monotonic() >= end:
                return None
            time.sleep(0.05)

    @classmethod
    def at(cls, path: Path) -> "ServeFolder":
        """The folder at ``path``, or a default folder in it where only that is a server's."""
        own = cls(path)
        return own if own._is_used else cls._in(path) or own

    @classmethod
    def _in(cls, path: Path) -> "ServeFolder | None":
        found = (cls(path / name) for name in (DEFAULT_FOLDER, ATTACH_FOLDER))
        return next((folder for folder in found if folder._is_used), None)

    @property
    def _is_used(self) -> bool:
        return self.starts or self._address_file.is_file()

    @property
    def starts(self) -> bool:
        """Whether a server is on its way to listen."""
        try:
            os.kill(int(self._starting_file.read_text(encoding="utf-8")), 0)
        except PermissionError:
            return True
        except (OSError, ValueError):
            return False
        return True

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Say that this process is on its way to listen, until it does or the block ends."""
        self.prepare()
        write_secret(self._starting_file, str(os.getpid()))
        try:
            yield
        finally:
            self._starting_file.unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()  # if nothing came of it

    def wait_for_start(self, seconds: float) -> None:
        """Wait until a server that is on its way listens, or has failed."""
        end = time.monotonic() + seconds
        while self.starts and time.monotonic() < end:
            time.sleep(0.05)

    def wait_for_another(self, address: ServerAddress, seconds: float) -> None:
        """Wait until a server is on its way to listen, or listens elsewhere, or the time is over."""
        end = time.monotonic() + seconds
        while not self.starts and self.read_address() == address and time.monotonic() < end:
            time.sleep(0.05)

    def prepare(self) -> None:
        """Create it, for its owner only. Raises `Problem` if it cannot be created or written."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Problem(
                f"cannot make the folder {self.path}: {str(error.strerror).lower()}",
                mend="say --folder with one that you may write to",
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise Problem(
                f"the folder {self.path} may not be written to",
                mend="say --folder with another one",
            )

    @property
    def token_file(self) -> Path:
        """File of the first operator's token."""
        return self.path / "token"

    @property
    def agents_token_file(self) -> Path:
        """File of the token with which agents join; the server makes the keys of its own agents of it."""
        return self.path / "agents.token"

    @property
    def clock_file(self) -> Path:
        """File of the journal's beginning by the machine's clock since boot."""
        return self.path / "clock"

    @property
    def _address_file(self) -> Path:
        return self.path / "server.json"

    @property
    def _starting_file(self) -> Path:
        return self.path / "starting"

    def write_address(self, address: ServerAddress) -> None:
        """Publish where the server listens."""
        partial = self._address_file.with_name("server.json.partial")
        partial.write_text(json.dumps(address.__dict__) + "\n", encoding="utf-8")
        partial.replace(self._address_file)
        self._starting_file.unlink(missing_ok=True)

    def remove_address(self) -> None:
        """The server no longer listens."""
        self._address_file.unlink(missing_ok=True)

    def read_address(self) -> ServerAddress:
        """Where the server listens. Raises `Problem` if it does not yet, or that cannot be read."""
        try:
            return ServerAddress(**json.loads(self._address_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise Problem(
                f"the server of {self.path} is starting or not running",
                mend="try again in a moment; if none was started: volvelle serve",
            ) from None
        except (OSError, ValueError, TypeError):
            raise Problem(
                f"cannot read {self._address_file}", mend="start the server anew: volvelle serve"
            ) from None
