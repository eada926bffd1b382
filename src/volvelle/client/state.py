"""State that a script keeps from one attempt to the next."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol


class Restorable(Protocol):
    """A state that can load itself."""

    def load(self, path: Path) -> object:
        """Load what was saved at ``path``."""
        ...


class State(SimpleNamespace):
    """Attributes kept as JSON: ``State(weight=0.0, seen=[])``."""

    def save(self, path: Path) -> None:
        """Write all attributes to ``path``."""
        path.write_text(json.dumps(vars(self)), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Set all attributes that are at ``path``."""
        vars(self).update(json.loads(path.read_text(encoding="utf-8")))
