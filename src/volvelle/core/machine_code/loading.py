"""From a kernel to the address of its machine code, and calls of it from Python.

Numba's own calling convention is used directly: ``int32 f(result *, raised **, words ...)``. A state, a
table and the rules are one word each, their address; a block of numbers is three: address, length and step in
bytes.
"""

import ctypes
import hashlib
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from volvelle.core.machine_code import files
from volvelle.core.machine_code.announcing import announcement
from volvelle.core.machine_code.kernels import kernels_reached, stamp
from volvelle.core.machine_code.kinds import ENTRY, RELEASE, NoCompiler, NotCompilable, Signature
from volvelle.core.mistakes import is_own

NUMBA = "0.62", "0.69"
"""Versions of Numba that compile: from the first on, before the second."""

_HOW = (
    "allocation.ll", "compiling.py", "kinds.py", "numba_arrays.py", "numba_lowering.py", "numba_types.py",
    "words.py",
)  # fmt: skip
_COMPILER = hashlib.sha256(
    b"".join(file.read_bytes() for file in map(Path(__file__).with_name, _HOW))
).hexdigest()
"""A digest of what says how kernels are compiled: an object file of another way is another file."""

_engines: list[Any] = []  # the memory of an engine is that of its machine code
_loaded: dict[tuple[Any, Any], "Loaded | NotCompilable"] = {}
_loading = threading.RLock()


class Loaded(NamedTuple):
    """An object file in memory: where its entry is, and what lets go of an array that it returns.

    results: what the entry returns, "float", "int" or the kind and number of dimensions of an array each.
    """

    entry: int
    release: int
    results: tuple[str, ...]


def loaded(loop: Callable[..., Any], signature: Any) -> Loaded:
    """The machine code of ``loop`` for arguments of ``signature``, annotations or `kinds.Arguments`.

    It is loaded from an object file of the package or of the user, or compiled and kept. Raises
    `NotCompilable` where neither can be.
    """
    key = loop, signature
    if key not in _loaded:
        with _loading, interrupted_later():
            if key not in _loaded:
                try:
                    _loaded[key] = _loaded_or_compiled(loop, signature)
                except NotCompilable as error:
                    _loaded[key] = error
    found = _loaded[key]
    if isinstance(found, NotCompilable):
        raise found.with_traceback(None)  # it would grow with each time
    return found


def address(loop: Callable[..., Any], signature: Signature) -> int:
    """Where the machine code of ``loop`` is; see `loaded`."""
    return loaded(loop, signature).entry


def is_kept(loop: Callable[..., Any], signature: Any) -> bool:
    """Whether machine code of ``loop`` is loaded or in a file, so that it need not be compiled."""
    there = _loaded.get((loop, signature))
    return isinstance(there, Loaded) or files.kept(name_of(loop, signature)) is not None


def can_compile() -> bool:
    """Whether Numba is there, and is of a version whose internals are known to do."""
    with suppress(NoCompiler):
        check_compiler()
        return True
    return False


def _loaded_or_compiled(loop: Callable[..., Any], signature: Any) -> Loaded:
    name = name_of(loop, signature)
    if (there := _kept(name)) is not None:
        return there
    check_compiler()
    with announcement(), files.alone(name):
        if (there := _kept(name)) is not None:  # another process has just compiled it
            return there
        from volvelle.core.machine_code.compiling import object_of  # noqa: PLC0415 - loads Numba

        content = object_of(loop, signature)
        files.keep(name, content)
    return _load(content)


def _kept(name: str) -> Loaded | None:
    """An object file that is kept; None where there is none that this system can load."""
    if (content := files.kept(name)) is not None:
        with suppress(NotCompilable):
            return _load(content)
    return None


def check_compiler() -> None:
    """Raise `NoCompiler` where Numba is missing, or is of a version whose internals are not known to do."""
    mend = f"pip install 'numba>={NUMBA[0]},<{NUMBA[1]}'"
    try:
        there = version("numba")
    except PackageNotFoundError:
        raise NoCompiler("Numba, which compiles kernels, is not installed", mend=mend) from None
    if not _number(NUMBA[0]) <= _number(there) < _number(NUMBA[1]):
        raise NoCompiler(
            f"Numba {there} is not a version that kernels are compiled with", mend=mend
        )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def name_of(loop: Any, signature: Any) -> str:
    """The name of an object file: that of the loop, and a stamp of its code and its signature.

    A user's own file may be moved and copied: of a loop in it the name says instead which of the kernels
    that it reaches are own ones, which are compiled with checks.
    """
    depends, module = [repr(signature), _COMPILER], loop.__module__
    if is_own(loop):
        depends.append(repr([is_own(each) for each in kernels_reached(loop)]))
        module = "own"
    return f"{module}.{loop.__qualname__}.{stamp(loop, *depends)}"


def _load(content: bytes) -> Loaded:
    """An object file, which is in memory from then on."""
    symbols, results, machine_code = content.split(b"\n", 2)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    options = target.create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), options)
    # only now are symbols of the C library and of Python found
    if missing := [each for each in symbols.decode().split() if not llvm.address_of_symbol(each)]:
        raise NotCompilable(f"machine code needs {', '.join(missing)}, which this system lacks")
    engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
    engine.finalize_object()
    _engines.append(engine)
    entry, release = (engine.get_function_address(name) for name in (ENTRY, RELEASE))
    return Loaded(entry, release, tuple(results.decode().split()))


_RESULTS: dict[Any, Any] = {int: ctypes.c_int64, float: ctypes.c_double, None: ctypes.c_void_p}
_WORDS = {float: (ctypes.c_double,), int: (ctypes.c_int64,), bool: (ctypes.c_bool,)}
_ADDRESS = (ctypes.c_int64,)
_BLOCK = 3 * _ADDRESS


@cache
def called(loop: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """``loop`` as machine code that Python calls with words; no other thread of Python runs meanwhile."""
    returned, *taken = signature
    words: list[Any] = [
        word
        for kind in taken
        for word in _WORDS.get(kind, _BLOCK if hasattr(kind, "__metadata__") else _ADDRESS)
    ]
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *words)
    function, made = prototype(address(loop, signature)), _RESULTS[returned]

    def call(*given: Any) -> Any:
        result, raised = made(), ctypes.c_void_p()
        if status := function(ctypes.addressof(result), ctypes.addressof(raised), *given):
            raise_from(status, raised.value)
        return result.value

    return call


class _Raised(ctypes.Structure):
    _fields_ = (("pickled", ctypes.c_void_p), ("size", ctypes.c_int32))


def raise_from(status: int, at: int | None) -> None:
    """Raise what machine code has raised, by the status that it returned and what it left at an address."""
    if status < 0 or at is None:
        raise SystemError(f"machine code returned with status {status}")
    raised = _Raised.from_address(at)
    kind, arguments, *_ = pickle.loads(ctypes.string_at(raised.pickled, raised.size))
    raise kind(*(arguments or ()))


@contextmanager
def interrupted_later() -> Iterator[None]:
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
