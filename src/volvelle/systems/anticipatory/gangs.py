"""Where a gang would go: for the loops of this folder."""

from volvelle.core.columns import GPUS, TYPES
from volvelle.core.compiled import compiled
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_AMOUNT


@compiled
def gang_type(matrix: Floats, row: int, free: Floats) -> int:
    """The first suitable GPU type with as many free GPUs as the job requests; -1 for none."""
    need, wished = matrix[GPUS, row], int(matrix[TYPES, row])
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1 and free[gpu_type] + SAME_AMOUNT >= need:
            return gpu_type
    return -1
