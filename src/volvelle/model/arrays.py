"""Types of NumPy arrays by what they hold; a column has one entry for each job."""

from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FloatColumn = Floats
IntColumn = Ints
BoolColumn = Bools

Entry = TypeVar("Entry", np.float64, np.int64)


def distinct(values: NDArray[Entry]) -> NDArray[Entry]:
    """`numpy.unique` of one axis without NaN; the first call of that imports `numpy.ma`, for 10 ms."""
    ordered = np.sort(values)
    return np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])


def scalar_type(annotation: Any) -> Any:
    """The type of the elements of an annotated array: NumPy 2.5 names it, earlier ones name its dtype."""
    last = get_args(annotation)[-1]
    return (get_args(last) or (last,))[0]
