"""How the training loss of generated jobs goes down.

Blox (EuroSys'24, section 5.3) lets 75 % of its jobs converge in 40 % of their training time, after the
observation in Philly (Jeon et al., ATC'19, as quoted there) that about so many come within 0.1 % of their
lowest loss by then. Curves are of the form that Optimus fits, ``1 / (a k + b) + c``, given as points: a
job that converges early is within ``converged_within`` of its lowest loss exactly at ``converged_at`` of its
work, any other only at `_LATE` of it. Losses begin at ten times the lowest, which is drawn between 0.05
and 2; these numbers are ours. Users declare the lowest loss.
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import LossPoint, Truth
from volvelle.workload.generators.base import JobColumns, Parameters

_FIRST = 10.0  # the loss before any work, in lowest losses
_LOWEST = (0.05, 2.0)
_LATE = 0.998
_POINTS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 25)])


class LossCurves(Parameters):
    """Parameters of the loss curves; by default jobs have none."""

    converging_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs that converge early; 0: no loss curves")
    ] = 0.0
    converged_at: Annotated[
        float, Field(gt=0, lt=_LATE, description="share of their work after which they have")
    ] = 0.4
    converged_within: Annotated[
        float,
        Field(gt=0, lt=1, description="how near to the lowest loss that is, as a share of it"),
    ] = 0.001

    def converge(self, rng: np.random.Generator, columns: JobColumns) -> JobColumns:
        """The jobs with loss curves, where the parameters ask for them."""
        if not self.converging_share:
            return columns
        count = len(columns.work)
        early = rng.random(count) < self.converging_share
        lowest = rng.uniform(*_LOWEST, count)
        at = np.where(early, self.converged_at, _LATE)
        truths = columns.truths or [Truth(work=work) for work in columns.work.tolist()]
        shapes = {share: self._shape(share) for share in (self.converged_at, _LATE)}
        return replace(
            columns,
            lowest_losses=lowest,
            truths=[
                _with_curve(truth, low, *shapes[share])
                for truth, low, share in zip(truths, lowest.tolist(), at.tolist(), strict=True)
            ],
        )

    def _shape(self, at: float) -> tuple[FloatColumn, FloatColumn]:
        """Points of a curve whose lowest loss is 1: shares of the work, and the loss after them.

        It begins at `_FIRST`, is within ``converged_within`` at the share ``at``, and ends at 1.
        """
        x = np.union1d(_POINTS, at)
        drop = _FIRST - 1.0
        # With r = a / b of Optimus' form: (l(x) - 1) / drop = (1 - x) / (1 + r x).
        r = (drop * (1.0 - at) / self.converged_within - 1.0) / at
        return x, 1.0 + drop * (1.0 - x) / (1.0 + r * x)


def _with_curve(truth: Truth, lowest: float, x: FloatColumn, losses: FloatColumn) -> Truth:
    curve = zip((x * truth.work).tolist(), (lowest * losses).tolist(), strict=True)
    return Truth(
        work=truth.work,
        throughput=truth.throughput,
        regimes=truth.regimes,
        failures=truth.failures,
        spread_slowdown=truth.spread_slowdown,
        loss_curve=tuple(LossPoint(work, loss) for work, loss in curve),
    )
