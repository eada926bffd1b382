"""The base of generators: typed parameters, a citation, and a seeded draw of one workload.

Generators draw whole columns with NumPy (`JobColumns`). Up to a million jobs are made from them in one
pass; of more, each is made from its row whenever it is looked at (`JobRows`). Work is in 1-GPU seconds
throughout: a job of ``w`` units that holds ``g`` GPUs of a linear model runs ``w / g`` seconds.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, overload

import numpy as np
from pydantic import BaseModel, ConfigDict

from volvelle.core.registry import Part, Registry
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, JobClass, JobSpec, Reward, Truth
from volvelle.workload.workload import Workload

_MOST_MADE = 1 << 20
"""Jobs that are made once and kept: of so many the memory is no matter, and they are looked at often."""
_STRETCH = 1 << 16
"""Jobs made from their columns together."""


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


class JobRows(Sequence[Job]):
    """The jobs of ``columns``, numbered from 0, each made anew whenever it is looked at.

    A row takes some 40 bytes, a job about 600.
    """

    def __init__(self, columns: JobColumns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns.submit_times)

    @overload
    def __getitem__(self, place: int) -> Job: ...

    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...

    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        rows = range(len(self))[place]
        if isinstance(rows, range):
            return list(self._made(rows))
        return next(self._made(range(rows, rows + 1)))

    def __iter__(self) -> Iterator[Job]:
        for first in range(0, len(self), _STRETCH):
            yield from self._made(range(first, min(first + _STRETCH, len(self))))

    def _made(self, rows: range) -> Iterator[Job]:
        part = slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)
        truths, work = self._columns.truths, self._columns.work
        made = truths[part] if truths else (Truth(work=one) for one in work[part].tolist())
        specs = _specs(self._columns, rows, part)
        return (Job(spec, truth) for spec, truth in zip(specs, made, strict=True))


def workload_of(columns: JobColumns, name: str) -> Workload:
    """The jobs of ``columns``, numbered from 0. Submission times must ascend."""
    jobs = JobRows(columns)
    return Workload(list(jobs) if len(jobs) <= _MOST_MADE else jobs, name)


def _specs(columns: JobColumns, numbers: range, part: slice) -> Iterable[JobSpec]:
    rows = zip(
        numbers,
        columns.submit_times[part].tolist(),
        _shared(columns.gpus[part].tolist()),
        _values(columns.min_gpus, part, None),
        _values(columns.weights, part, 1.0),
        _values(columns.users, part, ""),
        _values(columns.pools, part, ""),
        _values(columns.names, part, ""),
        _values(columns.classes, part, JobClass.BEST_EFFORT),
        _values(columns.rewards, part, ()),
        _values(columns.estimates, part, None),
        _values(columns.lowest_losses, part, None),
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


def _values(column: FloatColumn | Sequence[Any] | None, part: slice, absent: Any) -> Iterable[Any]:
    """The entries of a part of a column; ``absent`` for each where there is none."""
    if column is None:
        return repeat(absent)
    return column[part].tolist() if isinstance(column, np.ndarray) else column[part]
