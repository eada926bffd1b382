"""Packages that can be called: ``volvelle.simulate`` and ``volvelle.tune`` are rooms, and functions too."""

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A package that passes calls on to the function of its name, which is imported then."""

    @property
    def _function(self) -> Any:
        home, name = self.__dict__["_called"]
        return getattr(import_module(home), name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's result."""
        return self._function(*arguments, **named)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The function's text, and how it is called: ``help(volvelle.simulate)`` shows it."""
        called = f"{self.__dict__['_called'][1]}{inspect.signature(self._function)}"
        return f"{inspect.getdoc(self._function)}\n\n{called}"

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)


def make_callable(room: str, home: str, name: str) -> None:
    """Let the package ``room`` be called as ``name`` of the module ``home``."""
    module = sys.modules[room]
    module.__dict__["_called"] = (home, name)
    module.__class__ = CallableRoom
