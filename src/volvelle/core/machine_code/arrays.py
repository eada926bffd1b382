"""Calls of machine code from Python with NumPy's arrays.

The annotations of a loop say what it takes: ``float``, ``int``, ``bool``, arrays of these, named tuples of
arrays, or ``Any``, which is as the call gives it. Dimensions, and whether an array is in C order, are those
of the first call; machine code checks them and refuses what it was not made for (`OtherKind`), for which
there is then another object file.
"""

import ctypes
import struct
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from volvelle.core.machine_code.kinds import Arguments, Array, NoCompiler, OtherKind
from volvelle.core.machine_code.loading import Loaded, is_kept, loaded, raise_from
from volvelle.model.arrays import scalar_type

_FROM_BUFFER = ctypes.pythonapi.PyByteArray_FromStringAndSize
_FROM_BUFFER.restype, _FROM_BUFFER.argtypes = ctypes.py_object, (ctypes.c_ssize_t, ctypes.c_ssize_t)


_PLAIN = (np.ndarray, int, float, bool)
"""Types that need no conversion; NumPy's whole numbers do."""


INTERPRETED_SECONDS = 2.0
"""CPU seconds for which a loop that is compiled later is interpreted where no object file has it: about what
compiling it costs with Numba's import (`fill` 1.6, Themis' `count_events` 2.8)."""


TIMED = 16
"""Of so many calls of an interpreted loop one is timed, and stands for all."""


INTERPRETED_NUMBERS = 20_000
"""Numbers in one of its arrays above which it is compiled at once: columns of some 350 jobs."""


class Calls:
    """A loop as Python calls it: machine code for each combination of kinds of arguments.

    later: where no object file has it, it is interpreted until that has cost as much as compiling it.
    """

    def __init__(self, loop: Callable[..., Any], *, later: bool = False) -> None:
        self._loop = loop
        self._patience = INTERPRETED_SECONDS if later else 0.0
        annotations = [kind for name, kind in loop.__annotations__.items() if name != "return"]
        self._annotations = annotations
        self._flat = any(hasattr(kind, "_fields") for kind in annotations)
        self._latest: dict[tuple[type, ...], Callable[..., Any]] = {}
        self._seconds, self._timed = 0.0, -1

    def __call__(self, *given: Any) -> Any:
        """The result of the loop."""
        types = tuple(map(type, given))
        call = self._latest.get(types)
        if call is not None:
            try:
                return call(*given)
            except OtherKind:
                pass
        try:
            arguments = self._arguments(given)
            if self._seconds < self._patience and not is_kept(self._loop, arguments):
                call = self._interpreted
            else:
                plain = all(map(_is_plain, types, arguments.kinds))
                call = _call_of(self._loop, arguments, self._flat, plain)
        except NoCompiler:
            call = self._loop
        self._latest[types] = call
        return call(*given)

    def _interpreted(self, *given: Any) -> Any:
        for value in given:
            if getattr(value, "size", 0) > INTERPRETED_NUMBERS:
                self._patience = 0.0
                self._latest.clear()
                return self(*given)
        self._timed = (self._timed + 1) % TIMED
        if self._timed:
            return self._loop(*given)
        began = time.thread_time()
        try:
            return self._loop(*given)
        finally:
            self._seconds += TIMED * (time.thread_time() - began)
            if self._seconds >= self._patience:
                self._latest.clear()

    def _arguments(self, given: tuple[Any, ...]) -> Arguments:
        pairs = zip(self._annotations, given, strict=True)
        return Arguments(tuple(_kind(self._loop, annotation, value) for annotation, value in pairs))


