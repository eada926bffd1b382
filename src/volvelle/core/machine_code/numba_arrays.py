"""Entries that take NumPy's arrays as Python has them; imported only where something is compiled.

An entry takes one word for each argument: a number, or the address of an array object, of which it reads
where its numbers are. Before it does anything it checks that each is of the kind that it was compiled for.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from volvelle.core.machine_code.kinds import HEADER, Arguments, Array, OtherKind

_POINTERS = {"data": 0, "shape": 2, "steps": 3, "kind": 5, "flags": 6}
"""Words of an array object behind its header; its number of dimensions is the word after ``data``."""
_IN_ORDER = 0x0001 | 0x0100
"""Flags of NumPy: in C order, aligned."""
_NUMBERS = {"float64": (types.float64, 12), "int64": (types.int64, 7), "bool": (types.boolean, 0)}
"""Types of Numba, and type numbers of NumPy."""
_NATIVE = ord("="), ord("|")
_BITS = ir.IntType(32)


def _load(builder: Any, at: Any, offset: int, kind: Any) -> Any:
    return builder.load(builder.inttoptr(builder.add(at, at.type(offset)), kind.as_pointer()))


@cache
def _checked(kind: Array) -> Any:
    """Whether the array object at an address is of ``kind``."""

    @intrinsic
    def checked(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            (at,), word = args, args[0].type
            dimensions = _load(builder, at, HEADER + 8, _BITS)
            flags = _load(builder, at, HEADER + 8 * _POINTERS["flags"], _BITS)
            of = _load(builder, at, HEADER + 8 * _POINTERS["kind"], word)
            number = _load(builder, of, HEADER + 12, _BITS)
            order = _load(builder, of, HEADER + 10, ir.IntType(8))
            wanted = _IN_ORDER if kind.in_order else 0x0100
            native = (builder.icmp_signed("==", order, order.type(each)) for each in _NATIVE)
            found = builder.or_(*native)
            for value, expected in (
                (dimensions, kind.dimensions),
                (number, _NUMBERS[kind.of][1]),
                (builder.and_(flags, flags.type(wanted)), wanted),
            ):
                same = builder.icmp_signed("==", value, value.type(expected))
                found = builder.and_(found, same)
            return found

        return types.boolean(types.intp), generate

    return checked


@cache
def _array_at(kind: Array) -> Any:
    """The array whose object is at an address."""
    layout = "C" if kind.in_order else "A"
    made = types.Array(_NUMBERS[kind.of][0], kind.dimensions, layout)

    @intrinsic
    def array_at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            (at,), word = args, args[0].type
            array = make_array(made)(context, builder)
            parts = {
                name: _load(builder, at, HEADER + 8 * _POINTERS[name], word)
                for name in ("data", "shape", "steps")
            }
            shape, steps = (
                [_load(builder, parts[name], 8 * each, word) for each in range(kind.dimensions)]
                for name in ("shape", "steps")
            )
            itemsize = word(1 if kind.of == "bool" else 8)
            populate_array(
                array,
                data=builder.inttoptr(parts["data"], array.data.type),
                shape=shape,
                strides=steps,
                itemsize=itemsize,
                meminfo=None,
            )
            return impl_ret_borrowed(context, builder, made, array._getvalue())

        return made(types.intp), generate

    return array_at


def entry_of(made: Any, loop: Callable[..., Any], arguments: Arguments) -> tuple[Any, Any]:
    """A function of words that calls ``made``, which is ``loop`` to Numba, with arrays; its signature."""
    names: dict[str, Any] = {"loop": made, "OtherKind": OtherKind}
    taken: list[Any] = []
    checks: list[str] = []

    def value(kind: Any) -> str:
        word = f"word{len(taken)}"
        if isinstance(kind, Array):
            names[f"check_{word}"], names[f"array_{word}"] = _checked(kind), _array_at(kind)
            checks.append(f"check_{word}({word})")
            taken.append(types.intp)
            return f"array_{word}({word})"
        if isinstance(kind, tuple):
            fields, made_of = kind[1:], f"tuple_{word}"
            names[made_of] = kind[0]
            return f"{made_of}({', '.join([value(each) for each in fields])})"
        taken.append({"float": types.float64, "int": types.int64, "bool": types.int64}[kind])
        return f"{word} != 0" if kind == "bool" else word

    values = ", ".join([value(kind) for kind in arguments.kinds])
    call = f"loop({values})"
    if loop.__annotations__.get("return") is bool:
        call = f"int({call})"
    lines = [f"def entry({', '.join(f'word{i}' for i in range(len(taken)))}):"]
    if checks:
        lines += [f"    if not ({' and '.join(checks)}):", "        raise OtherKind"]
    exec("\n".join([*lines, f"    return {call}"]), names)
    return names["entry"], tuple(taken)


def results_of(returned: Any) -> str:
    """The result of an entry, in words: see `loading.Loaded`."""
    each = returned.types if isinstance(returned, types.BaseTuple) else (returned,)
    return " ".join(_result(kind) for kind in each)


def _result(kind: Any) -> str:
    if kind in (types.none, types.void):
        return "none"
    if isinstance(kind, types.Array):
        if kind.layout != "C":
            raise TypeError(f"it returns {kind}: make a copy of it")
        return f"{kind.dtype}/{kind.ndim}"
    if isinstance(kind, types.Boolean):
        return "bool"
    return "float" if isinstance(kind, types.Float) else "int"
