"""Volvelle: a scheduler for GPU clusters that train models. It simulates, predicts, tunes and runs.

In a script or a notebook, ``import volvelle as vv``: `read`, `generate`, `Cluster`, `simulate`, `compare`,
`tune` and `connect` do what the commands of these names do, `policy` is for policies of one's own, a wrong
input is a `Problem`. They are imported when they are first used.
"""

import sys
from importlib import import_module
from types import ModuleType
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
_ROOMS = {"simulate": "volvelle.notebook.runs", "tune": "volvelle.notebook.search"}
"""Packages that can be called, as the functions of their names in these modules."""


class _Volvelle(ModuleType):
    """The package: an import sets its packages as attributes, of which some can be called."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ROOMS and isinstance(value, ModuleType):
            from volvelle.callable_room import CallableRoom  # noqa: PLC0415 - with the first of them

            value = CallableRoom(value, _ROOMS[name])
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Volvelle


def __getattr__(name: str) -> Any:
    if name in (*_ROOMS, "policy"):
        import_module(f"volvelle.{name}")
        return globals()[name]
    if name not in _OFFERED:
        said = import_module("volvelle.model.problems").nearest(name, __dir__())
        raise AttributeError(f"module 'volvelle' has no attribute {name!r}{said}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted({*_OFFERED, *_ROOMS, "__doc__", "__version__", "policy"})
