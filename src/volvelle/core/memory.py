"""The memory of a part, as bytes: a struct that the annotations of its private attributes declare.

Values may be numbers, text, containers, arrays, and named tuples, dataclasses and structs of such values. A
part within a part has its own memory. A value that two attributes share is two values afterwards.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

import msgspec
import numpy as np
from msgspec import inspect

from volvelle.core.registry import Part
from volvelle.model.problems import Problem


def memory_of(part: Part) -> bytes:
    """The memory of ``part``. Raises `Problem` naming the attribute that cannot be written."""
    _decoder(type(part))
    written = {}
    for name in part.__private_attributes__:
        value = getattr(part, name)
        try:
            kept = memory_of(value) if isinstance(value, Part) else value
            written[name] = msgspec.Raw(msgspec.msgpack.encode(kept, enc_hook=_encode))
        except (TypeError, ValueError, OverflowError) as error:
            raise _unwritable(type(part), name, str(error)) from None
    return msgspec.msgpack.encode(written)


def remind(part: Part, memory: bytes) -> None:
    """Let ``part`` remember what `memory_of` returned. Raises `Problem` or `msgspec.DecodeError`."""
    for name, value in msgspec.structs.asdict(_decoder(type(part)).decode(memory)).items():
        if isinstance(inner := getattr(part, name), Part):
            remind(inner, value)
        else:
            setattr(part, name, value)


@cache
def _decoder(part: type[Part]) -> msgspec.msgpack.Decoder[msgspec.Struct]:
    """A decoder of the struct that a class of parts declares. Raises `Problem`."""
    hints, declared = get_type_hints(part), []
    for name in part.__private_attributes__:
        kind = hints.get(name, Any)
        if isinstance(kind, type) and issubclass(kind, Part):
            kind = bytes
        for reason in _undeclared(inspect.type_info(kind), set()):
            raise _unwritable(part, name, reason)
        declared.append((name, kind))
    struct = msgspec.defstruct(part.__name__, declared, forbid_unknown_fields=True)
    return msgspec.msgpack.Decoder(struct, dec_hook=_decode)


def _undeclared(kind: Any, met: set[int]) -> Iterator[str]:
    """Why values of a type, as msgspec describes it, cannot be read back."""
    if id(kind) in met:
        return
    met.add(id(kind))
    match kind:
        case inspect.CustomType(cls=cls) if cls is not np.ndarray:
            yield f"{cls.__name__} declares no fields"
        case inspect.AnyType():
            yield "its annotation is missing, or Any"
        case msgspec.Struct():
            yield from _undeclared(msgspec.structs.astuple(kind), met)
        case tuple():
            for inner in kind:
                yield from _undeclared(inner, met)


def _unwritable(part: type[Part], name: str, reason: str) -> Problem:
    return Problem(
        f"what {part.name!r} remembers in {name} cannot be written: {reason}",
        mend="annotate it as numbers, text, containers, arrays, or dataclasses of such values",
    )


def _encode(value: Any) -> Any:
    """The form in which msgspec writes an array or one of its numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.dtype.str, value.shape, value.tobytes()
    raise TypeError(f"it holds a {type(value).__name__}")


def _decode(_: Any, value: Any) -> Any:
    """The array that `_encode` wrote."""
    dtype, shape, numbers = value
    return np.frombuffer(numbers, dtype).reshape(shape).copy()
