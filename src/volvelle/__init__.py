"""Volvelle: a scheduler for GPU clusters that train models. It simulates, predicts, tunes and runs.

In a script or a notebook, ``import volvelle as vv``: `read`, `generate`, `Cluster`, `simulate`, `compare`,
`tune` and `connect` do what the commands of these names do, `policy` is for policies of one's own, a wrong
input is a `Problem`. They are imported when they are first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_OFFERED = {
    "Cluster": "volvelle.model.cluster",
    "Problem": "volvelle.model.problems",
    "compare": "volvelle.notebook.runs",
    "connect": "volvelle.notebook.server",
    "generate": "volvelle.notebook.jobs",
    "read": "volvelle.notebook.jobs",
}
_ROOMS = ("simulate", "tune")
"""Packages that can be called, as the functions of their names."""


def __getattr__(name: str) -> Any:
    if name in (*_ROOMS, "policy"):
        return import_module(f"volvelle.{name}")
    if name not in _OFFERED:
        said = import_module("volvelle.model.problems").nearest(name, __dir__())
        raise AttributeError(f"module 'volvelle' has no attribute {name!r}{said}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted({*_OFFERED, *_ROOMS, "__doc__", "__version__", "policy"})
