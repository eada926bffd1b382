"""Types of NumPy arrays by what they hold; a column has one entry for each job."""

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FloatColumn = Floats
IntColumn = Ints
BoolColumn = Bools


def scalar_type(annotation: Any) -> Any:
    """The type of the elements of an annotated array: NumPy 2.5 names it, earlier ones name its dtype."""
    last = get_args(annotation)[-1]
    return (get_args(last) or (last,))[0]
