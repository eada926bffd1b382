"""Types of NumPy arrays by what they hold; a column has one entry for each job."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FloatColumn = Floats
IntColumn = Ints
BoolColumn = Bools
