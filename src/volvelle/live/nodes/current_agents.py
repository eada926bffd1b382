"""The current agent of each node, by the identity of its folder, in files that outlive the controller."""

from pathlib import Path
from urllib.parse import quote

from volvelle.live.agent.files import write_file


class CurrentAgents:
    """Stored in ``folder``, one file for each node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_different(self, name: str, identity: str) -> bool:
        """Whether the last agent of node ``name`` had another identity. Raises OSError."""
        file = self._file(name)
        return file.exists() and file.read_text() != identity

    def record(self, name: str, identity: str) -> None:
        """Record ``identity`` as the agent of node ``name``. Raises OSError."""
        file = self._file(name)
        if not file.exists() or self.is_different(name, identity):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(file, identity.encode())

    def _file(self, name: str) -> Path:
        return self._folder / quote(name, safe="")
