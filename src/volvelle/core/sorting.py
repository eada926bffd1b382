"""Sorting in kernels."""

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints


@kernel
def in_order(keys: Floats) -> Ints:
    """The places of keys, the least first, and of equal ones the first: a merge sort.

    NumPy's takes Numba a second to compile.
    """
    count, width = len(keys), 1
    order, merged = np.empty(count, np.int64), np.empty(count, np.int64)
    for at in range(count):
        order[at] = at
    while width < count:
        begin = 0
        while begin < count:
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for at in range(begin, end):
                if left < middle and (right == end or keys[order[left]] <= keys[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
            begin = end
        order, merged = merged, order
        width *= 2
    return order
