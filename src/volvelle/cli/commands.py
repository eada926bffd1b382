"""Which commands there are, each imported when it is wanted: ``volvelle queue`` is asked often."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_MODULES: dict[str, str] = {
    "simulate": "simulate:simulate",
    "compare": "compare:compare",
    "tune": "tune:tune",
    "report": "report:report",
    "dashboard": "dashboard:dashboard",
    "serve": "serve:serve",
    "agent": "agent:agent",
    "submit": "submit:submit",
    "queue": "jobs:queue",
    "why": "jobs:why",
    "cancel": "jobs:cancel",
    "hold": "jobs:hold",
    "release": "jobs:release",
    "logs": "jobs:logs",
    "history": "jobs:history",
    "journal": "journal:journal",
    "snapshot": "journal:snapshot",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "list": "listing:list_parts",
    "nodes": "nodes:app",
    "policy": "policy:app",
    "token": "tokens:app",
    "trace": "trace:app",
}
"""By name, in the order of the help: the module of this package, and the function or the group in it.

Commands that published systems bring come after these.
"""

_SETTINGS: Mapping[str, dict[str, Any]] = {"submit": {"allow_interspersed_args": False}}


class _Loaded(MutableMapping[str, Any]):
    """The commands by name; one is made when it is looked at."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            ours = _MODULES.get(name)
            self._made[name] = _made(name, f"volvelle.cli.{ours}" if ours else _brought()[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, *_brought()))

    def __len__(self) -> int:
        return len(_MODULES) + len(_brought())

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are those of this module")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are those of this module")


class Commands(TyperGroup):
    """All of them, as Typer wants them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded()


def _brought() -> dict[str, str]:
    """The commands that published systems bring; looked up only where one of these may be meant."""
    from volvelle.core.systems import modules_of

    return modules_of("commands")


def _made(name: str, where: str) -> Any:
    module, _, attribute = where.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, context_settings=_SETTINGS.get(name))(found)
    return typer.main.get_command(alone)
