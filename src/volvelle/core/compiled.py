"""The decorator of the compiled inner loops.

Machine code is cached next to the source or, where that folder cannot be written, in the user's cache
folder (Numba's own order of places; NUMBA_CACHE_DIR overrides it). Where it cannot be kept the loops still
work and are compiled at every start. Every compiled loop has a plain twin that a test compares it with:
the undecorated function itself, reachable as ``loop.py_func``.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

import volvelle

P = ParamSpec("P")
R = TypeVar("R")


def compiled(loop: Callable[P, R]) -> Callable[P, R]:
    """``loop`` as machine code, compiled at its first call for each combination of types."""
    machine_code: Any = numba.njit(loop)
    with suppress(RuntimeError):  # Numba found no folder to cache in
        machine_code._cache = _PackageCache(loop)
    return cast(Callable[P, R], machine_code)


class _PackageCache(FunctionCache):
    """Numba's cache of one loop, outdated by a change of any file with loops, and never in the way.

    Numba looks only at the file in which the loop stands, but machine code of loops that it calls in
    other files is part of its own.
    """

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__(loop)  # type: ignore[no-untyped-call]
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _package_stamp())

    def save_overload(self, signature: Any, machine_code: Any) -> None:
        """Keep machine code, unless there is no room for it."""
        with suppress(OSError):
            super().save_overload(signature, machine_code)  # type: ignore[no-untyped-call]


@cache
def _package_stamp() -> str:
    """A digest of all our files with compiled loops."""
    digest = hashlib.sha256()
    for path in sorted(Path(volvelle.__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(source)
    return digest.hexdigest()
