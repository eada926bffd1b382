"""Objects of a folder, or of what ``kubectl get -o json`` printed, in place of an API."""

from pathlib import Path
from typing import Any

from volvelle.incumbents.kueue.api import KINDS
from volvelle.incumbents.kueue.attach import kept
from volvelle.incumbents.kueue.read_site import Document, documents_at, settings_of


class Folder:
    """The objects of a folder or file, read again at each poll. Raises `Problem` where they cannot be."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def site(self) -> dict[str, Any]:
        """The name of the folder, and Kueue's Configuration where it is there."""
        settings = [dict(one) for d in self._documents() if (one := settings_of(d)) is not None]
        return {
            "cluster": {"name": self._path.stem},
            "configuration": [{"kind": "Configuration"} | one for one in settings],
        }

    def poll(self) -> dict[str, Any]:
        """The objects that decide, by kind."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for one in self._documents():
            if one.kind in KINDS:
                found[one.kind].append(kept(one.content, one.kind))
        return found

    def _documents(self) -> list[Document]:
        return documents_at(self._path)
