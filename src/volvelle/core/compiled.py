"""The decorator of the compiled inner loops.

Machine code is cached next to the source or, where that folder cannot be written, in the user's cache
folder (Numba's own order of places; NUMBA_CACHE_DIR overrides it). Where no folder can be written at
all the loops still work and are compiled at every start. Every compiled loop has a plain twin that a
test compares it with: the undecorated function itself, reachable as ``loop.py_func``.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(loop: Callable[P, R]) -> Callable[P, R]:
    """``loop`` as machine code, compiled at its first call for each combination of types."""
    try:
        return cast(Callable[P, R], numba.njit(cache=True)(loop))
    except RuntimeError:  # Numba found no folder to cache in
        return cast(Callable[P, R], numba.njit(loop))
