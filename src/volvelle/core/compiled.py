"""The decorator of the compiled inner loops.

Machine code is cached next to the source or, where that folder cannot be written, in the user's cache
folder (Numba's own order of places; NUMBA_CACHE_DIR overrides it). Where no folder can be written at
all the loops still work and are compiled at every start. Every compiled loop has a plain twin that a
test compares it with: the undecorated function itself, reachable as ``loop.py_func``.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

import volvelle

P = ParamSpec("P")
R = TypeVar("R")


def compiled(loop: Callable[P, R]) -> Callable[P, R]:
    """``loop`` as machine code, compiled at its first call for each combination of types."""
    try:
        machine_code = numba.njit(cache=True)(loop)
    except RuntimeError:  # Numba found no folder to cache in
        return cast(Callable[P, R], numba.njit(loop))
    _outdate_with_package(machine_code)
    return cast(Callable[P, R], machine_code)


def _outdate_with_package(machine_code: Any) -> None:
    """Let the cache of a loop be outdated by a change of any of our files.

    Numba looks only at the file in which the loop stands, but machine code of loops that it calls in
    other files is part of its own.
    """
    file: Any = getattr(getattr(machine_code, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _package_stamp())


@cache
def _package_stamp() -> tuple[float, int]:
    """When our sources were last changed, and their size in bytes."""
    stats = [path.stat() for path in Path(volvelle.__file__).parent.rglob("*.py")]
    return max(stat.st_mtime for stat in stats), sum(stat.st_size for stat in stats)
