"""State of a PyTorch script: the state dictionaries of its model, optimizer, schedule and the like."""

from pathlib import Path
from typing import Any

import torch


class TorchState:
    """``TorchState(model=model, optimizer=optimizer)``: any objects with a ``state_dict``, under any names.

    A wrapped model (DistributedDataParallel, DataParallel) is saved unwrapped, so that a checkpoint fits any
    number of ranks.
    """

    def __init__(self, **parts: Any) -> None:
        wrappers = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
        self._parts = {
            name: part.module if isinstance(part, wrappers) else part
            for name, part in parts.items()
        }

    def save(self, path: Path) -> None:
        """Write all parts to the file ``path``."""
        torch.save({name: part.state_dict() for name, part in self._parts.items()}, path)

    def load(self, path: Path) -> None:
        """Load all parts from ``path``, tensors only. Raises KeyError if a part is missing."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
