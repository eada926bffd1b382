"""Run times from the past, rates from a profile (Lucid, ASPLOS'23)."""

from typing import ClassVar

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, estimators
from volvelle.estimate.basic import disclosed
from volvelle.model.job import Truth
from volvelle.model.throughput import named_types
from volvelle.systems.helios.estimator import SimilarNames


@estimators.register
class ProfiledSharing(SimilarNames):
    """Run times as `similar-names`, and the true rates, alone and beside others, as if profiled."""

    name: ClassVar[str] = "profiled-sharing"
    source: ClassVar[str] = "Lucid (ASPLOS'23)"
    needs_truth: ClassVar[bool] = True

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """A job with the true rates and as much work as it does in the time that is expected."""
        truth, spec, past = disclosed(job, self.name), job.spec, super().believe(job, seed).truth
        seconds = past.work / past.rate(spec.gpus, spec.first_type)
        kinds = spec.gpu_types or named_types(truth.throughput)
        rate = max(truth.rate(spec.gpus, kind) for kind in kinds)
        return Belief(Truth(work=seconds * rate, throughput=truth.throughput, beside=truth.beside))
