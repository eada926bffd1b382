"""Facts of a key: what of the jobs it reads, and how it goes while they run."""

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from volvelle.core.orders import Key, OneJob, function_of
from volvelle.core.state import Jobs, State
from volvelle.core.view import JobView


@np.errstate(all="ignore")
def goes_by_each_job(key: Key) -> bool:
    """Whether ``key`` says the same of a job alone as among others: tried out on some."""
    s, now = _sample(), 1000.0
    try:
        together = np.asarray(key(JobView(s, now), now), dtype=np.float64)
        alone = [float(key(OneJob(s.jobs, row, now), now)) for row in range(_SAMPLE)]
    except Exception:  # whatever it does with columns cannot be done with a job
        return False
    return together.shape == (_SAMPLE,) and np.array_equal(together, alone, equal_nan=True)


def goes_by_time(key: Key) -> bool:
    """Whether ``key`` looks at the clock, so that keys of jobs that wait do not stand still."""
    return _reads_the_clock(function_of(key), hasattr(key, "__self__"))


@cache
def _reads_the_clock(function: Any, bound: bool) -> bool:
    clock = list(inspect.signature(function).parameters)[2 if bound else 1]
    return any(
        (step.opname.startswith("LOAD_FAST") and clock in str(step.argval))
        or (step.opname in ("LOAD_ATTR", "LOAD_DEREF") and step.argval in ("now", clock))
        for step in dis.get_instructions(function)
    )


_COME_WITH = {
    *("number", "submit_time", "gpus", "min_gpus", "max_gpus"),
    *("weight", "priority", "deadline", "total_seconds"),
}


def stands_still(key: Key) -> bool:
    """Whether ``key`` reads only what jobs come with and constants: no decision changes it."""
    function = function_of(key)
    named = function.__globals__
    return not goes_by_time(key) and all(
        name in _COME_WITH or isinstance(named.get(name), (int, float))
        for name in function.__code__.co_names
    )


_BY_DURATIONS = {
    "work_done",
    "remaining_work",
    "remaining_seconds",
    "seconds_to_end",
    "total_seconds",
}
_BY_ANYTHING = {"column", "matrix", "getattr"}
"""Names under which any column may be read."""


def goes_by_durations(key: Callable[..., Any]) -> bool:
    """Whether ``key``, or a function that it calls by name, reads how long jobs are believed to take."""
    found, functions = set[str](), [function_of(key)]
    for function in functions:
        parts = [function.__code__]
        for code in parts:
            found.update(code.co_names)
            parts += [part for part in code.co_consts if isinstance(part, CodeType)]
        named = [function.__globals__.get(name) for code in parts for name in code.co_names]
        within = [cell.cell_contents for cell in function.__closure__ or ()]
        called = [one for one in named + within if isinstance(one, FunctionType)]
        functions += [one for one in called if one not in functions]
    return not found.isdisjoint(_BY_DURATIONS | _BY_ANYTHING)


@dataclass(frozen=True, eq=False)
class _Trend:
    """Facts of a number while its job runs and time passes: the ways it may go, its sign."""

    rises: bool = False
    falls: bool = False
    negative: bool = False

    @staticmethod
    def of(value: Any) -> "_Trend":
        """Of another, or of a number, which stays as it is."""
        if isinstance(value, _Trend):
            return value
        return _Trend(negative=not float(value) >= 0.0)

    def __add__(self, other: Any) -> "_Trend":
        other = _Trend.of(other)
        return _Trend(
            self.rises or other.rises, self.falls or other.falls, self.negative or other.negative
        )

    def __neg__(self) -> "_Trend":
        return _Trend(self.falls, self.rises, negative=True)

    def __sub__(self, other: Any) -> "_Trend":
        return self + -_Trend.of(other)

    def __rsub__(self, other: Any) -> "_Trend":
        lifted: _Trend = _Trend.of(other)
        return lifted - self

    def __mul__(self, other: Any) -> "_Trend":
        by = _Trend.of(other)
        if not (self.negative or by.negative):
            return self + by
        moves = self.rises or self.falls or by.rises or by.falls
        return _Trend(moves, moves, negative=True)

    def __truediv__(self, other: Any) -> "_Trend":
        by = _Trend.of(other)
        return self * _Trend(by.falls, by.rises, by.negative)

    def __rtruediv__(self, other: Any) -> "_Trend":
        return _Trend.of(other) / self

    def __bool__(self) -> bool:
        raise TypeError("it depends on the job")

    def __eq__(self, other: object) -> bool:
        raise TypeError("it depends on the job")

    __hash__ = object.__hash__
    __radd__, __rmul__ = __add__, __mul__


_TRENDS = {
    **dict.fromkeys(("submit_time", "pool", "deadline", "priority"), _Trend(negative=True)),
    **dict.fromkeys(("number", "gpus", "min_gpus", "max_gpus", "held", "weight"), _Trend()),
    **dict.fromkeys(("preemptions", "total_seconds"), _Trend()),
    **dict.fromkeys(("attained_seconds", "attained_gpu_seconds", "work_done"), _Trend(rises=True)),
    **dict.fromkeys(("remaining_work", "remaining_seconds", "seconds_to_end"), _Trend(falls=True)),
}


def never_rises(key: Key) -> bool:
    """Whether the key of a job that runs is known never to rise, from what it adds, multiplies, divides."""
    now: Any = _Trend(rises=True, negative=True)
    try:
        return not _Trend.of(key(SimpleNamespace(**_TRENDS, now=now), now)).rises
    except Exception:  # it does something else, of which nothing is known
        return False


_SAMPLE = 4


@cache
def _sample() -> State:
    """A few jobs, unlike each other in every respect."""
    from volvelle.core.forward.jobs import hold, join, take_row  # noqa: PLC0415 - it needs views
    from volvelle.core.state import Rules  # noqa: PLC0415

    s, rules = State(), Rules(decides=-1)
    s.types.grow(1)
    s.jobs.slot[:] = [-1] * len(s.jobs)
    for row in range(_SAMPLE):
        take_row(s)
        for place, column in enumerate(Jobs.float_columns):
            getattr(s.jobs, column)[row] = float(1 + row + (place * 7 + row * row) % 11)
        s.jobs.held[row] = 0.0
        s.jobs.pool[row], s.jobs.type[row] = -1.0, -1.0
        join(s, rules, row, 0.0)
        if row % 2:
            hold(s, row, 1.0 + row, 0.0)
    return s
