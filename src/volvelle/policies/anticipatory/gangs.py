"""Gangs that run to their end: what all loops of this folder do first, and where a job would go."""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import GPUS, HELD, POOL, TYPE, TYPES
from volvelle.core.compiled import compiled
from volvelle.core.fill import TARGET, TARGET_TYPE
from volvelle.core.forward.waiting import ROUNDING

Floats = NDArray[np.float64]


@compiled
def keep_running(matrix: Floats, free: Floats, left: Floats, given: Floats) -> None:
    """Let jobs that run keep what they hold; ``free`` by type and ``left`` by pool are what is over then."""
    for row in range(matrix.shape[1]):
        held, gpu_type = matrix[HELD, row], int(matrix[TYPE, row])
        given[TARGET, row], given[TARGET_TYPE, row] = held, -1.0
        if held > 0.0:
            given[TARGET_TYPE, row] = gpu_type
            free[gpu_type] -= held
            if matrix[POOL, row] >= 0.0:
                left[int(matrix[POOL, row])] -= held


@compiled
def gang_type(matrix: Floats, row: int, free: Floats) -> int:
    """The first GPU type that will do of which what the job requests is free; -1 for none."""
    need, wished = matrix[GPUS, row], int(matrix[TYPES, row])
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1 and free[gpu_type] + ROUNDING >= need:
            return gpu_type
    return -1
