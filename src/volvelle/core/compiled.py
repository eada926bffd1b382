"""Inner loops as plain Python functions and as machine code.

A **kernel** is an ordinary function that Numba understands: called as it is, it is interpreted.
`machine_code` compiles it together with all kernels that it calls; `compiled` marks a loop that is compiled
at its first call. Numba is imported then, not before: whoever calls no machine code does not load it.

Machine code is kept next to the source or, where that folder cannot be written, in the user's cache folder
(Numba's own order of places; NUMBA_CACHE_DIR overrides it). It is outdated by a change of the code of the
loop, of a kernel that it calls, of a number that they name or of a table they are given, not by a change of a
comment. Where it cannot be kept it is made at every start.
"""

import dis
import hashlib
import marshal
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import update_wrapper
from glob import escape
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_STAMPED = 16
"""Letters of a stamp in the names of files. Two versions that run at once never write the same file."""

_LONG_SECONDS = 1.0
"""Of compiling, after which it is announced."""

TYPES: dict[Any, Any] = {}
"""Numba's types of what stands in annotations of kernels (`volvelle.core.machine` knows them)."""

_kernels: set[Any] = set()
_machine_code: dict[tuple[Any, ...], Any] = {}
_compiling = threading.RLock()


def kernel(loop: F) -> F:
    """Mark ``loop`` as one that others may call from machine code; it is returned as it is."""
    _kernels.add(loop)
    return loop


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


class _Announcement:
    """Says once that loops are being compiled, as soon as that has taken more than a second."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._said = False
        self._seconds = 0.0
        self._since: list[float] = []

    def begun(self) -> None:
        """A loop is about to be compiled, perhaps as a part of another."""
        self._since.append(time.monotonic())
        if not self._said and self._seconds + time.monotonic() - self._since[0] > _LONG_SECONDS:
            self._said = True
            self._say()

    def done(self) -> None:
        """One of those that were begun is compiled."""
        since = self._since.pop()
        if not self._since:
            self._seconds += time.monotonic() - since


_announcement = _Announcement(lambda: None)


def announce(say: Callable[[], None]) -> None:
    """Let ``say`` be called once, as soon as compiling has taken more than a second in this process."""
    global _announcement  # noqa: PLW0603 - who is at the screen is known to the command line alone
    _announcement = _Announcement(say)


def machine_code(loop: Callable[..., Any], signature: Any = None, *, entry: bool = False) -> Any:
    """``loop`` as a function of Numba, with all kernels that it calls.

    signature: Numba's type of it, where it is to be compiled at once, as it is too where its annotations say
    it. entry: it is called from Python.
    """
    key = loop, signature, entry
    if key not in _machine_code:
        with _compiling:
            if key not in _machine_code:
                _machine_code[key] = _made(
                    loop, signature or _annotated(loop), entry or signature is not None
                )
    return _machine_code[key]


def _annotated(loop: Any) -> Any:
    """The signature in a loop's annotations, where all of them have a type of Numba's."""
    if not loop.__annotations__:
        return None
    *given, returned = loop.__annotations__.values()
    if any(each not in TYPES for each in given) or returned not in TYPES or not given:
        return None
    return TYPES[returned](*(TYPES[each] for each in given))


def _made(loop: Any, signature: Any, entry: bool) -> Any:
    import numba  # noqa: PLC0415 - heavy, and not always needed

    names = {**loop.__globals__, **{name: machine_code(called) for name, called in _called(loop)}}
    linked = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__, loop.__closure__)
    linked.__module__, linked.__qualname__ = loop.__module__, loop.__qualname__
    options: Any = {} if entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(**options)(linked)
    with suppress(RuntimeError):  # Numba found no folder to cache in
        made._cache = _cache_of(linked, "called" if entry else "inner", _stamp(loop))
    if signature is not None:
        with _interrupted_later():
            made.compile(signature)
        made.disable_compile()
    return made


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Within, Ctrl-C is kept for afterwards: in the middle of LLVM's callbacks it would be lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(*came[0])


def _plain(value: Any) -> Any:
    return value.py_func if isinstance(value, _Compiled) else value


def _called(loop: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The kernels that ``loop`` names, by the names it has for them."""
    for name in sorted(set(_names(loop.__code__))):
        value = _plain(loop.__globals__.get(name))
        if isinstance(value, FunctionType) and value in _kernels:
            yield name, value


def names_in(loop: Callable[..., Any]) -> set[str]:
    """The global names in ``loop`` and in all kernels that it calls."""
    names = set(_names(loop.__code__))
    return names.union(*(names_in(called) for _, called in _called(loop) if called is not loop))


def _names(code: CodeType) -> Iterator[str]:
    """The global names in ``code``."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _stamp(loop: Any) -> str:
    """A digest of the code of ``loop``, of the kernels it calls, and of the numbers they name.

    And of where in what they are given things stand: ``layout`` of a class that annotates it, or its fields.
    """
    digest = hashlib.sha256()
    pending, seen = [loop], {loop}
    while pending:
        each = pending.pop()
        code = each.__code__
        doc = each.__doc__
        constants = [one for one in code.co_consts if one != doc and not isinstance(one, CodeType)]
        digest.update(marshal.dumps((each.__qualname__, code.co_code, code.co_names)))
        digest.update(repr(constants).encode())
        for kind in each.__annotations__.values():
            digest.update(
                repr((getattr(kind, "layout", ""), getattr(kind, "_fields", ""))).encode()
            )
        for name in _names(code):
            value = each.__globals__.get(name)
            if isinstance(value, (int, float, tuple)):
                digest.update(f"{name}={value!r}".encode())
        for _, called in _called(each):
            if called not in seen:
                seen.add(called)
                pending.append(called)
    return digest.hexdigest()


def _cache_of(linked: FunctionType, use: str, stamp: str) -> Any:
    from numba.core.caching import FunctionCache, IndexDataCacheFile  # noqa: PLC0415

    class Cache(FunctionCache):
        """Numba's cache of one loop, outdated by ``stamp`` instead of its file, and never in the way."""

        def __init__(self) -> None:
            super().__init__(linked)  # type: ignore[no-untyped-call]
            self._every = f"{linked.__module__}.{linked.__qualname__}.{use}"
            self._own = f"{self._every}.{stamp[:_STAMPED]}"
            self._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
                cache_path=self._cache_path, filename_base=self._own, source_stamp=stamp
            )

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """The machine code that is kept, if any; else it is announced that it is being made."""
            try:
                with _interrupted_later():
                    found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except Exception:  # kept by a version whose types have other names, or damaged
                self.flush()  # type: ignore[no-untyped-call]
                found = None
            if found is None:
                _announcement.begun()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            """Keep machine code, unless there is no room for it."""
            _announcement.done()
            with suppress(OSError):
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
                for file in Path(self._cache_path).glob(f"{escape(self._every)}.*"):
                    if not file.name.startswith(f"{self._own}."):
                        file.unlink(missing_ok=True)

    return Cache()
