"""CPUs and memory that a job wants for each of its GPUs, as far as is known of it (Synergy, OSDI'22).

A job with a profile (`volvelle.model.sensitivity`) wants the least with which it runs at full rate. A job
without one wants what its user declares (`JobSpec.cpus`, `JobSpec.memory_gb`), and of what is not declared
its proportional share. No job wants more than its nodes have.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.job import JobSpec
from volvelle.model.sensitivity import Sensitivity

Amounts = tuple[float, float]
"""CPUs and GB of memory, per GPU."""


class Wants(NamedTuple):
    """A job's ``demand``, and the ``fallback`` that leaves it no slower than its proportional share.

    The fallback is never above the demand, nor above that share.
    """

    demand: Amounts
    fallback: Amounts
    profile: Sensitivity | None

    def value(self, amounts: Amounts) -> float:
        """The share of its rate left with ``amounts``; without a profile, how much of its demand they are."""
        if self.profile is not None:
            return self.profile.share(*amounts)
        return min(
            (
                min(has / wanted, 1.0)
                for has, wanted in zip(amounts, self.demand, strict=True)
                if wanted
            ),
            default=1.0,
        )


def wants_of(spec: JobSpec, profile: Sensitivity | None, share: Amounts, most: Amounts) -> Wants:
    """The demand of a job whose GPUs have a proportional ``share`` and, at the ``most``, that each."""
    if profile is not None:
        fallback = profile.least_within(*share)
        cpus, memory = profile.least_within(*most)
        return Wants((max(cpus, fallback[0]), max(memory, fallback[1])), fallback, profile)
    demand = (
        min(_declared(spec.cpus / spec.gpus, share[0]), most[0]),
        min(_declared(spec.memory_gb / spec.gpus, share[1]), most[1]),
    )
    return Wants(demand, (min(demand[0], share[0]), min(demand[1], share[1])), None)


def _declared(amount: float, share: float) -> float:
    """The declaration, or the share where there is none; nothing of a resource without end."""
    return amount or (share if np.isfinite(share) else 0.0)
