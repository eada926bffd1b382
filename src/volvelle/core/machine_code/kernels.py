"""Kernels: functions that run interpreted or as machine code, and the stamp of their code.

The stamp is made from the byte code in memory, not from the text on disk: a process whose sources were
replaced while it runs never keeps old code under the stamp of the new. Comments and docstrings do not change
it. Byte code differs between minor versions of Python, so each of them has object files of its own.
"""

import hashlib
import marshal
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

marked: set[Any] = set()
"""All kernels."""


def kernel(loop: F) -> F:
    """Mark ``loop`` as a function that other kernels may call as machine code; it is returned as it is."""
    marked.add(loop)
    return loop


def completed(loop: Any, **called: Any) -> Any:
    """A kernel as ``loop`` that calls these kernels where it names others; the first is whose it is."""
    first = next(iter(called.values()))
    made = FunctionType(
        loop.__code__, {**loop.__globals__, **called}, f"{first.__name__}{loop.__name__}"
    )
    made.__module__, made.__qualname__ = first.__module__, made.__name__
    made.__annotations__ = loop.__annotations__
    return kernel(made)


def kernels_called(loop: Any, *, directly: bool = True) -> Iterator[tuple[str, FunctionType]]:
    """The kernels that ``loop`` names, by the names it has for them.

    directly: only globals that the code loads; otherwise also kernels whose names it uses as attributes,
    which is found much faster.
    """
    names = _globals_loaded(loop.__code__) if directly else _names(loop.__code__)
    for name in names:
        value = loop.__globals__.get(name)
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType) and value in marked:
            yield name, value


def kernels_reached(loop: Any) -> list[Any]:
    """``loop`` and all kernels that it reaches by calls, each once."""
    found, pending = [loop], [loop]
    while pending:
        for _, called in kernels_called(pending.pop(), directly=False):
            if called not in found:
                found.append(called)
                pending.append(called)
    return found


def names_in(loop: Callable[..., Any]) -> set[str]:
    """The global names and attributes in ``loop`` and in all kernels that it calls."""
    return {name for each in kernels_reached(loop) for name in _names(each.__code__)}


@cache
def _globals_loaded(code: CodeType) -> tuple[str, ...]:
    import dis  # noqa: PLC0415 - only where something is compiled

    found = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    inner = (_globals_loaded(one) for one in code.co_consts if isinstance(one, CodeType))
    return tuple(sorted(found.union(*inner)))


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    inner = (_names(one) for one in code.co_consts if isinstance(one, CodeType))
    return tuple(sorted({*code.co_names}.union(*inner)))


def stamp(loop: Any, *more: str) -> str:
    """A digest of the code of ``loop``, of the kernels it calls, of the numbers they name and of layouts.

    A layout is where things stand in an argument: ``layout`` of the class in its annotation, or its fields.
    more: what else the machine code depends on.
    """
    digest = hashlib.sha256(repr(more).encode())
    for each in kernels_reached(loop):
        code = each.__code__
        constants = [
            one for one in code.co_consts if one != each.__doc__ and not isinstance(one, CodeType)
        ]
        digest.update(marshal.dumps((each.__qualname__, *_instructions(code))))
        digest.update(repr((constants, each.__defaults__)).encode())
        for kind in each.__annotations__.values():
            layout = getattr(kind, "layout", ""), getattr(kind, "_fields", "")
            digest.update(repr(layout).encode())
        for name in _names(code):
            value = each.__globals__.get(name)
            if isinstance(value, int | float | tuple):
                digest.update(f"{name}={value!r}".encode())
            elif isinstance(value, np.ndarray):
                digest.update(f"{name}={value.tolist()!r}".encode())
        for cell in each.__closure__ or ():
            digest.update(repr(cell.cell_contents).encode())
    return digest.hexdigest()[:32]


def _instructions(code: CodeType) -> tuple[Any, ...]:
    inner = [_instructions(one) for one in code.co_consts if isinstance(one, CodeType)]
    return code.co_code, code.co_names, *inner
