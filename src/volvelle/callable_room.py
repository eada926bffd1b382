"""Packages that can be called: ``volvelle.simulate`` and ``volvelle.tune`` are rooms, and functions too."""

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom:
    """A package in its parent: it has the package's attributes, and is called as the function of its name.

    It is no module, so that ``help(volvelle.simulate)`` describes the function and not the package.
    """

    def __init__(self, room: ModuleType, home: str) -> None:
        self._room, self._home = room, home
        self.__name__ = room.__name__.rpartition(".")[2]
        self.__module__ = home

    @property
    def _function(self) -> Any:
        return getattr(import_module(self._home), self.__name__)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's result."""
        return self._function(*arguments, **named)

    def __get__(self, instance: object, owner: Any = None) -> "CallableRoom":
        """The same; to `inspect` it is a routine by this."""
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_room"], name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The function's text."""
        return inspect.getdoc(self._function)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)
