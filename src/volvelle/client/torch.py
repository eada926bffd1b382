"""For PyTorch scripts: a state of state dictionaries, gradients and loaders for rules of batch sizes."""

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


def squared_gradient_norm(model: torch.nn.Module) -> float:
    """The squared norm of the gradient that ``model`` holds, of all its parameters together."""
    squares = [(one.grad.detach() ** 2).sum() for one in model.parameters() if one.grad is not None]
    return float(torch.stack(squares).sum()) if squares else 0.0


def set_batch_size(loader: torch.utils.data.DataLoader[Any], batch_size: int) -> None:
    """Let ``loader`` make batches of this size from the next epoch on. Raises ValueError if it makes none."""
    sampler: Any = loader.batch_sampler
    if sampler is None:
        raise ValueError("the loader makes no batches: give it a batch_size, not None")
    sampler.batch_size = batch_size
