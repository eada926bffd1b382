"""The base of generators: typed parameters, a citation, and a seeded draw of one workload.

Generators draw whole columns with NumPy (`JobColumns`) and make the jobs from them in one pass, so
that a million jobs take seconds. Work is in 1-GPU seconds throughout: a job of ``w`` units that
holds ``g`` GPUs of a linear model runs ``w / g`` seconds.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from volvelle.core.registry import Part, Registry
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, JobClass, JobSpec, Reward, Truth
from volvelle.workload.workload import Workload

_Absent = TypeVar("_Absent", None, float)


class Parameters(BaseModel):
    """Validated values; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Generator(Parameters, Part, ABC):
    """A distribution over workloads.

    ``name`` is what the command line calls it, ``source`` says where its numbers come from. The
    same parameters and the same state of ``rng`` give the same workload.
    """

    @abstractmethod
    def generate(self, rng: np.random.Generator) -> Workload:
        """Draw one workload."""


generators: Registry[Generator] = Registry(
    "generator", "generators", "volvelle.workload.generators", "volvelle.generators"
)


@dataclass(frozen=True)
class JobColumns:
    """One entry for each job, in order of submission; None where the workload has no such thing.

    ``work`` is in 1-GPU seconds; ``min_gpus`` marks elastic jobs (up to ``gpus``). ``truths``
    replaces the plain linear truth of ``work`` where jobs adapt their batch size.
    """

    submit_times: FloatColumn
    gpus: FloatColumn
    work: FloatColumn
    min_gpus: FloatColumn | None = None
    weights: FloatColumn | None = None
    users: Sequence[str] | None = None
    pools: Sequence[str] | None = None
    names: Sequence[str] | None = None
    classes: Sequence[JobClass] | None = None
    rewards: Sequence[tuple[Reward, ...]] | None = None
    estimates: FloatColumn | None = None
    lowest_losses: FloatColumn | None = None
    truths: Sequence[Truth] | None = None

    @property
    def durations(self) -> FloatColumn:
        """Seconds each job takes on the GPUs it asks for, at its first batch size."""
        return self.work / self.gpus


def workload_of(columns: JobColumns, name: str) -> Workload:
    """The jobs of ``columns``, numbered from 0. Submission times must ascend."""
    specs = _specs(columns)
    truths: Iterable[Truth] = (
        columns.truths
        if columns.truths is not None
        else (Truth(work=work) for work in columns.work.tolist())
    )
    return Workload([Job(spec, truth) for spec, truth in zip(specs, truths, strict=True)], name)


def _specs(columns: JobColumns) -> Iterable[JobSpec]:
    rows = zip(
        range(len(columns.submit_times)),
        columns.submit_times.tolist(),
        _shared(columns.gpus.tolist()),
        _values(columns.min_gpus, None),
        _values(columns.weights, 1.0),
        columns.users if columns.users is not None else repeat(""),
        columns.pools if columns.pools is not None else repeat(""),
        columns.names if columns.names is not None else repeat(""),
        columns.classes if columns.classes is not None else repeat(JobClass.BEST_EFFORT),
        columns.rewards if columns.rewards is not None else repeat(()),
        _values(columns.estimates, None),
        _values(columns.lowest_losses, None),
        strict=False,
    )
    for index, submit, gpus, least, weight, user, pool, name, kind, rewards, estimate, loss in rows:
        yield JobSpec(
            id=str(index),
            submit_time=submit,
            gpus=gpus,
            min_gpus=least,
            user=user,
            pool=pool,
            name=name,
            job_class=kind,
            rewards=rewards,
            weight=weight,
            estimate_seconds=estimate,
            lowest_loss=loss,
        )


def _shared(values: list[float]) -> Iterable[float]:
    """The same, equal ones as one object: few numbers of GPUs stand in many jobs."""
    known: dict[float, float] = {}
    return (known.setdefault(value, value) for value in values)


def _values(column: FloatColumn | None, absent: _Absent) -> Iterable[float | _Absent]:
    return repeat(absent) if column is None else column.tolist()
