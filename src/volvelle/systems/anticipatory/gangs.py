"""Where a gang would go: for the loops of this folder."""

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_AMOUNT


@kernel
def gang_type(gpus: float, types: float, free: Floats) -> int:
    """The first of the suitable GPU ``types`` (bits) with as many free GPUs as requested; -1 for none."""
    wished = int(types)
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1 and free[gpu_type] + SAME_AMOUNT >= gpus:
            return gpu_type
    return -1
