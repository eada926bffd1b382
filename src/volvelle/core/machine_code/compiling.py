"""A kernel and all kernels that it calls, compiled by Numba into one object file.

Numba links each function with all that it calls, optimises it and emits it, and does so again at each level
above. Here it infers types and makes IR of each function once. All IR is linked into one module in which only
the entry is visible from outside; that is optimised and emitted once.

What is used of Numba's internals: the code generator that its compiler finds in the target context, and the
code library that this makes (`_Library`). Other versions than `loading.NUMBA` are therefore refused. Object
files need nothing of Numba: what allocates arrays is linked in (`_ALLOCATION`).
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from volvelle.core.machine_code.announcing import announcement
from volvelle.core.machine_code.kernels import kernels_called
from volvelle.core.machine_code.kinds import (
    ENTRY,
    RELEASE,
    Arguments,
    NotCompilable,
    WrongKernel,
)
from volvelle.core.machine_code.numba_arrays import entry_of, results_of
from volvelle.core.machine_code.numba_lowering import for_any_numbers, lowered
from volvelle.core.machine_code.numba_types import numba_signature
from volvelle.core.mistakes import is_own, place_in_kernel

_OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_ALLOCATION = files("volvelle.core.machine_code").joinpath("allocation.ll").read_text()
"""The functions of Numba's runtime for arrays and lists."""

_RELEASE = "NRT_decref"
"""The function that Numba calls when an array is no longer used."""

_MEND = "kernels are written in what Numba knows: loops, numbers, tuples, arrays and most of NumPy"

_linked: dict[Any, Any] = {}


class _Library(codegen.AOTCodeLibrary):
    """The functions of one kernel, neither linked with what they call nor optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Nothing is linked before `object_of` does it."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Nothing is in memory."""
        return 0

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = _mergeable(self._with_callees())
        return self._shared_module

    def _with_callees(self) -> Any:
        module, pending, seen = self._final_module.clone(), [*self._linking_libraries], {self}
        while pending:
            library = pending.pop()
            if library in seen:
                continue
            seen.add(library)
            if isinstance(library, _Library):
                module.link_in(_mergeable(library._final_module), preserve=True)
                pending += library._linking_libraries
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)
        return module

    def object_of(self, function: str, results: str) -> bytes:
        """A line of symbols that it needs, one of ``results``, and the object whose entry is ``function``."""
        module = self._with_callees()
        module.link_in(llvm.parse_assembly(_ALLOCATION))
        for each in module.functions:
            if not each.is_declaration:
                seen = each.name in (function, _RELEASE)
                each.linkage = "external" if seen else "internal"
        for each in module.global_variables:
            if not each.is_declaration and each.name.startswith("_ZN08NumbaEnv"):
                each.linkage = "internal"
        module.get_function(function).name = ENTRY
        module.get_function(_RELEASE).name = RELEASE
        module.verify()
        for options in ({"opt": 0, "loop_vectorize": False, "cost": "cheap"}, {}):
            passes, building = self._codegen._module_pass_manager(**options)
            passes.run(module, building)
        needed = sorted(
            each.name
            for each in (*module.functions, *module.global_variables)
            if each.is_declaration and not each.name.startswith("llvm.")
        )
        if any(name.startswith(".numba.unresolved") for name in needed):
            raise NotCompilable("a kernel that calls itself cannot be compiled")
        if at_start := [name for name in needed if name.startswith(("NRT_", "numba_"))]:
            raise NotCompilable(f"machine code would need {', '.join(at_start)} of Numba")
        made: bytes = self._codegen._tm.emit_object(module)
        return f"{' '.join(needed)}\n{results}\n".encode() + made


def _mergeable(module: Any) -> Any:
    module = module.clone()
    for each in module.functions:
        if not each.is_declaration and each.linkage == llvm.Linkage.external:
            each.linkage = "linkonce_odr"
    return module


class _Generator(codegen.AOTCPUCodegen):
    """Makes code for the oldest processors of the platform: as fast here, with the same bits everywhere."""

    _library_class = _Library

    def _customize_tm_options(self, options: dict[str, Any]) -> None:
        """Let parts of a file lie out of 32 bits' reach of each other, at which LLVM aborts the process."""
        super()._customize_tm_options(options)
        if str(llvm.get_process_triple()).startswith("x86_64") and sys.platform == "linux":
            options.update(codemodel="large", reloc="static")

    def _customize_tm_features(self) -> str:
        return ""

    def set_env(self, name: str, env: Any) -> None:
        """Environments are of functions that Python calls; here are none."""


_generator = cache(_Generator)


@contextmanager
def _generating() -> Iterator[None]:
    """Within, Numba makes IR only."""
    context = cpu_target.target_context
    context.refresh()
    before, context._internal_codegen = context._internal_codegen, _generator("volvelle")
    try:
        with lowered():
            yield
    finally:
        context._internal_codegen = before


@contextmanager
def _without_collections() -> Iterator[None]:
    """Within, cycles are not collected: the many objects that compiling makes stay (a fifth of its time)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _to_numba(loop: Any) -> Any:
    """``loop`` as a function of Numba's, linked with all kernels that it names."""
    if loop not in _linked:
        callees = {name: _to_numba(each) for name, each in kernels_called(loop)}
        names = {**loop.__globals__, **callees}
        copy = FunctionType(
            loop.__code__, names, loop.__name__, loop.__defaults__, loop.__closure__
        )
        copy.__module__, copy.__qualname__ = loop.__module__, loop.__qualname__
        divides = "numpy" if is_own(loop) else "python"  # by zero, as in columns
        made = numba.njit(**_OPTIONS, boundscheck=is_own(loop), error_model=divides)(copy)
        for_any_numbers(made)
        *taken, returned = loop.__annotations__.values() or [None]
        if (annotated := numba_signature((returned, *taken))) is not None:
            with announcement():
                made.compile(annotated)
            made.disable_compile()
        _linked[loop] = made
    return _linked[loop]


@global_compiler_lock
def object_of(loop: Callable[..., Any], signature: Any) -> bytes:
    """The object file of ``loop`` for arguments of ``signature``, annotations or `kinds.Arguments`.

    Raises `NotCompilable`.
    """
    with ExitStack() as within:
        within.enter_context(_generating())
        within.enter_context(_without_collections())
        try:
            made = _to_numba(loop)
            if isinstance(signature, Arguments):
                entry, taken = entry_of(made, loop, signature)
                made, wanted = numba.njit(**_OPTIONS)(entry), taken
            else:
                wanted = numba_signature(signature)
                taken = wanted.args
            if taken not in made.overloads:
                made.compile(wanted)
            compiled = made.overloads[taken]
        except (
            Exception
        ) as error:  # Numba's own errors, and others where it meets what it does not know
            place, why = place_in_kernel(error)
            if place:
                raise WrongKernel(
                    f"a kernel cannot be compiled: {place}: {why}", mend=_MEND
                ) from None
            raise NotCompilable(f"{loop.__qualname__}: {error}") from error
        results = results_of(compiled.signature.return_type)
        content: bytes = compiled.library.object_of(compiled.fndesc.llvm_func_name, results)
        return content
