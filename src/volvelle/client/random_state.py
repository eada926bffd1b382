"""States of the random number generators: Python's ``random``, NumPy's global generator, PyTorch.

Only of packages that the script has imported itself. The states are JSON values.
"""

import random
import sys
from importlib import import_module
from typing import Any


def capture() -> dict[str, Any]:
    """The states of all generators in use."""
    states: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = [name, keys.tolist(), *rest]
    if torch is not None:
        states["torch"] = _text(torch.get_rng_state())
        if torch.cuda.is_initialized():
            states["cuda"] = [_text(state) for state in torch.cuda.get_rng_state_all()]
    return states


def restore_states(states: dict[str, Any]) -> None:
    """Set all generators to captured ``states``."""
    if not states:
        return
    version, internal, gauss_next = states["python"]
    random.setstate((version, tuple(internal), gauss_next))
    if "numpy" in states:
        import_module("numpy").random.set_state(tuple(states["numpy"]))
    if "torch" in states:
        torch: Any = import_module("torch")
        torch.set_rng_state(_tensor(torch, states["torch"]))
        devices = states.get("cuda", ())
        if devices and torch.cuda.device_count() == len(devices):
            torch.cuda.set_rng_state_all([_tensor(torch, state) for state in devices])


def _text(state: Any) -> str:
    return bytes(state.tolist()).hex()


def _tensor(torch: Any, text: str) -> Any:
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)