def _kind(loop: Any, annotation: Any, value: Any) -> Any:
    if annotation in (float, int, bool):
        return annotation.__name__
    if hasattr(annotation, "_fields"):
        fields = zip(annotation.__annotations__.values(), value, strict=True)
        return annotation, *(_kind(loop, each, of) for each, of in fields)
    if annotation is Any:
        if not isinstance(value, np.ndarray):
            return type(value).__name__
    else:
        wanted = scalar_type(annotation)
        if not isinstance(value, np.ndarray) or value.dtype != wanted:
            raise TypeError(
                f"{loop.__qualname__} takes an array of {wanted.__name__}, not {value!r}"
            )
    return Array(value.dtype.name, value.ndim, value.flags.c_contiguous and value.flags.aligned)


def _is_plain(given: type, kind: Any) -> bool:
    """Whether an argument needs no conversion, or is a named tuple of arrays alone."""
    if given in _PLAIN:
        return True
    return isinstance(kind, tuple) and all(type(of) is Array for of in kind[1:])


def _words(kinds: tuple[Any, ...], whole: Any) -> Iterator[Any]:
    for kind in kinds:
        if isinstance(kind, Array):
            yield ctypes.py_object
        elif isinstance(kind, tuple):
            yield from _words(kind[1:], whole)
        else:
            yield ctypes.c_double if kind == "float" else whole


class _Whole:
    """An argument that is a whole number or a truth, of Python's or of NumPy's."""

    @staticmethod
    def from_param(value: Any) -> ctypes.c_int64:
        """The argument as machine code takes it."""
        return ctypes.c_int64(int(value))


@cache
def _call_of(loop: Any, arguments: Arguments, flat: bool, plain: bool) -> Callable[..., Any]:
    """``loop`` for ``arguments``. flat: some are named tuples. plain: none is a whole number of NumPy's."""
    code = loaded(loop, arguments)
    words = list(_words(arguments.kinds, ctypes.c_int64 if plain else _Whole))
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_ssize_t, ctypes.c_ssize_t, *words)
    function, read = prototype(code.entry), _reader(code)
    size = sum(_size(result) for result in code.results)
    room, addressof = ctypes.c_int64 * (size + 1), ctypes.addressof
    returns_bool = loop.__annotations__.get("return") is bool

    def call(*given: Any) -> Any:
        result = room()
        at = addressof(result)
        if flat:
            given = tuple(
                chain.from_iterable([of if isinstance(of, tuple) else (of,) for of in given])
            )
        if status := function(at, at + 8 * size, *given):
            raise_from(status, result[size])
        found = read(result)
        return bool(found) if returns_bool else found

    return call


def _size(result: str) -> int:
    """Words that a result takes."""
    return 5 + 2 * int(result.partition("/")[2]) if "/" in result else 1


def _reader(code: Loaded) -> Callable[[Any], Any]:
    """A function that reads the results from their words."""
    if code.results == ("none",):
        return lambda words: None
    parts, first = [], 0
    for result in code.results:
        if "/" in result:
            parts.append(_array_reader(result, first, code.release))
        else:
            parts.append(_number_reader("=d" if result == "float" else "=q", 8 * first))
        first += _size(result)
    if len(parts) == 1:
        return parts[0]
    return lambda words: tuple([part(words) for part in parts])


def _number_reader(kind: str, at: int) -> Callable[[Any], Any]:
    """A function that reads a number of a ``kind``, as `struct` names it, behind so many bytes."""
    unpack = struct.Struct(kind).unpack_from
    return lambda words: unpack(words, at)[0]


def _array_reader(result: str, first: int, release: int) -> Callable[[Any], Any]:
    """A function that copies an array that machine code returned, and frees it."""
    of, dimensions = result.split("/")
    kind, shape = np.dtype(of), slice(first + 5, first + 5 + int(dimensions))
    let_go = ctypes.PYFUNCTYPE(None, ctypes.c_ssize_t)(release)
    itemsize, array, copied = kind.itemsize, np.ndarray, _FROM_BUFFER

    def read(words: Any) -> Any:
        found = array(words[shape], kind, copied(words[first + 4], words[first + 2] * itemsize))
        let_go(words[first])
        return found

    return read
