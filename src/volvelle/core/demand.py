"""CPUs and memory that a job wants for each of its GPUs, as far as is known of it (Synergy, OSDI'22).

A job with a profile (`volvelle.model.sensitivity`) wants the least with which it runs at full rate. A job
without one wants what its user declares (`JobSpec.cpus`, `JobSpec.memory_gb`), and of what is not declared
its proportional share. No job wants more than its nodes have.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

import numpy as np

from volvelle.core.compiled import compiled, compiled_later
from volvelle.core.stock import Standing, Stock
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.job import JobSpec
from volvelle.model.sensitivity import Sensitivity

Amounts = tuple[float, float]
"""CPUs and GB of memory, per GPU."""


class Declared(NamedTuple):
    """Facts of jobs: declared amounts per GPU, (2, jobs), 0 where there are none.

    profiles: by the place of the job.
    """

    amounts: FloatColumn
    profiles: Mapping[int, Sensitivity]

    @classmethod
    def of(cls, jobs: Iterable[tuple[JobSpec, Sensitivity | None]]) -> Self:
        """Of these jobs, with the profile that each is believed to have."""
        jobs = list(jobs)
        amounts = [(spec.cpus / spec.gpus, spec.memory_gb / spec.gpus) for spec, _ in jobs]
        profiles = {place: one for place, (_, one) in enumerate(jobs) if one is not None}
        return cls(np.ascontiguousarray(np.array(amounts).T), profiles)


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


class AllWants(NamedTuple):
    """`Wants` of several jobs: demands and fallbacks, (2, jobs) each, and profiles by place."""

    demand: FloatColumn
    fallback: FloatColumn
    profiles: Mapping[int, Sensitivity]

    def each(self) -> Iterator[Wants]:
        """The needs of one job after the other."""
        pairs = zip(self.demand.T.tolist(), self.fallback.T.tolist(), strict=True)
        for place, ((cpus, memory), fallback) in enumerate(pairs):
            yield Wants((cpus, memory), (fallback[0], fallback[1]), self.profiles.get(place))


def wants_of(declared: Declared, share: FloatColumn, most: FloatColumn) -> AllWants:
    """The wants of jobs whose GPUs have a proportional ``share`` and at ``most`` that: (2, jobs)."""
    demand, fallback = without_profiles(declared.amounts, share, most)
    for place, profile in declared.profiles.items():
        fallback[:, place] = profile.least_within(*share[:, place].tolist())
        demand[:, place] = profile.least_within(*most[:, place].tolist())
        demand[:, place] = np.maximum(demand[:, place], fallback[:, place])
    return AllWants(demand, fallback, declared.profiles)


def wants_where(declared: Declared, standing: Standing, stock: Stock) -> AllWants:
    """The wants of jobs where they stand."""
    return wants_of(declared, *amounts_at(standing, stock))


@compiled
def amounts_at(standing: Standing, stock: Stock) -> tuple[Floats, Floats]:
    """The proportional share per GPU of each job where it stands, and the most that it can have there."""
    jobs = len(standing.first) - 1
    share, most = np.full((2, jobs), np.inf), np.full((2, jobs), np.inf)
    for kind in range(2):
        for job in range(jobs):
            for k in range(standing.first[job], standing.first[job + 1]):
                there = stock.capacity[kind, standing.place[k]]
                share[kind, job] = min(share[kind, job], there / stock.gpus[standing.place[k]])
                most[kind, job] = min(most[kind, job], there / standing.gpus[k])
    return share, most


@compiled_later
def without_profiles(amounts: Floats, share: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Demand and fallback of jobs by the ``amounts`` that they declare; see `wants_of`."""
    demand, fallback = np.zeros_like(share), np.zeros_like(share)
    for kind in range(2):
        for job in range(share.shape[1]):
            wanted = amounts[kind, job]
            if wanted <= 0.0:  # nothing of a resource without end
                wanted = share[kind, job] if share[kind, job] < np.inf else 0.0
            demand[kind, job] = min(wanted, most[kind, job])
            fallback[kind, job] = min(demand[kind, job], share[kind, job])
    return demand, fallback
