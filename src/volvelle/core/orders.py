"""Keys of jobs: one function, read three ways.

An order is written once, as a function from jobs to a key (``jobs.remaining_seconds * jobs.gpus``). Where it
goes by each job alone it is asked for those jobs whose key is wanted: compiled, or interpreted with a
`OneJob` in place of all columns. Where it needs them together (a mean, a rank) it is asked at every decision
for all of them, as columns (`volvelle.core.view.JobView`).
"""

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import kernel
from volvelle.core.state import INFINITY, Floats, Ints, Jobs
from volvelle.core.view import JobView, Stored
from volvelle.model.problems import Problem

Key = Callable[[Any, float], Any]
"""From jobs, or one job, and now to keys, or one key."""


_DIGITS = 32
_SPLIT = 2.0 ** (53 - _DIGITS) + 1.0
_LARGE = 1e300


@kernel
def rounded(key: float) -> float:
    """``key`` to 32 binary digits: keys that round to the same are equal, so that submission decides.

    A sum of floats is right but for its last digits, which must not decide (decision 7). To round is
    transitive, as "differs by little" is not, so that orders can be kept. Whole numbers up to 2^32 stay
    as they are. Source: Dekker's splitting ("A floating-point technique for extending the available
    precision", 1971).
    """
    if abs(key) > _LARGE:
        return key
    scaled = key * _SPLIT
    return scaled - (scaled - key)


@kernel
def all_rounded(keys: NDArray[np.float64]) -> NDArray[np.float64]:
    """`rounded` of each key."""
    large = np.abs(keys) > _LARGE
    scaled = np.where(large, 0.0, keys) * _SPLIT
    found: NDArray[np.float64] = np.where(large, keys, scaled - (scaled - keys))
    return found


@kernel
def _running(jobs: Jobs, row: int, now: float) -> bool:
    return bool(jobs.held[row] > 0.0)


@kernel
def attained_seconds(jobs: Jobs, row: int, now: float) -> float:
    """Seconds with GPUs held so far."""
    held_for = max(now - jobs.started[row], 0.0) if jobs.held[row] > 0.0 else 0.0
    return float(held_for + jobs.attained[row])


@kernel
def attained_gpu_seconds(jobs: Jobs, row: int, now: float) -> float:
    """GPU-seconds held so far."""
    return float(max(now - jobs.started[row], 0.0) * jobs.held[row] + jobs.attained_gpu[row])


@kernel
def work_done(jobs: Jobs, row: int, now: float) -> float:
    """Units of work believed done."""
    return float(jobs.done[row] + max(now - jobs.progress_from[row], 0.0) * jobs.rate[row])


@kernel
def remaining_work(jobs: Jobs, row: int, now: float) -> float:
    """Units of work believed left, never negative."""
    return float(max(jobs.total[row] - work_done(jobs, row, now), 0.0) * jobs.scale[row])


@kernel
def _lasting(work: float, rate: float) -> float:
    """Seconds that ``work`` takes at ``rate``; infinite at a rate of 0."""
    return work / rate if rate > 0.0 else INFINITY


@kernel
def remaining_seconds(jobs: Jobs, row: int, now: float) -> float:
    """Seconds believed left on the GPUs the job requests (its most, where it is elastic)."""
    return _lasting(remaining_work(jobs, row, now), jobs.full_rate[row])


@kernel
def seconds_to_end(jobs: Jobs, row: int, now: float) -> float:
    """Seconds until the job is believed to end: on what it holds, or else on what it requests."""
    if jobs.held[row] > 0.0:
        restoring = max(jobs.progress_from[row] - now, 0.0)
        return float(restoring + _lasting(remaining_work(jobs, row, now), jobs.rate[row]))
    lasting = _lasting(remaining_work(jobs, row, now), jobs.request_rate[row])
    return float(jobs.start_gap[row] + lasting)


@kernel
def total_seconds(jobs: Jobs, row: int, now: float) -> float:
    """Seconds the whole job is believed to take on the GPUs it requests, uninterrupted."""
    return _lasting(jobs.total[row] * jobs.scale[row], jobs.full_rate[row])


_STORED = {name: one.column for name, one in vars(JobView).items() if isinstance(one, Stored)} | {
    "pool": "pool"
}
_WORKED_OUT = {
    "running": _running,
    "attained_seconds": attained_seconds,
    "attained_gpu_seconds": attained_gpu_seconds,
    "work_done": work_done,
    "remaining_work": remaining_work,
    "remaining_seconds": remaining_seconds,
    "seconds_to_end": seconds_to_end,
    "total_seconds": total_seconds,
}


