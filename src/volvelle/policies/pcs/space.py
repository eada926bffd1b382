"""What a search varies of PCS: WFQ(T, W, zeta_min) (PCS, OSDI'24, section 3.3).

T is searched by its logarithm from 0.05 (a factor of about two between the sizes in a queue) to where there
is one queue; W from 0 to 6, at which a queue has 1/400 of the weight of the one before.
The paper gives no ranges.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from volvelle.core.space import Dimension, Point, Space
from volvelle.model.job import Job
from volvelle.policies.pcs.queues import Queues, create_queues, one_queue_variation

_LEAST_VARIATION = 0.05
_MOST_DISPARITY = 6.0


def wfq_space(jobs: Sequence[Job]) -> Space:
    """The space for jobs of these sizes, GPU-seconds on the fewest GPUs they run on."""
    sizes = [_size(job) for job in jobs]
    most = max(one_queue_variation(sizes), 2 * _LEAST_VARIATION)

    def queues(point: Point) -> Queues:
        return create_queues(sizes, point[0], point[1])

    def write(point: Point) -> str:
        limits = "/".join(f"{limit:.12g}" for limit in queues(point).thresholds)
        efficiency = f"efficiency={point[2]:.12g}"
        if not limits:
            return efficiency
        return f"thresholds={limits},disparity={point[1]:.12g},{efficiency}"

    def facts(point: Point) -> Mapping[str, Any]:
        found = queues(point)
        limits = [*found.thresholds, None]
        return {
            "queues": [
                {"up_to_gpu_seconds": limit, "weight": weight}
                for limit, weight in zip(limits, found.weights, strict=True)
            ]
        }

    return Space(
        (
            Dimension("T", _LEAST_VARIATION, most, "C^2 of sizes in a queue, at most", log=True),
            Dimension("W", 0.0, _MOST_DISPARITY, "disparity: queue i weighs exp(-i W)"),
            Dimension("zeta_min", 0.0, 1.0, "efficiency up to which a job gets GPUs first"),
        ),
        write,
        starts=(
            (most, 0.0, 0.0),  # first in, first out
            (most, 0.0, 0.6),
            (_LEAST_VARIATION, 1.0, 0.6),  # close to shortest first
            (most / 2.0, 3.0, 0.6),  # a few queues
        ),
        facts=facts,
    )


def _size(job: Job) -> float:
    least, types = job.spec.least_gpus, job.spec.gpu_types
    return least * job.seconds_on(least, types[0] if types else "")
