"""The parts of published systems and of sites' schedulers, found in two packages: no module is known by name.

A system's package says in ``PARTS`` which module holds each thing that it brings, by kind and name. Kinds are
registries (``policies``, ``placements``, ``estimators``, ``generators``, ``formats``), ``switchers``
(what steers a scheduler while it runs), ``commands`` of the command line, ``imports`` of sites, and
schedulers to attach to (``attached``; their commands: ``attaches``). A thing that no registry knows is the
function or class that is named behind a colon, ``module:attribute``.
"""

import importlib
import pkgutil
from typing import Any

from volvelle.model.problems import Problem

_PACKAGES = ("volvelle.systems", "volvelle.incumbents")


def modules_of(kind: str) -> dict[str, str]:
    """The modules, as they are imported, of all that systems bring of ``kind``, by name."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            systems = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        for system in pkgutil.iter_modules(systems.__path__, f"{package}."):
            brought = importlib.import_module(system.name).PARTS.get(kind, {})
            found |= {name: f"{system.name}.{module}" for name, module in brought.items()}
    return found


def brought(kind: str, name: str) -> Any:
    """The function or class that a system brings. Raises `Problem` where none does."""
    where = modules_of(kind).get(name)
    if where is None:
        raise Problem(f"no system is installed that brings {name!r} among the {kind}")
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)
