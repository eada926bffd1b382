"""The last resort against solvers that take too long: the clock, on live schedulers only.

Solvers have limits of work, so that what is decided does not depend on how busy the machine is
(`volvelle.plan.programs`). A live scheduler cannot wait for as long as a machine may take for that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LATEST = 3.0
"""Seconds on the clock for a second of work."""


@dataclass
class SolverClock:
    """How many programs the clock has ended."""

    ended: int = 0


_present: ContextVar[SolverClock | None] = ContextVar("solver_clock", default=None)


@contextmanager
def on_the_clock() -> Iterator[SolverClock]:
    """Programs that are solved in this context end after `LATEST` times their limit of work."""
    clock = SolverClock()
    token = _present.set(clock)
    try:
        yield clock
    finally:
        _present.reset(token)


def present_clock() -> SolverClock | None:
    """The clock of this context; None where solvers take the time that they take."""
    return _present.get()
