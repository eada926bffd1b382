"""What a search varies of PCS: WFQ(T, W, zeta_min), or T and W for each GPU type (OSDI'24, section 3.3).

T is searched by its logarithm from 0.05 (a factor of about two between the sizes in a queue) to where there
is one queue; W from 0 to 6, at which a queue has 1/400 of the weight of the one before.
The paper gives no ranges. Searches begin with the extremes and with two to five queues, which is where its
own configurations lie.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from volvelle.core.space import Dimension, Point, Space
from volvelle.model.job import Job
from volvelle.model.throughput import AnyThroughput, PerBatchSize, PerType
from volvelle.policies.pcs.queues import Queues, create_queues, one_queue_variation

_LEAST_VARIATION = 0.05
_MOST_DISPARITY = 6.0
_FEW_QUEUES = 5
_TYPICAL_DISPARITIES = (3.0, 1.0)
_STEPS = 40  # of T between its bounds
_DISPARITY = "disparity: queue i weighs exp(-i W)"


def wfq_space(jobs: Sequence[Job]) -> Space:
    """T, W and zeta_min for jobs of these sizes, GPU-seconds on the fewest GPUs they run on."""
    sizes = [_size(job) for job in jobs]
    variation = _variation(sizes)

    def write(point: Point) -> str:
        limits = _limits(create_queues(sizes, point[0], point[1]))
        efficiency = f"efficiency={point[2]:.12g}"
        return f"{limits},disparity={point[1]:.12g},{efficiency}" if limits else efficiency

    def facts(point: Point) -> Mapping[str, Any]:
        found = create_queues(sizes, point[0], point[1])
        limits = [*found.thresholds, None]
        return {
            "queues": [
                {"up_to_gpu_seconds": limit, "weight": weight}
                for limit, weight in zip(limits, found.weights, strict=True)
            ]
        }

    most = variation.high
    return Space(
        (
            variation,
            Dimension("W", 0.0, _MOST_DISPARITY, _DISPARITY),
            Dimension("zeta_min", 0.0, 1.0, "efficiency up to which a job gets GPUs first"),
        ),
        write,
        starts=(
            (most, 0.0, 0.0),  # first in, first out
            (_LEAST_VARIATION, 1.0, 0.6),  # close to shortest first
            *((few, disparity, 0.6) for disparity in _TYPICAL_DISPARITIES for few in _few(sizes)),
        ),
        facts=facts,
    )


def typed_space(jobs: Sequence[Job]) -> Space:
    """T, and W for each GPU type of which the jobs know how fast they are (else one for all)."""
    sizes = [_size(job) for job in jobs]
    types = sorted({kind for job in jobs for kind in _types_of(job) if kind})
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


def _limits(queues: Queues) -> str:
    limits = "/".join(f"{limit:.12g}" for limit in queues.thresholds)
    return f"thresholds={limits}" if limits else ""


def _size(job: Job) -> float:
    """GPU-seconds on the fewest GPUs it runs on, of the type that is fastest for it."""
    least = job.spec.least_gpus
    return least * min(job.seconds_on(least, kind) for kind in _types_of(job))


def _types_of(job: Job) -> Sequence[str]:
    """The GPU types that will do for a job and of which it is known how fast it is there; "": any."""
    known = _known_types(job.truth.throughput)
    wished = job.spec.gpu_types or known
    return [kind for kind in wished if not known or kind in known] or [""]


def _known_types(throughput: AnyThroughput) -> Sequence[str]:
    if isinstance(throughput, PerBatchSize):
        return _known_types(throughput.batch_sizes[throughput.default])
    return list(throughput.types) if isinstance(throughput, PerType) else []
