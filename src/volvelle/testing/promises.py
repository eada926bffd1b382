"""Promises that parts of one kind make by being registered, and how they are checked."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hypothesis import HealthCheck, given, note, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DataObject, SearchStrategy

P = TypeVar("P")
Check = Callable[[str], None]
"""Called with a part as it is written."""

_DRAWN: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
"""Values of checks that have passed, by check, number and strategies: drawing takes a third of a check."""


@dataclass(frozen=True)
class Promise(Generic[P]):
    """One promise.

    check: raises AssertionError where a part breaks it. made_by: whether a part makes it.
    """

    check: Check
    made_by: Callable[[P], bool]

    def __str__(self) -> str:
        return self.check.__name__


class Promises(Generic[P]):
    """The promises that all parts of a kind make, in order of definition. make: makes a part as written."""

    def __init__(self, make: Callable[[str], P]) -> None:
        self._make = make
        self._all: list[Promise[P]] = []

    def promise(self, made_by: Callable[[P], bool] = lambda part: True) -> Callable[[Check], Check]:
        """Define a promise by its check; a decorator. ``made_by``: which parts make it (all of the kind)."""

        def define(check: Check) -> Check:
            self._all.append(Promise(check, made_by))
            return check

        return define

    def of(self, written: str) -> list[Promise[P]]:
        """The promises that a part makes, which is written as for the command line."""
        part = self._make(written)
        return [promise for promise in self._all if promise.made_by(part)]

    def check(self, written: str) -> None:
        """Check all promises that a part makes.

        written: as for the command line: a name, or the path of a file, with parameters. Raises
        AssertionError where a promise is broken, with the smallest scenario found, and `Problem` where there
        is no such part.
        """
        for promise in self.of(written):
            promise.check(written)


def on_random(examples: int, check: Callable[..., None], **drawn: SearchStrategy[Any]) -> None:
    """Call ``check`` with values ``drawn`` by name, as often as ``examples`` says.

    Every run draws the same, and once for all parts. A failure is the smallest that was found.
    """
    name = check.__qualname__.split(".", 1)[0]
    key = (name, examples, repr(drawn))
    failure: Exception | None = None
    if key in _DRAWN:
        try:
            for values in _DRAWN[key]:
                with suppress(UnsatisfiedAssumption):
                    check(**values)
        except Exception as error:
            failure = error
        else:
            return
    calls: list[dict[str, Any]] = []

    def noted(**values: Any) -> None:
        calls.append(values)
        for name, value in values.items():
            note(f"{name} = {value!r}")
        check(**values)

    noted.__name__ = name  # draws differ by it
    stable = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    stable(given(**drawn)(noted))()
    if failure is not None:
        raise failure
    if not any(isinstance(value, DataObject) for values in calls for value in values.values()):
        _DRAWN[key] = calls
