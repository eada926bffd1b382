"""Whether a job could ever run here, and on which GPU types."""

from collections.abc import Mapping

from volvelle.core.resources import Resources
from volvelle.model.job import JobSpec, Truth


class Eligibility:
    """Answers for one set of nodes, made anew when one joins. limits: the most GPUs of each pool's jobs."""

    def __init__(
        self,
        resources: Resources,
        limits: Mapping[str, float],
        *,
        whole_gpus: bool,
        elastic: bool,
    ) -> None:
        self._resources = resources
        self._types = resources.types
        self._gpus = resources.gpus_by_type(up_only=False).tolist()
        self.most_gpus = max(self._gpus, default=0.0)
        """Of one type, on all nodes."""
        self._limits = limits
        self._whole_gpus = whole_gpus
        self._elastic = elastic
        self._allowed: dict[tuple[str, ...], tuple[int, float]] = {}

    def obstacle(self, spec: JobSpec) -> str:
        """Why ``spec`` could not run even on an empty cluster; nothing if it could."""
        need = self._least(spec)
        bits, most = self._allowed_types(spec.gpu_types)
        if not bits:
            have = ", ".join(filter(None, self._types)) or "untyped GPUs"
            return f"wants GPUs of type {' or '.join(spec.gpu_types)}, the cluster has {have}"
        if need > most:
            return f"wants {need:g} GPUs, the cluster has {most:g}"
        limit = self._limits.get(spec.pool)
        if limit is not None and need > limit:
            return f"wants {need:g} GPUs, its pool {spec.pool!r} has {limit:g}"
        if self._whole_gpus and spec.gpus != int(spec.gpus):
            return f"wants {spec.gpus:g} GPUs, the placement gives whole ones"
        return ""

    def useful_types(self, spec: JobSpec, believed: Truth) -> int:
        """The wished types on which the job fits and is believed to run at all, as bits."""
        bits, _ = self._allowed_types(spec.gpu_types)
        need = self._least(spec)
        for t in range(len(self._types)):
            useful = self._gpus[t] >= need and self._rate(believed, need, t) > 0
            if bits >> t & 1 and not useful:
                bits ^= 1 << t
        return bits

    def _rate(self, believed: Truth, gpus: float, gpu_type: int) -> float:
        """Units per second believed in the slowest regime, on a node poorest in CPUs and memory."""
        kind = self._types[gpu_type]
        starts = [
            0.0,
            *(one.start_work for one in believed.regimes if one.start_work < believed.work),
        ]
        rate = min(believed.rate(gpus, kind, 1, start) for start in starts)
        if believed.sensitivity is None:
            return rate
        return rate * believed.sensitivity.share(*self._resources.least_amounts(gpu_type))

    def _least(self, spec: JobSpec) -> float:
        """The fewest GPUs on which the policy lets the job run."""
        return spec.least_gpus if self._elastic else spec.gpus

    def _allowed_types(self, wished: tuple[str, ...]) -> tuple[int, float]:
        """The GPU types that will do, as bits, and the most GPUs there are of one of them."""
        if wished not in self._allowed:
            bits, most = 0, 0.0
            for t, gpu_type in enumerate(self._types):
                if not wished or gpu_type in wished:
                    bits |= 1 << t
                    most = max(most, self._gpus[t])
            self._allowed[wished] = (bits, most)
        return self._allowed[wished]


def mean_rate(believed: Truth, gpus: float, gpu_type: str, work_done: float) -> float:
    """Units per second believed from ``work_done`` to the end, on ``gpus`` GPUs of one node."""
    if not believed.regimes:
        return believed.rate(gpus, gpu_type)
    seconds, done = 0.0, work_done
    starts = [regime.start_work for regime in believed.regimes if regime.start_work > work_done]
    for end in [*starts, believed.work]:
        stop = min(end, believed.work)
        seconds += max(stop - done, 0.0) / believed.rate(gpus, gpu_type, 1, done)
        done = max(done, stop)
    if seconds == 0.0:
        return believed.rate(gpus, gpu_type, 1, work_done)
    return (believed.work - work_done) / seconds
