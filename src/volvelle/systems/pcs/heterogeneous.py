"""PCS on several GPU types: queues as entities of Gavel's water filling (PCS, OSDI'24, sections 3.3 and 6).

Queue q has the weight w(q, t) = exp(-q W_t), normalised over the queues, on GPU type t: the GPUs
w(q, t) C_t of each type are its own. Their worth to the first job i of the queue that can have more is
that job's need, and a program (`volvelle.systems.gavel`) raises the first jobs of all queues together

    maximise  L   where  level(i) after  >=  level(i) before + L need(i)
    need(i) = sum over t of w(q, t) C_t T(i, t) / P(i)

in levels as in `gavel-las`: GPUs, of a mix in proportion to the cluster's. Queues to which different types
matter exchange them: where the first jobs can use all that is their queue's, L is at least 1, and nobody
would do better on the queue's own GPUs. A job that can have no more is held; the next of its queue takes its
place, first in, first out, and w is normalised anew over the queues that still have somebody. Nobody further
is asked where no GPUs are left that it could use.

Where every type is as fast as every other no program is needed. With the same W on all types that is plain
PCS on one type with all the GPUs.

Departures. The paper says no more than that weighted fairness across entities and FIFO within map to Gavel's
primitives, and that there is a W for each type: what a weight on one type entitles to is our reading. Jobs
are gangs on the GPUs they request, served in rounds, so nothing stands for zeta_min.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from volvelle.core.columns import COUNT, GPUS
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.policy import policies
from volvelle.core.space import Space
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn, Ints
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.tolerances import LEAST_DIVISOR, SAME_SHARE
from volvelle.policies import rounds
from volvelle.policies.claims import FRACTIONS, NOTHING, by_number, parameters, set_alone
from volvelle.policies.rounds import give, rates_of, what_is_due
from volvelle.systems.gavel.base import GavelProgram
from volvelle.systems.gavel.demand import Demand, raise_together
from volvelle.systems.gavel.las import alike, normaliser, split_over_types, types_alike
from volvelle.systems.pcs.policy import Sizes
from volvelle.systems.pcs.queues import read_sizes
from volvelle.systems.pcs.shares import join
from volvelle.systems.pcs.space import typed_space

_QUEUE = 0
"""Own column: 1 + the queue of a job, 0 before it has one; the next one is its size, as PCS has them."""

_ANY = ""


def read_disparities(written: str) -> dict[str, float]:
    """W by GPU type, written ``a100:2/k80:0.5``; one number is for all, under "". Raises ValueError."""
    disparities: dict[str, float] = {}
    for part in written.split("/"):
        kind, _, value = part.rpartition(":")
        try:
            disparities[kind.strip()] = float(value)
        except ValueError:
            raise ValueError(f"cannot read {part!r} as W of a GPU type, as in a100:2") from None
    if len(disparities) > 1 and _ANY in disparities:
        raise ValueError("give one W, or one for each GPU type, as in a100:2/k80:0.5")
    return disparities


def _disparities(written: str) -> str:
    read_disparities(written)
    return written


@policies.register
class PcsGavel(GavelProgram):
    """Predictability-centric scheduling over GPU types: a job's queue has a weight on each of them."""

    name: ClassVar[str] = "pcs-gavel"
    source: ClassVar[str] = "PCS (OSDI'24) sections 3.3 and 6, through Gavel (OSDI'20)"
    optimises: ClassVar[str] = "predictability, over GPU types"
    columns: ClassVar[int] = 2

    thresholds: Sizes = Field(
        "", description="largest sizes of all queues but the last, GPU-seconds: 1627/969473"
    )
    disparity: Annotated[str, AfterValidator(_disparities)] = Field(
        "0", description="W: queue i weighs exp(-i W); by GPU type, as in a100:2/k80:0.5"
    )

    _thresholds: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))

    @model_validator(mode="after")
    def _read(self) -> Self:
        self._thresholds = np.array(read_sizes(self.thresholds))
        if self._on_all_types:
            queues = len(self._thresholds) + 1
            weights = self.weights((_ANY,))[:, 0]
            self._memory = np.concatenate([self._memory, [queues], self._thresholds, weights])
        return self

    @property
    def _on_all_types(self) -> bool:
        """Whether the queues weigh the same on every type, so that the kernel knows their weights."""
        return _ANY in read_disparities(self.disparity) and not self.space_sharing

    @property
    def decision(self) -> Callable[..., float]:
        """A round by the closed form where all types are alike; else Python solves the program."""
        return decide if self._on_all_types else rounds.decide

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """T, and W for each GPU type."""
        return typed_space(jobs)

    def weights(self, gpu_types: Sequence[str]) -> Floats:
        """The weights, (queues, GPU types); 1 for the first queue."""
        return _weights(self.disparity, tuple(gpu_types), len(self._thresholds) + 1)

    def fractions(self, view: View, demand: Demand) -> Floats:
        """Water filling over the queues, or its closed form; newcomers take their queue."""
        jobs = view.jobs
        join(jobs.matrix, len(jobs), COUNT, view.rates(), self._thresholds)
        queue = view.jobs.own[_QUEUE].astype(np.int64) - 1
        weights = self.weights(view.gpu_types)
        order = np.argsort(view.jobs.number)
        if types_alike(demand):
            alone = (demand.gpus, demand.able, queue, weights, demand.capacity)
            return split_over_types(demand, fill_alike(order, *alone))
        fractions, gap = fill_queues(demand, queue, weights, order, self.time_limit)
        self._gaps.note(gap)
        return fractions

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` also where W is given by GPU type and one has none."""
        super().refuse(cluster, jobs)
        known = read_disparities(self.disparity)
        unknown = [] if _ANY in known else [kind for kind in cluster.gpu_types if kind not in known]
        if unknown:
            raise Problem(
                f"policy {self.name!r} has a disparity for {', '.join(known)}, and GPU type "
                f"{unknown[0]!r} has none",
                mend=f"give one, as in disparity={self.disparity}/{unknown[0]}:1",
                usage=True,
            )


@cache
def _weights(disparity: str, gpu_types: tuple[str, ...], queues: int) -> Floats:
    known = read_disparities(disparity)
    by_type = [known.get(kind, known.get(_ANY, 0.0)) for kind in gpu_types]
    weights: Floats = np.exp(-np.clip(np.outer(np.arange(queues), by_type), -600.0, 600.0))
    return weights


def own_gpus(weights: Floats, rising: BoolColumn, capacity: FloatColumn) -> Floats:
    """The GPUs of each type that belong to each of the ``rising`` queues; none to the others."""
    present = np.where(rising[:, None], np.maximum(weights, LEAST_DIVISOR), 0.0)
    own: Floats = capacity * present / present.sum(axis=0)
    return own


@compiled
def fill_alike(
    order: Ints, gpus: Floats, able: Bools, queue: Ints, weights: Floats, capacity: Floats
) -> Floats:
    """The part of its time each job runs, where all types are alike; ``order``: by submission."""
    queues, types = weights.shape
    wanted, share = np.zeros(queues), np.zeros(queues)
    for row in range(len(gpus)):
        if able[row]:
            wanted[queue[row]] += gpus[row]
    rising, free = wanted > 0.0, capacity.sum()
    while free > 0.0 and rising.any():
        speed, all_speeds, step = np.zeros(queues), 0.0, np.inf
        for gpu_type in range(types):
            present = np.where(rising, np.maximum(weights[:, gpu_type], LEAST_DIVISOR), 0.0)
            total = 0.0
            for each in present:
                total += each
            speed += capacity[gpu_type] * present / total
        for each in speed:
            all_speeds += each
        for at in np.flatnonzero(rising):
            step = min(step, (wanted[at] - share[at]) / speed[at])
        step = min(step, free / all_speeds)
        for at in np.flatnonzero(rising):
            rising[at] = (wanted[at] - share[at]) / speed[at] > step
            share[at] = share[at] + step * speed[at] if rising[at] else wanted[at]
        free -= step * all_speeds
    fraction = np.zeros(len(queue))
    for row in order:
        if able[row]:  # all it can of what is left of its queue's share
            given = min(gpus[row], share[queue[row]])
            fraction[row] = given / gpus[row]
            share[queue[row]] -= given
    return fraction


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`): the closed form, if all types are alike."""
    due, capacity, own = what_is_due(jobs, cluster, memory), cluster.capacity, parameters(memory)
    if due == FRACTIONS:
        rates = rates_of(jobs, cluster, memory)
        if not alike(rates, capacity, cluster.quota):
            return -INFINITY
        target, able = np.zeros(rates.shape), np.zeros(jobs.shape[1], np.bool_)
        for gpu_type in range(len(rates)):
            able |= rates[gpu_type] > 0.0
        if able.any():
            queues = int(own[0])
            join(jobs, jobs.shape[1], COUNT, cluster.rates, own[1:queues])
            queue = jobs[COUNT + _QUEUE].astype(np.int64) - 1
            weights = np.zeros((queues, len(capacity)))
            for gpu_type in range(len(capacity)):
                weights[:, gpu_type] = own[queues:]
            fraction = fill_alike(by_number(jobs), jobs[GPUS], able, queue, weights, capacity)
            for gpu_type in range(len(target)):
                target[gpu_type] = fraction * (capacity[gpu_type] / capacity.sum())
        set_alone(jobs, cluster.now, memory, target)
    elif due != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)


def fill_queues(
    demand: Demand, queue: IntColumn, weights: Floats, order: IntColumn, seconds: float
) -> tuple[Floats, float]:
    """The fractions, and the largest gap; ``order``: rows by submission, ``seconds`` for a program."""
    jobs = len(demand.gpus)
    scale = normaliser(demand)
    level, gap = np.zeros(jobs), 0.0
    fractions = np.zeros((jobs + len(demand.pairs), len(demand.capacity)))
    out_of_reach = _OutOfReach(demand)
    waiting = order[demand.able[order]]
    while len(waiting):
        queues, first = np.unique(queue[waiting], return_index=True)
        heads = waiting[first]
        rising = np.zeros(len(weights), dtype=np.bool_)
        rising[queues] = True
        own = own_gpus(weights, rising, demand.capacity)
        need = np.zeros(jobs)
        need[heads] = (own[queues] * demand.rates[heads]).sum(axis=1) * scale[heads]
        need[heads] = np.maximum(need[heads] / demand.gpus[heads], LEAST_DIVISOR)
        asked = np.flatnonzero((level > 0.0) | (need > 0.0))
        few, pairs = demand.among(asked)
        rows = np.concatenate([asked, jobs + pairs])
        shared = raise_together(
            few,
            scale[asked],
            need[asked],
            level[asked] * (1 - SAME_SHARE),
            fractions[rows],
            seconds,
        )
        gap = max(gap, shared.gap)
        fractions[rows] = shared.fractions
        level += shared.level * need
        if shared.binding is None or not shared.binding.any():
            break
        held = asked[shared.binding]
        out_of_reach.note(held, fractions)
        waiting = waiting[~np.isin(waiting, held)]
        waiting = waiting[~out_of_reach.of(waiting)]
    return fractions, gap


_IDLE = 1e-6
"""The least part of its time that a job must have left to be kept down by want of GPUs."""


class _OutOfReach:
    """GPU types that can do no more for anybody, or for anybody of a pool.

    A job that can have no more though it has time left proves it of the types it could run on: whoever got
    some of one could have left it to this job.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._closed = np.zeros((len(demand.quota) + 1, len(demand.capacity)), dtype=np.bool_)

    def note(self, held: IntColumn, fractions: Floats) -> None:
        """These can have no more than ``fractions``."""
        demand, jobs = self._demand, len(self._demand.gpus)
        busy = fractions[:jobs].sum(axis=1)
        shared = fractions[jobs:].sum(axis=1)
        np.add.at(busy, demand.pairs.first, shared)
        np.add.at(busy, demand.pairs.second, shared)
        for row in held[busy[held] < 1.0 - _IDLE].tolist():
            able, pool = demand.rates[row] > 0.0, int(demand.pool[row])
            self._closed[pool + 1 if pool >= 0 else slice(None), able] = True

    def of(self, rows: IntColumn) -> BoolColumn:
        """Which of ``rows`` run on none but such types."""
        closed = self._closed[self._demand.pool[rows] + 1]
        return np.asarray((closed | (self._demand.rates[rows] <= 0.0)).all(axis=1))
