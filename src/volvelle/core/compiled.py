"""Inner loops as plain Python functions and as machine code.

A **kernel** is an ordinary function that Numba understands: called as it is, it is interpreted.
`machine_code` compiles it together with all kernels that it calls; `compiled` marks a loop that is compiled
at its first call. Numba is imported then, not before: whoever calls no machine code does not load it.

Machine code is kept next to the source or, where that folder cannot be written, in the user's cache folder
(Numba's own order of places; NUMBA_CACHE_DIR overrides it). It is outdated by a change of the code of the
loop, of a kernel that it calls, of a number that they name or of a table they are given, not by a change of a
comment. Where it cannot be kept it is made at every start.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import update_wrapper
from glob import escape
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

from volvelle.core.machine_code.announcing import announce, begun, done
from volvelle.core.machine_code.kernels import kernel, kernels_called, stamp

__all__ = ["announce", "compiled", "kernel", "machine_code"]

P = ParamSpec("P")
R = TypeVar("R")

_STAMPED = 16
"""Letters of a stamp in the names of files. Two versions that run at once never write the same file."""

_machine_code: dict[tuple[Any, ...], Any] = {}
_compiling = threading.RLock()


class _Compiled(Generic[P, R]):
    """A loop that is compiled for each combination of types that it is called with."""

    def __init__(self, loop: Callable[P, R]) -> None:
        self.py_func = kernel(loop)
        self._made: Callable[P, R] | None = None
        update_wrapper(self, loop)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._made is None:
            self._made = machine_code(self.py_func, entry=True)
        return self._made(*args, **kwargs)


def compiled(loop: Callable[P, R]) -> _Compiled[P, R]:
    """``loop``, compiled at its first call; its plain twin is ``py_func``."""
    return _Compiled(loop)


def machine_code(loop: Callable[..., Any], signature: Any = None, *, entry: bool = False) -> Any:
    """``loop`` as a function of Numba, with all kernels that it calls.

    signature: Numba's type of it, where it is to be compiled at once. entry: it is called from Python.
    """
    key = loop, signature, entry
    if key not in _machine_code:
        with _compiling:
            if key not in _machine_code:
                _machine_code[key] = _made(loop, signature, entry or signature is not None)
    return _machine_code[key]


def _made(loop: Any, signature: Any, entry: bool) -> Any:
    import numba  # noqa: PLC0415 - heavy, and not always needed

    from volvelle.core.machine_code.loading import interrupted_later  # noqa: PLC0415 - as above

    names = {
        **loop.__globals__,
        **{name: machine_code(called) for name, called in kernels_called(loop)},
    }
    linked = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__, loop.__closure__)
    linked.__module__, linked.__qualname__ = loop.__module__, loop.__qualname__
    options: Any = {} if entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(**options)(linked)
    with suppress(RuntimeError):  # Numba found no folder to cache in
        made._cache = _cache_of(linked, "called" if entry else "inner", stamp(loop))
    if signature is not None:
        with interrupted_later():
            made.compile(signature)
        made.disable_compile()
    return made


def _cache_of(linked: FunctionType, use: str, of: str) -> Any:
    from numba.core.caching import FunctionCache, IndexDataCacheFile  # noqa: PLC0415

    from volvelle.core.machine_code.loading import interrupted_later  # noqa: PLC0415

    class Cache(FunctionCache):
        """Numba's cache of one loop, outdated by ``stamp`` instead of its file, and never in the way."""

        def __init__(self) -> None:
            super().__init__(linked)  # type: ignore[no-untyped-call]
            self._every = f"{linked.__module__}.{linked.__qualname__}.{use}"
            self._own = f"{self._every}.{of[:_STAMPED]}"
            self._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
                cache_path=self._cache_path, filename_base=self._own, source_stamp=of
            )

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """The machine code that is kept, if any; else it is announced that it is being made."""
            try:
                with interrupted_later():
                    found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except Exception:  # kept by a version whose types have other names, or damaged
                self.flush()  # type: ignore[no-untyped-call]
                found = None
            if found is None:
                begun()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            """Keep machine code, unless there is no room for it."""
            done()
            with suppress(OSError):
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
                for file in Path(self._cache_path).glob(f"{escape(self._every)}.*"):
                    if not file.name.startswith(f"{self._own}."):
                        file.unlink(missing_ok=True)

    return Cache()
