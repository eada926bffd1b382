"""The folder of a server: what is in it, and how those who sit beside it find server and token.

::

    token         the first operator's token; agents.token: theirs; readable by their owner only
    server.json   where the server listens, while it does
    store.db      the store, unless it is elsewhere
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from volvelle.model.problems import Problem

FOLDER = Path("volvelle-serve")
"""The folder unless told otherwise."""


def read_secret(path: Path) -> str:
    """What is kept in ``path``; empty where there is nothing or it is not ours to read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def keep_secret(path: Path, secret: str) -> None:
    """Write ``secret`` so that its owner alone can read it, at no moment anybody else."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
    partial.replace(path)


@dataclass(frozen=True)
class Announced:
    """Where a server listens. ``certificate``: by which it proves who it is, where it does."""

    url: str
    certificate: str | None = None


@dataclass(frozen=True)
class ServeFolder:
    """The folder at ``path``."""

    path: Path

    @classmethod
    def nearest(cls, start: Path) -> "ServeFolder | None":
        """The folder of that name in ``start`` or in a folder above, in which a server listens."""
        for folder in (start, *start.parents):
            found = cls(folder / FOLDER)
            if found._address.is_file():
                return found
        return None

    def prepare(self) -> None:
        """Make it, for its owner only. Raises `Problem` where it cannot be made or written."""
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
        """Where the first operator's token stands."""
        return self.path / "token"

    @property
    def agents_token_file(self) -> Path:
        """Where the token stands with which agents and controller prove themselves to each other."""
        return self.path / "agents.token"

    @property
    def _address(self) -> Path:
        return self.path / "server.json"

    def announce(self, announced: Announced) -> None:
        """Say where the server listens."""
        partial = self._address.with_name("server.json.partial")
        partial.write_text(json.dumps(announced.__dict__) + "\n", encoding="utf-8")
        partial.replace(self._address)

    def withdraw(self) -> None:
        """The server listens no more."""
        self._address.unlink(missing_ok=True)

    @property
    def announced(self) -> Announced:
        """Where the server listens. Raises `Problem` where that is not said."""
        try:
            return Announced(**json.loads(self._address.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise Problem(
                f"cannot read {self._address}", mend="start the server anew: volvelle serve"
            ) from None
