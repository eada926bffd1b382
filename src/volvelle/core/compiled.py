"""Inner loops as plain Python functions and as machine code.

A **kernel** is an ordinary function that Numba understands: called as it is, it is interpreted. Machine code
is made of a kernel together with all kernels that it calls (`volvelle.core.machine_code`). `compiled` marks a
loop that runs as machine code where Python calls it with arrays; without machine code, and without Numba to
make it, it is interpreted. So is for a while one that is `compiled_later`, where no object file has it.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

from volvelle.core.machine_code.announcing import announce
from volvelle.core.machine_code.kernels import kernel

__all__ = ["announce", "compiled", "compiled_later", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")


class _Compiled(Generic[P, R]):
    """A loop that runs as machine code; its plain twin is ``py_func``."""

    def __init__(self, loop: Callable[P, R], *, later: bool = False) -> None:
        self._later = later
        self.py_func = kernel(loop)
        self._calls: Callable[..., R] | None = None
        update_wrapper(self, loop)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            names = self.py_func.__code__.co_varnames[len(args) :]
            args += tuple(kwargs[name] for name in names if name in kwargs)  # type: ignore[assignment]
        if self._calls is None:
            from volvelle.core.machine_code.arrays import Calls  # noqa: PLC0415 - loads llvmlite

            self._calls = Calls(self.py_func, later=self._later)
        return self._calls(*args)


def compiled(loop: Callable[P, R]) -> _Compiled[P, R]:
    """``loop``, which runs as machine code from its first call on; its plain twin is ``py_func``."""
    return _Compiled(loop)


def compiled_later(loop: Callable[P, R]) -> _Compiled[P, R]:
    """``loop`` likewise, but compiled only once interpreting it has cost as much as that would.

    No single call with few jobs may take long: its steps are few for each pair of jobs.
    """
    return _Compiled(loop, later=True)
