"""A table: named columns of numbers of one length, over lists or over NumPy arrays."""

from typing import Annotated, Any, ClassVar, Final, Self, get_type_hints

import numpy as np

INFINITY: Final = float("inf")

Floats = Annotated[Any, float, 1]
"""A list of floats, or a NumPy array of them."""
Ints = Annotated[Any, int, 1]
"""A list of whole numbers, or a NumPy array of them."""
Matrix = Annotated[Any, float, 2]
"""Lists of floats, or a NumPy array of two dimensions."""
Cube = Annotated[Any, float, 3]
"""Lists of lists of floats, or a NumPy array of three dimensions."""


def array_of(numbers: Floats) -> Any:
    """The NumPy array that lies where the ``numbers`` of a state over arrays do: machine code slices it."""
    return numbers


def longer(array: Any, more: int) -> Any:
    """The same with ``more`` zeros behind, in its last dimension."""
    if isinstance(array, list):
        return array + [type(array[0])(0)] * more
    size = array.shape[-1]
    room = np.zeros((*array.shape[:-1], size + more), dtype=array.dtype, order="F")
    room[..., :size] = array
    return room


class StateTable:
    """Columns of numbers of one length, by name.

    ``floats`` and ``ints`` are all columns of a kind one after the other. Over NumPy arrays these are
    matrices and the columns their rows; what belongs together, a job's attributes, lies together in memory. A
    table may have more columns of floats, without a name.
    """

    float_columns: ClassVar[tuple[str, ...]]
    int_columns: ClassVar[tuple[str, ...]]
    layout: ClassVar[str]
    floats: Matrix
    ints: Any

    def __init_subclass__(cls) -> None:
        """Read the columns from the annotations."""
        hints = get_type_hints(cls, include_extras=True)
        own = [name for name in hints if name in cls.__annotations__]
        cls.float_columns = tuple(name for name in own if hints[name] == Floats)
        cls.int_columns = tuple(name for name in own if hints[name] == Ints)
        cls.layout = repr((cls.float_columns, cls.int_columns))

    def __init__(self, size: int = 0, more: int = 0) -> None:
        self._set(
            [[0.0] * size for _ in range(len(self.float_columns) + more)],
            [[0] * size for _ in self.int_columns],
        )

    @classmethod
    def from_columns(cls, floats: Any, ints: Any) -> Self:
        """The table of these columns, which it keeps."""
        table = object.__new__(cls)
        table._set(floats, ints)
        return table

    def _set(self, floats: Any, ints: Any) -> None:
        self.floats, self.ints = floats, ints
        for place, name in enumerate(self.float_columns):
            setattr(self, name, floats[place])
        for place, name in enumerate(self.int_columns):
            setattr(self, name, ints[place])

    def __len__(self) -> int:
        return len((self.floats if self.float_columns else self.ints)[0])

    def copy(self) -> Self:
        """A table with the same numbers."""
        if isinstance(self.floats, list):
            return self.from_columns(
                [column[:] for column in self.floats], [column[:] for column in self.ints]
            )
        return self.from_columns(self.floats.copy(order="F"), self.ints.copy(order="F"))

    def over_arrays(self) -> Self:
        """The same over NumPy arrays."""
        floats, ints = (len(self.floats), len(self)), (len(self.ints), len(self))
        return self.from_columns(
            np.asfortranarray(np.array(self.floats, dtype=np.float64).reshape(floats)),
            np.asfortranarray(np.array(self.ints, dtype=np.int64).reshape(ints)),
        )

    def set_more(self, more: int) -> None:
        """Have ``more`` columns of floats without a name, all 0."""
        named, size = len(self.float_columns), len(self)
        if isinstance(self.floats, list):
            self.floats[named:] = [[0.0] * size for _ in range(more)]
        else:
            floats = np.zeros((named + more, size), order="F")
            floats[:named] = self.floats[:named]
            self._set(floats, self.ints)

    def grow(self, size: int) -> None:
        """Let columns have ``size`` entries; new ones are 0."""
        more = size - len(self)
        if isinstance(self.floats, list):
            for column in self.floats:
                column.extend([0.0] * more)
            for column in self.ints:
                column.extend([0] * more)
        else:
            self._set(longer(self.floats, more), longer(self.ints, more))
