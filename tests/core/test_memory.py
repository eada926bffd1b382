"""What parts remember, written and read back."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import PrivateAttr

from volvelle.core.memory import memory_of, remind
from volvelle.core.registry import Part
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear


class Seen(NamedTuple):
    """A value that a part may remember."""

    time: float
    pools: frozenset[str] = frozenset()


@dataclass
class Noted:
    """Another one."""

    values: dict[tuple[int, str], float] = field(default_factory=dict)
    free: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


class Users(Part):
    """A part within another."""

    name = "users"
    _users: dict[str, int] = PrivateAttr(default_factory=dict)


class Remembers(Part):
    """A part with a memory."""

    name = "remembers"
    _notes: list[Noted] = PrivateAttr(default_factory=list)
    _seen: Seen | None = PrivateAttr(None)
    _table: NDArray[np.int64] = PrivateAttr(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _rate: Linear = PrivateAttr(Linear(1.0))
    _inner: Part = PrivateAttr(default_factory=Users)


def test_what_is_declared_comes_back() -> None:
    part = Remembers()
    part._notes = [Noted({(1, "a"): np.float64(-0.5)}, np.array([[0.1], [np.inf]]))]
    part._seen = Seen(float("-inf"), frozenset("ab"))
    part._table = np.arange(6, dtype=np.int64).reshape(2, 3)
    part._rate = Linear(0.25)
    part._inner._users["a"] = np.int64(3)  # type: ignore[attr-defined]
    again = Remembers()
    remind(again, memory_of(part))
    assert (again._seen, again._rate) == (part._seen, part._rate)
    assert [type(one) for one in again._notes] == [Noted]
    assert again._notes[0].values == {(1, "a"): -0.5}
    np.testing.assert_array_equal(again._notes[0].free, part._notes[0].free, strict=True)
    np.testing.assert_array_equal(again._table, part._table, strict=True)
    again._table[0, 0] = 7
    assert part._table[0, 0] == 0
    assert again._inner._users == {"a": 3}  # type: ignore[attr-defined]


class Plain:
    """A class that declares no fields."""


class Bare(Part):
    """A part whose memory has no annotation."""

    name = "bare"
    _left = PrivateAttr(0)


class Foreign(Part):
    """A part whose memory is of a class without fields."""

    name = "foreign"
    _left: dict[str, Plain] = PrivateAttr(default_factory=dict)


class Untrue(Part):
    """A part that keeps something else than it declares."""

    name = "untrue"
    _left: NDArray[np.float64] = PrivateAttr(default_factory=lambda: np.array([len]))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Bare, "its annotation is missing"),
        (Foreign, "Plain declares no fields"),
        (Untrue, "holds a"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_name(kind: type[Part], reason: str) -> None:
    with pytest.raises(Problem, match=rf"'{kind.name}' remembers in _left .*{reason}.*Annotate it"):
        memory_of(kind())


@pytest.mark.parametrize("memory", [b"", b"\xff\xff", msgspec.msgpack.encode({"_users": 3})])
def test_what_was_not_written_is_refused(memory: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        remind(Users(), memory)