class OneJob:
    """One job under the names that `JobView` has for columns."""

    __slots__ = ("_jobs", "_row", "now")

    def __init__(self, jobs: Jobs, row: int, now: float) -> None:
        self._jobs, self._row, self.now = jobs, row, now


class _AsArrays(OneJob):
    """The same with numbers that can be divided by zero, as those of columns."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return np.float64(value) if isinstance(value, float) else value


def _stored(column: str) -> property:
    return property(lambda job: getattr(job._jobs, column)[job._row])


def _worked_out(formula: Callable[..., float]) -> property:
    return property(lambda job: formula(job._jobs, job._row, job.now))


for _name, _column in _STORED.items():
    setattr(OneJob, _name, _stored(_column))
for _name, _formula in _WORKED_OUT.items():
    setattr(OneJob, _name, _worked_out(_formula))


def wrong_keys(
    key: Callable[..., Any], what: str, *, mend: str = "a key gives one number for each job"
) -> Problem:
    """The problem of a key that cannot be ordered by, with its place if it is written in Python."""
    code = getattr(function_of(key), "__code__", None)
    place = f"{code.co_filename}, line {code.co_firstlineno}, in {code.co_name}: " if code else ""
    return Problem(f"{place}{what}", mend=mend)


def numbers(key: Callable[..., Any], given: Any, whose: str) -> NDArray[np.float64]:
    """The keys that ``key`` has ``given``. Raises `Problem` where they are no numbers."""
    try:
        if given is not None:
            return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    kind = "None (is `return` missing?)" if given is None else f"type {np.asarray(given).dtype}"
    raise wrong_keys(key, f"{whose} gave keys of {kind}")


def interpreted_keys(key: Key) -> Callable[..., None]:
    """``key`` of several jobs one after the other, as the forward loop wants it."""

    @np.errstate(all="ignore")
    def keys(jobs: Jobs, rows: Ints, first: int, last: int, now: float, keys: Floats) -> None:
        for i in range(first, last):
            try:
                given = key(OneJob(jobs, rows[i], now), now)
            except ZeroDivisionError:  # in columns, and compiled, it is infinite
                given = key(_AsArrays(jobs, rows[i], now), np.float64(now))
            if not isinstance(given, (int, float, np.number)):
                given = float(numbers(key, given, "a key"))
            value = rounded(float(given))
            if value != value:  # noqa: PLR0124 - not a number
                number = int(jobs.number[rows[i]])
                raise wrong_keys(key, f"the key of job {number} is not a number")
            keys[i] = value

    return keys


def compilable_keys(key: Key) -> Callable[..., None]:
    """The same as a kernel; only what ``key`` names of a job is worked out.

    ``key`` may be bound to a policy, or a partial function: parameters become constants.
    """
    fixed = tuple(getattr(key, "keywords", {}).items())
    return _compilable_keys(function_of(key), getattr(key, "__self__", None), fixed)


def function_of(key: Callable[..., Any]) -> Any:
    """The function of a bound method or of a partial function; any other as it is."""
    return getattr(key, "__func__", getattr(key, "func", key))


@cache
def _compilable_keys(
    function: Any, policy: Any, fixed: tuple[tuple[str, Any], ...]
) -> Callable[..., None]:
    named = {*function.__code__.co_names} & {*_STORED, *_WORKED_OUT, "now"}
    wanted = sorted(named)
    worked_out = {
        name: f"jobs.{_STORED[name]}[row]" if name in _STORED else f"{name}_(jobs, row, now)"
        for name in wanted
    } | {"now": "now"}
    values = ", ".join(worked_out[name] for name in wanted)
    given = "parameters, " if policy is not None else ""
    last = "".join(f", parameters.{name}" for name, _ in fixed)
    source = [
        "def keys(jobs, rows, first, last, now, keys):",
        "    for i in range(first, last):",
        "        row = rows[i]",
        f"        keys[i] = rounded(key({given}Job({values}), now{last}))",
    ]
    names: dict[str, Any] = {
        f"{name}_": _WORKED_OUT[name] for name in wanted if name in _WORKED_OUT
    }
    names |= {
        "Job": namedtuple("Job", wanted),
        "key": kernel(function),
        "rounded": rounded,
        "__name__": function.__module__,
    }
    if policy is not None or fixed:
        fields = dict(fixed) or policy.model_dump()
        names["parameters"] = namedtuple("Parameters", fields)(**fields)
    exec(compile("\n".join(source), function.__code__.co_filename, "exec"), names)
    made: Any = kernel(names["keys"])
    made.__qualname__ = f"{function.__qualname__}.keys"
    made.__annotations__ = {
        "jobs": Jobs,
        "rows": Ints,
        "first": int,
        "last": int,
        "now": float,
        "keys": Floats,
        "return": None,
    }
    return made  # type: ignore[no-any-return]
