"""Who spoke last for each node: identities of agents' folders, in files that outlive the controller."""

from pathlib import Path
from urllib.parse import quote

from volvelle.live.agent.folders import write


class Speakers:
    """Kept in ``folder``, a file a node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def another(self, name: str, identity: str) -> bool:
        """Whether somebody else than ``identity`` spoke last for a node. Raises OSError."""
        file = self._file(name)
        return file.exists() and file.read_text() != identity

    def note(self, name: str, identity: str) -> None:
        """``identity`` speaks for a node from now on. Raises OSError."""
        file = self._file(name)
        if not file.exists() or self.another(name, identity):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(file, identity.encode())

    def _file(self, name: str) -> Path:
        return self._folder / quote(name, safe="")
