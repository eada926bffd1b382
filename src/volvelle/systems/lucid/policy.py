"""Lucid (ASPLOS'23): when jobs share GPUs at all, and which suffer how much."""

import math
from collections.abc import Iterable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.units import HOUR
from volvelle.systems.lucid.binder import UNKNOWN, Binder, Limits

_MEDIUM, _JUMBO = 0.95, 0.85
"""Mean rates beside others, of the rate alone, below which a job is medium or jumbo."""
_SIXTHS = 6.0
"""Ten minutes, six of which are the hour over which arrivals are counted."""


@policies.register
class Lucid(Policy):
    """The least expected GPU time first, without preemption; two jobs that hardly suffer share GPUs."""

    name: ClassVar[str] = "lucid"
    source: ClassVar[str] = "Lucid (ASPLOS'23)"
    optimises: ClassVar[str] = "mean JCT where run times are predicted and jobs may share GPUs"
    work_conserving: ClassVar[bool] = False
    keeps_running: ClassVar[bool] = True
    gangs: ClassVar[bool] = True
    shares_in_place: ClassVar[bool] = True
    borrows: ClassVar[bool] = False
    columns: ClassVar[int] = 1
    """1 plus the sharing score of each job; infinite where it is not known, 0 before it is looked up."""

    capacity: Annotated[int, Field(ge=0, le=4)] = Field(
        2, description="sum of the sharing scores (0, 1 or 2) of two jobs on the same GPUs"
    )
    widest: Annotated[float, Field(gt=0)] = Field(
        8.0, description="most GPUs of jobs that share them: those of a node"
    )
    longer: Annotated[float, Field(gt=0)] = Field(
        2.0, description="most service of a job that joins another, over the other's"
    )
    busy: Annotated[float, Field(ge=0)] = Field(
        0.0, description="jobs in ten minutes, over the last hour, above which jobs share GPUs"
    )

    _arrivals: list[float] = PrivateAttr(default_factory=list)
    """When jobs were submitted in the last hour."""
    _submitted: int = PrivateAttr(default=0)
    """Jobs that were counted."""

    @property
    def shares_gpus(self) -> bool:
        """Two jobs may run on the same GPUs."""
        return True

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where of no job it is known how fast it is beside others."""
        if not any(believed.beside for _, believed in jobs):
            raise Problem(
                f"policy {self.name!r} lets jobs share GPUs, and of no job is it believed how fast it is "
                "beside others",
                mend="use a trace that says so, as with --format gavel:throughputs=FILE,sharing=true, and an "
                "estimator that knows it, as --estimator oracle or profiled-sharing",
                usage=True,
            )

    def allocate(self, view: View) -> Allocation:
        """Give jobs that wait, by their expected service, a partner or GPUs of their own."""
        limits = Limits(self.capacity, self.widest, self.longer)
        binder = Binder(view, self._scores(view), limits)
        if self._is_busy(view):
            binder.pack()
        else:
            binder.serve_in_order()
        return binder.allocation

    def _is_busy(self, view: View) -> bool:
        """Whether more than `busy` jobs came in ten minutes, on average of the last hour; always, if 0."""
        if self.busy == 0.0:
            return True
        jobs = view.jobs
        new = jobs.number >= self._submitted
        if new.any():
            self._arrivals += jobs.submit_time[new].tolist()
            self._submitted = int(jobs.number[-1]) + 1
        self._arrivals = [time for time in self._arrivals if time > view.now - HOUR]
        return len(self._arrivals) / _SIXTHS > self.busy

    @staticmethod
    def _scores(view: View) -> FloatColumn:
        known: FloatColumn = view.jobs.own[0]
        for row in np.flatnonzero(known == 0.0).tolist():
            number = int(view.jobs.number[row])
            believed, gpus = view.believed(number), float(view.jobs.gpus[row])
            known[row] = 1.0 + _score(believed, gpus, view.gpu_types)
        return known - 1.0


def _score(believed: Truth, gpus: float, gpu_types: tuple[str, ...]) -> float:
    """How much a job suffers beside others that fit beside it: 0, 1 or 2."""
    parts = [
        model.rate(gpus, kind) / believed.rate(gpus, kind)
        for kind in gpu_types
        for model in believed.beside.values()
        if believed.rate(gpus, kind) > 0.0 and model.rate(gpus, kind) > 0.0
    ]
    if not parts:
        return UNKNOWN
    mean = math.fsum(parts) / len(parts)
    return float(mean < _MEDIUM) + float(mean < _JUMBO)
