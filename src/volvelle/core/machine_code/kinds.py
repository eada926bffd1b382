"""Signatures of machine code, the kinds of its arguments, and the errors where there is none."""

from typing import Any, NamedTuple

from volvelle.model.problems import Problem

Signature = tuple[Any, ...]
"""The types of a kernel's result and arguments, as annotations."""

HEADER = object.__basicsize__
"""Bytes of a Python object before its own attributes."""

ENTRY, RELEASE = "entry", "release"
"""Names of the functions in an object file that are called from outside."""


class OtherKind(TypeError):  # noqa: N818 - never seen outside
    """Arrays are of other kinds than machine code was made for."""


class Array(NamedTuple):
    """A kind of array. of: name of the kind of number. in_order: it lies in C order."""

    of: str
    dimensions: int
    in_order: bool


class Arguments(NamedTuple):
    """Kinds of arguments: "float", "int", "bool", `Array`, or a named tuple's class and its kinds."""

    kinds: tuple[Any, ...]
    header: int = HEADER


class NotCompilable(TypeError):  # noqa: N818 - no fault of a caller that can go without
    """A kernel has no machine code, and none can be made of it."""


class NoCompiler(Problem, NotCompilable):
    """Numba, with which machine code would be made, is missing or of another version."""


class WrongKernel(Problem, NotCompilable):
    """A user's own kernel is written in what Numba does not know."""
