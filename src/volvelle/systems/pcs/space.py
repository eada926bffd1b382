"""The search space of PCS: WFQ(T, W, zeta_min), or T and W for each GPU type (OSDI'24, section 3.3).

T is searched by its logarithm from 0.05 (a factor of about two between the sizes in a queue) to where there
is one queue; W from 0 to 6, at which a queue has 1/400 of the weight of the one before.
The paper gives no ranges. Searches begin with the extremes and with two to five queues, which is where its
own configurations lie.

Around a configuration every threshold is free (the size of a job, as those that T makes), every weight, by W
from each queue to the next: negative where the next weighs more, and the step in which caps are lifted, as in
PCS' artifact; one with a step and one without are beside each. One threshold is spare: where it is
the greatest size it parts nothing, elsewhere it makes a queue more.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.space import Dimension, Point, Space
from volvelle.model.job import Job
from volvelle.model.tolerances import SAME_SHARE
from volvelle.systems.pcs.queues import (
    PcsQueues,
    create_queues,
    decaying,
    from_disparities,
    one_queue_variation,
    read_sizes,
    read_weights,
)

_LEAST_VARIATION = 0.05
_MOST_DISPARITY = 6.0
_LEAST_DISPARITY = -3.0  # of neighbours in a free space, as in PCS' artifact
_SPARE_DISPARITY = 1.0
_FEW_QUEUES = 5
_TYPICAL_DISPARITIES = (3.0, 1.0)
_STEPS = 40  # of T between its bounds
_LEAST_STEP, _MOST_STEP = 0.01, 0.9  # of caps, as in PCS' artifact
_SOME_STEP = 0.5  # with which those begin, too, that have none
_LEAST_WEIGHT = 1e-300  # of a queue that has none
_DISPARITY = "disparity: queue i weighs exp(-i W)"
_CAPS_LIFTED = "step by which caps are lifted; 0: all at once"
_EFFICIENCY = Dimension("zeta_min", 0.0, 1.0, "efficiency up to which a job gets GPUs first")


def wfq_space(jobs: Sequence[Job]) -> Space:
    """T, W and zeta_min for jobs of these sizes, GPU-seconds on the fewest GPUs they run on."""
    sizes = [_size(job) for job in jobs]
    variation = _variation(sizes)

    def write(point: Point) -> str:
        limits = _limits(create_queues(sizes, point[0], point[1]))
        efficiency = _efficiency(point)
        return f"{limits},disparity={point[1]:.12g},{efficiency}" if limits else efficiency

    def facts(point: Point) -> Mapping[str, Any]:
        return _facts(create_queues(sizes, point[0], point[1]))

    most, ascending = variation.high, np.unique(sizes)
    return Space(
        (
            variation,
            Dimension("W", 0.0, _MOST_DISPARITY, _DISPARITY),
            _EFFICIENCY,
        ),
        write,
        starts=(
            (most, 0.0, 0.0),  # first in, first out
            (_LEAST_VARIATION, 1.0, 0.6),  # close to shortest first
            *((few, disparity, 0.6) for disparity in _TYPICAL_DISPARITIES for few in _few(sizes)),
        ),
        facts=facts,
        finer=lambda written: _free_space(ascending, written),
    )


def _free_space(sizes: NDArray[np.float64], written: str) -> Space:
    """Thresholds, weights, delta and zeta_min of the queues ``written`` and a spare one, each on its own.

    sizes: of the jobs, ascending. A queue is left out where its threshold meets another, or the ends of them:
    so is the spare one where the space starts.
    """
    said = dict(pair.split("=", 1) for pair in written.split(","))
    thresholds = read_sizes(said.get("thresholds", ""))
    weights = read_weights(said.get("weights", "")) or decaying(
        len(thresholds) + 1, float(said.get("disparity", 0.0))
    )
    disparities = (-np.diff(np.log(np.maximum(weights, _LEAST_WEIGHT)))).tolist()
    ends = (float(sizes[0]), float(sizes[-1]), *thresholds)
    lowest, greatest = min(ends), max(ends)
    between = len(thresholds) + 1
    delta, efficiency = (float(said.get(name, 0.0)) for name in ("delta", "efficiency"))
    as_written = (*thresholds, greatest, *disparities, _SPARE_DISPARITY)
    steps = (delta, 0.0 if delta else _SOME_STEP)

    def queues(point: Point) -> PcsQueues:
        kept: dict[float, float] = {}
        for limit, disparity in sorted(zip(point[:between], point[between:-2], strict=True)):
            jobs = int(np.searchsorted(sizes, limit * (1.0 + SAME_SHARE), side="right"))
            if 0 < jobs < len(sizes):
                kept.setdefault(float(sizes[jobs - 1]), disparity)
        return PcsQueues(tuple(kept), from_disparities(list(kept.values())))

    def write(point: Point) -> str:
        step = point[-2] if point[-2] >= _LEAST_STEP else 0.0
        caps = f"delta={step:.12g}" if step or "delta" in said else ""
        return ",".join(filter(None, (queues(point).written, caps, _efficiency(point))))

    low, high = min([_LEAST_DISPARITY, *disparities]), max([_MOST_DISPARITY, *disparities])
    numbers = range(1, between + 1)
    return Space(
        (
            *(
                Dimension(f"threshold {i}", lowest, greatest, "GPU-seconds", log=True)
                for i in numbers
            ),
            *(Dimension(f"W {i}", low, high, "queue i + 1 over queue i: exp(-W)") for i in numbers),
            Dimension("delta", 0.0, max(_MOST_STEP, delta), _CAPS_LIFTED),
            _EFFICIENCY,
        ),
        write,
        starts=tuple((*as_written, step, efficiency) for step in steps),
        facts=lambda point: _facts(queues(point)),
    )


def typed_space(jobs: Sequence[Job]) -> Space:
    """T, and W for each GPU type of which the jobs know how fast they are (else one for all)."""
    sizes = [_size(job) for job in jobs]
    types = sorted({kind for job in jobs for kind in job.usable_types if kind})
    variation = _variation(sizes)

    def write(point: Point) -> str:
        limits = _limits(create_queues(sizes, point[0], 0.0))
        values = [f"{disparity:.12g}" for disparity in point[1:]]
        by_type = [f"{kind}:{value}" for kind, value in zip(types, values, strict=bool(types))]
        disparity = f"disparity={'/'.join(by_type or values)}"
        return f"{limits},{disparity}" if limits else disparity

    names = [f"W_{kind}" for kind in types] or ["W"]
    disparities = [Dimension(name, 0.0, _MOST_DISPARITY, _DISPARITY) for name in names]
    most, one = variation.high, len(names)
    return Space(
        (variation, *disparities),
        write,
        starts=(
            (most, *[0.0] * one),  # first in, first out
            (_LEAST_VARIATION, *[1.0] * one),  # close to shortest first
            *(
                (few, *[disparity] * one)
                for disparity in _TYPICAL_DISPARITIES
                for few in _few(sizes)
            ),
        ),
    )


def _variation(sizes: Sequence[float]) -> Dimension:
    most = max(one_queue_variation(sizes), 2 * _LEAST_VARIATION)
    return Dimension("T", _LEAST_VARIATION, most, "C^2 of sizes in a queue, at most", log=True)


def _few(sizes: Sequence[float]) -> list[float]:
    """For two queues, three, and so on to `_FEW_QUEUES`, a T that gives as many, if there is one."""
    span = _variation(sizes)
    tried = [span.at(step / _STEPS) for step in range(_STEPS + 1)]
    counts = [len(create_queues(sizes, variation, 0.0).weights) for variation in tried]
    found = []
    for queues in range(2, _FEW_QUEUES + 1):
        giving = [
            variation for variation, count in zip(tried, counts, strict=True) if count == queues
        ]
        found += giving[len(giving) // 2 :][:1]
    return found


def _efficiency(point: Point) -> str:
    return f"efficiency={point[-1]:.12g}"


def _facts(queues: PcsQueues) -> Mapping[str, Any]:
    limits = [*queues.thresholds, None]
    return {
        "queues": [
            {"up_to_gpu_seconds": limit, "weight": weight}
            for limit, weight in zip(limits, queues.weights, strict=True)
        ]
    }


def _limits(queues: PcsQueues) -> str:
    limits = "/".join(f"{limit:.12g}" for limit in queues.thresholds)
    return f"thresholds={limits}" if limits else ""


def _size(job: Job) -> float:
    """GPU-seconds on the fewest GPUs it runs on, of the type that is fastest for it."""
    return job.spec.least_gpus * job.least_seconds_on(job.spec.least_gpus)
