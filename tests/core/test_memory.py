"""What parts remember, packed and read back."""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from volvelle.core.memory import NoPlainData, packed, unpacked
from volvelle.model.throughput import Linear


@dataclass
class Noted:
    """Something that a part may remember."""

    values: dict[tuple[int, str], float] = field(default_factory=dict)


@pytest.mark.parametrize(
    "value",
    [
        {(1, "a"): -0.5, None: [True, b"x", {2, 3}, frozenset("a")]},
        deque([1, 2], maxlen=3),
        Counter("abb"),
        OrderedDict(a=1),
        Noted({(1, "b"): 2.0}),
        Linear(0.25),
        float("inf"),
    ],
)
def test_plain_data_come_back_as_they_were(value: Any) -> None:
    again = unpacked(packed(value))
    assert again == value
    assert type(again) is type(value)


def test_arrays_and_values_that_are_shared_come_back_so() -> None:
    table = np.arange(6, dtype=np.int64).reshape(2, 3)
    again = unpacked(packed({"one": table, "other": (table, np.float64(0.5))}))
    np.testing.assert_array_equal(again["one"], table)
    assert again["one"] is again["other"][0]
    again["one"][0, 0] = 7


@pytest.mark.parametrize("value", [len, lambda: 1, open, iter([]), object.__new__])
def test_what_is_no_data_is_refused(value: Any) -> None:
    with pytest.raises(NoPlainData):
        packed([value])


@pytest.mark.parametrize("written", [b"", b"\xff\xff", packed([1, 2])[:-1], b"\x92\xa1?\x01"])
def test_what_was_not_packed_is_refused(written: bytes) -> None:
    with pytest.raises(NoPlainData):
        unpacked(written)
