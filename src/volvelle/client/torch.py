"""What a PyTorch script keeps: the state dictionaries of its model, optimizer, schedule and the like."""

from pathlib import Path
from typing import Any

import torch


class TorchState:
    """``TorchState(model=model, optimizer=optimizer)``: whatever has a ``state_dict``, named as you like.

    A wrapped model (DistributedDataParallel, DataParallel) is saved as the model in it, so that a checkpoint
    fits any number of ranks.
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
        """Set all parts to what is at ``path``, tensors only. Raises KeyError where a part is not there."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
