"""Pollux' goodput function (OSDI'21), compiled: the best batch size for a placement, and what it yields.

Goodput is throughput times statistical efficiency: the samples that count each second. Only whether
GPUs stand on one node or on several matters, and how many there are.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Floats
from volvelle.model.goodput import Goodput
from volvelle.model.tolerances import WHOLE_SAMPLE

CANDIDATES = 50
"""Batch sizes tried for each placement, in geometric steps."""
_NOTHING = 1e-8  # seconds of an exchange that does not take place


@compiled
def step_seconds(steps: Floats, spread: bool, gpus: int, local: float) -> tuple[float, float]:
    """Seconds of computing on ``local`` samples a GPU, and of a whole step with the exchange."""
    compute = steps[0] + steps[1] * local
    exchange = _NOTHING
    if spread:
        exchange = steps[2] + steps[3] * max(gpus - 2, _NOTHING)
    elif gpus > 1:
        exchange = steps[4] + steps[5] * max(gpus - 2, _NOTHING)
    gamma = steps[6]
    whole = np.exp(np.log(compute**gamma + exchange**gamma) / gamma)
    return compute, whole


@compiled
def best_batch(
    steps: Floats,
    noise: Floats,
    limits: NDArray[np.int64],
    spread: bool,
    gpus: int,
) -> tuple[float, int, int]:
    """The best goodput on ``gpus`` GPUs (``spread`` over nodes or not), local batch and passes for it.

    ``noise`` is (squared norm, variance), ``limits`` (initial, most batch, least, most local). One GPU
    makes two passes at least where its batch exceeds the initial one.
    """
    initial, most, least_local, most_local = limits[0], limits[1], limits[2], limits[3]
    first = max(float(initial), float(least_local * gpus))
    best, best_local, best_passes = 0.0, int(least_local), 1
    if first > most:
        return best, best_local, best_passes
    ratio = (most / first) ** (1.0 / (CANDIDATES - 1))
    sqr, var = noise[0], noise[1]
    for candidate in range(CANDIDATES):
        share = first * ratio**candidate / gpus
        passes = max(int(np.ceil(share / most_local - WHOLE_SAMPLE)), 1)
        if gpus == 1 and share > initial + WHOLE_SAMPLE:
            passes = max(passes, 2)
        local = int(np.ceil(share / passes - WHOLE_SAMPLE))
        if local < least_local or local > most_local:
            continue
        compute, whole = step_seconds(steps, spread, gpus, float(local))
        batch = gpus * local * passes
        scale = batch / initial
        below = var / scale + sqr
        gain = (var + sqr) / below if below > 0.0 else 1.0
        goodput = batch / ((passes - 1) * compute + whole) * gain / scale
        if goodput > best:
            best, best_local, best_passes = goodput, local, passes
    return best, best_local, best_passes


@compiled
def goodputs(steps: Floats, noise: Floats, limits: NDArray[np.int64], most_gpus: int) -> Floats:
    """Best goodputs, (2, most_gpus + 1): on one node, however wide, and spread over nodes."""
    table = np.zeros((2, most_gpus + 1))
    for gpus in range(1, most_gpus + 1):
        table[0, gpus] = best_batch(steps, noise, limits, False, gpus)[0]
        if gpus > 1:
            table[1, gpus] = best_batch(steps, noise, limits, True, gpus)[0]
    return table


def arrays_of(told: Goodput) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """A goodput function as the compiled loops take it: steps, noise and limits."""
    limits = (told.initial_batch, told.most_batch, told.least_local, told.most_local)
    return (
        np.array(told.steps, dtype=np.float64),
        np.array([told.grad_sqr, told.grad_var]),
        np.array(limits, dtype=np.int64),
    )
