"""What parts remember, as bytes: the private attributes of policies, estimators and the like.

Any value made of plain data can be packed: numbers, text, containers, arrays, and instances of classes whose
attributes are such values. Only data are read back: classes must have been imported by then, none of their
code runs but that of Pydantic models, and a value that two others share is shared again.
"""

import dataclasses
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from typing import Any

import msgspec
import numpy as np
from pydantic import BaseModel

from volvelle.core.registry import Part

_ATOMS = (type(None), bool, int, float, str, bytes)
_CONTAINERS: dict[str, type] = {
    kind.__name__: kind for kind in (list, tuple, set, frozenset, dict, deque, OrderedDict, Counter)
}
_MAPPINGS = (dict, OrderedDict, Counter)


class NoPlainData(TypeError):  # noqa: N818 - it is what was met
    """A value that cannot be packed, or bytes that are not what was packed."""


def memory_of(part: Part) -> bytes:
    """What ``part`` remembers. Raises `NoPlainData`."""
    return packed({name: getattr(part, name) for name in part.__private_attributes__})


def remind(part: Part, memory: bytes) -> None:
    """Let ``part`` remember what `memory_of` returned. Raises `NoPlainData`."""
    remembered = unpacked(memory)
    if not isinstance(remembered, dict) or remembered.keys() != part.__private_attributes__.keys():
        raise NoPlainData(f"{part.name} remembers other things than it did")
    for name, value in remembered.items():
        setattr(part, name, value)


def packed(value: Any) -> bytes:
    """A value made of plain data. Raises `NoPlainData`."""
    return msgspec.msgpack.encode(_Packing().pack(value))


def unpacked(written: bytes) -> Any:
    """The value that was `packed`. Raises `NoPlainData`."""
    try:
        return _Unpacking().unpack(msgspec.msgpack.decode(written))
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise NoPlainData(f"what was packed cannot be read: {error}") from error


class _Packing:
    """Values as lists that begin with their kind; one that was met before as its place."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._met: list[Any] = []  # kept, so that no other value gets the identity of one of them

    def pack(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            return value
        if (place := self._places.get(id(value))) is not None:
            return ["again", place]
        packed = self._pack(value)
        self._places[id(value)] = len(self._met)
        self._met.append(value)
        return packed

    def _pack(self, value: Any) -> list[Any]:
        kind = type(value)
        if kind in _MAPPINGS:
            return [kind.__name__, [[self.pack(k), self.pack(v)] for k, v in value.items()]]
        if kind is deque:
            return ["deque", self._all(value), value.maxlen]
        if kind.__name__ in _CONTAINERS and _CONTAINERS[kind.__name__] is kind:
            return [kind.__name__, self._all(value)]
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
            shape = None if isinstance(value, np.generic) else list(value.shape)
            return ["array", value.dtype.str, shape, value.tobytes()]
        return self._instance(value, f"{kind.__module__}:{kind.__qualname__}")

    def _instance(self, value: Any, name: str) -> list[Any]:
        if _class(name) is not type(value) or isinstance(value, defaultdict):
            raise NoPlainData(f"{name} is no plain data")
        if isinstance(value, Enum):
            return ["enum", name, self.pack(value.value)]
        if isinstance(value, tuple):
            return ["named", name, self._all(value)]
        if isinstance(value, msgspec.Struct):
            fields = [getattr(value, field) for field in value.__struct_fields__]
            return ["struct", name, self._all(fields)]
        if callable(value) or any("__reduce__" in vars(kind) for kind in type(value).__mro__[:-1]):
            raise NoPlainData(f"{name} is no plain data")
        return ["object", name, self.pack(value.__getstate__())]

    def _all(self, values: Any) -> list[Any]:
        return [self.pack(value) for value in values]


class _Unpacking:
    """The reverse of `_Packing`."""

    def __init__(self) -> None:
        self._met: list[Any] = []

    def unpack(self, packed: Any) -> Any:
        if not isinstance(packed, list):
            return packed
        if packed[0] == "again":
            return self._met[packed[1]]
        value = self._unpack(*packed)
        self._met.append(value)
        return value

    def _unpack(self, kind: str, *rest: Any) -> Any:
        if kind == "deque":
            return deque(self._all(rest[0]), rest[1])
        if kind in _CONTAINERS:
            made = _CONTAINERS[kind]
            if made in _MAPPINGS:
                return made({self.unpack(k): self.unpack(v) for k, v in rest[0]})
            return made(self._all(rest[0]))
        if kind == "array":
            dtype, shape, raw = rest
            array = np.frombuffer(raw, dtype=dtype).copy()
            return array[0] if shape is None else array.reshape(shape)
        return self._instance(kind, *rest)

    def _instance(self, kind: str, name: str, state: Any) -> Any:
        if (made := _class(name)) is None:
            raise NoPlainData(f"there is no {name}")
        if kind == "enum":
            return made(self.unpack(state))
        if kind == "named":
            return tuple.__new__(made, self._all(state))
        if kind == "struct":
            fields = zip(made.__struct_fields__, self._all(state), strict=True)
            return made(**dict(fields))
        value = object.__new__(made)
        attributes = self.unpack(state)
        if isinstance(value, BaseModel):
            value.__setstate__(attributes)
            return value
        if isinstance(attributes, list):  # a frozen dataclass with slots lists its fields
            names = (field.name for field in dataclasses.fields(made))
            attributes = dict(zip(names, attributes, strict=True))
        by_name, slots = attributes if isinstance(attributes, tuple) else (attributes, None)
        for name_of, attribute in {**(by_name or {}), **(slots or {})}.items():
            object.__setattr__(value, name_of, attribute)
        return value

    def _all(self, values: Any) -> list[Any]:
        return [self.unpack(value) for value in values]


def _class(name: str) -> Any:
    """The class of this name in a module that is loaded; None where there is none."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    return found if isinstance(found, type) else None
