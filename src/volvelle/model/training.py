"""How a job trains: measured tables of an application (Pollux, OSDI'21, its simulator's job model).

Training advances in **progress**: iterations at the application's initial batch size. A larger batch
makes more progress an iteration, but less than in proportion. With the squared norm ``sqr`` and the
variance ``var`` of the gradient, at ``scale`` times the initial batch size an iteration is worth

    gain = (var + sqr) / (var / scale + sqr)

initial ones, and the job's **goodput** is gain over the seconds of an iteration. Both statistics were
measured for every epoch at some batch sizes; between these they are interpolated linearly.

An iteration is ``passes`` steps on a local batch each (gradients are accumulated where a GPU cannot
hold its share): ``step + (passes - 1) (step - sync)`` seconds, with step and exchange times measured by
placement. A placement is the GPUs on each node in ring order; where its smallest rotation was measured
its times are interpolated over the local batch, otherwise over (nodes, GPUs, local batch) among the
means of all that was measured, as Delaunay simplices (needs scipy), with at most 16 nodes; what lies
outside takes the times of the nearest point measured. A single GPU whose batch exceeds the initial one
makes two passes, since one gradient alone says nothing about its noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import FloatColumn
from volvelle.model.extras import install
from volvelle.model.problems import Problem
from volvelle.model.tolerances import WHOLE_SAMPLE

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator


MOST_NODES = 16
"""Nodes beyond which placements were not measured."""
MOST_GPUS = 64
"""GPUs beyond which placements were not measured."""


class StepTime(NamedTuple):
    """Seconds of a step, and how much of it the gradients' exchange adds."""

    step: float
    sync: float


class Passes(NamedTuple):
    """How an iteration is made: ``passes`` steps on ``local`` samples a GPU, ``batch_size`` in all."""

    local: int
    passes: int
    batch_size: int


class StepTimes:
    """Step times by placement and local batch.

    placements: rows (local batch, step seconds, sync seconds) by placement, the digits of its GPUs
    on each node. scalability: rows (nodes, GPUs, local batch, step seconds, sync seconds).
    """

    def __init__(
        self,
        placements: Mapping[str, Sequence[tuple[float, float, float]]],
        scalability: Sequence[Sequence[float]],
    ) -> None:
        self._curves = {
            placement: np.array(sorted(rows)).T for placement, rows in placements.items()
        }
        self._scalability = scalability
        self._known: dict[tuple[tuple[int, ...], float], StepTime] = {}

    def __eq__(self, other: object) -> bool:
        """Whether both tables say the same."""
        if not isinstance(other, StepTimes) or self._curves.keys() != other._curves.keys():
            return False
        same = all(np.array_equal(self._curves[key], other._curves[key]) for key in self._curves)
        return same and list(self._scalability) == list(other._scalability)

    __hash__ = None  # type: ignore[assignment]

    @property
    def local_batches(self) -> FloatColumn:
        """Every local batch measured, ascending."""
        return np.unique(np.concatenate([curve[0] for curve in self._curves.values()]))

    def at(self, counts: tuple[int, ...], local: float) -> StepTime:
        """The times on ``counts`` GPUs by node, in ring order."""
        known = self._known.get((counts, local))
        if known is None:
            known = self._known[counts, local] = self._interpolated(counts, local)
        return known

    def _interpolated(self, counts: tuple[int, ...], local: float) -> StepTime:
        placement = min(counts[i:] + counts[:i] for i in range(len(counts)))
        curve = self._curves.get("".join(map(str, placement)))
        if curve is not None:
            sizes, step, sync = curve
            return StepTime(
                float(np.interp(local, sizes, step)), float(np.interp(local, sizes, sync))
            )
        point = (min(len(counts), MOST_NODES), sum(counts), local)
        step, sync = self._between([point])[0]
        if math.isnan(step):
            step, sync = self._nearest(point)
        return StepTime(float(step), float(sync))

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        """(points, 5): nodes, GPUs, local batch, and the mean times over placements alike in these."""
        alike: dict[tuple[float, float, float], list[tuple[float, float]]] = {}
        for placement, curve in self._curves.items():
            gpus = sum(map(int, placement))
            for local, step, sync in curve.T.tolist():
                alike.setdefault((len(placement), gpus, local), []).append((step, sync))
        means = [(*key, *np.mean(times, axis=0)) for key, times in sorted(alike.items())]
        return np.array([*means, *self._scalability])

    @cached_property
    def _between(self) -> "LinearNDInterpolator":
        try:
            from scipy.interpolate import LinearNDInterpolator  # noqa: PLC0415 - an extra
        except ImportError:
            raise Problem(
                "step times of placements that were not measured are interpolated with scipy, "
                "which is not installed",
                mend=install("goodput"),
            ) from None
        return LinearNDInterpolator(self._points[:, :3], self._points[:, 3:])

    def _nearest(self, point: tuple[float, float, float]) -> FloatColumn:
        apart = np.abs(self._points[:, :3] - point)
        nearest: FloatColumn = self._points[np.lexsort(apart.T)[0], 3:]
        return nearest


@dataclass(frozen=True, eq=False)
class Application:
    """The measurements of one application. ``batch_sizes`` (B) ascend; tables are (B, epochs).

    progress: initial iterations after each epoch; the first of the batch sizes to get there counts.
    """

    name: str
    steps: StepTimes
    batch_sizes: FloatColumn
    progress: FloatColumn
    iterations: NDArray[np.float64]
    grad_sqr: NDArray[np.float64]
    grad_var: NDArray[np.float64]
    least_local: int
    most_local: int

    def __eq__(self, other: object) -> bool:
        """Whether both were measured alike."""
        return isinstance(other, Application) and _alike(self, other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def initial_batch(self) -> int:
        """The batch size that progress is counted in."""
        return int(self.batch_sizes[0])

    @property
    def most_batch(self) -> int:
        """The largest batch size."""
        return int(self.batch_sizes[-1])

    def passes(self, batch_size: int, gpus: int) -> Passes:
        """How GPUs share a batch: rounded up to whole samples a GPU, at most `most_batch` in all."""
        share = math.ceil(batch_size / gpus - WHOLE_SAMPLE)
        passes = math.ceil(share / self.most_local - WHOLE_SAMPLE)
        if gpus == 1 and batch_size > self.initial_batch:
            passes = max(passes, 2)
        local = math.ceil(share / passes - WHOLE_SAMPLE)
        return self.limited(local, passes, gpus)

    def limited(self, local: int, passes: int, gpus: int) -> Passes:
        """The same with a local batch that keeps the whole within `most_batch`."""
        local = min(local, self.most_batch // (gpus * passes))
        return Passes(local, passes, local * passes * gpus)

    def iteration_seconds(self, counts: tuple[int, ...], how: Passes) -> float:
        """Seconds of an iteration on ``counts`` GPUs by node."""
        step, sync = self.steps.at(counts, how.local)
        return step + (how.passes - 1) * (step - sync)

    def gradient(self, batch_size: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient in an epoch (from 0)."""
        sizes = self.batch_sizes
        return (
            float(np.interp(batch_size, sizes, self.grad_sqr[:, epoch])),
            float(np.interp(batch_size, sizes, self.grad_var[:, epoch])),
        )

    def goodput(self, counts: tuple[int, ...], how: Passes, epoch: int) -> float:
        """Initial iterations a second."""
        sqr, var = self.gradient(how.batch_size, epoch)
        scale = how.batch_size / self.initial_batch
        gain = (var + sqr) / (var / scale + sqr)
        return gain / self.iteration_seconds(counts, how)


@dataclass(frozen=True, eq=False)
class Training:
    """How one job trains: its application, and the batch size its user chose.

    tunable: whether the job may go over to other batch sizes where the policy wants it to.
    whole_seconds: epochs end on whole seconds, rounded, as in Pollux' simulator.
    declared: iterations at ``batch_size`` after 0, 1, ... epochs, the job's work as it is declared;
    what the job tells of its progress is in this unit.
    """

    application: Application
    batch_size: int
    declared: FloatColumn
    tunable: bool = True
    whole_seconds: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether both jobs train alike."""
        return isinstance(other, Training) and _alike(self, other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def boundaries(self) -> FloatColumn:
        """Progress at the start of every epoch, and at the end of the last."""
        return np.concatenate([[0.0], self.application.progress])

    @property
    def work(self) -> float:
        """Progress at which the training is over."""
        return float(self.boundaries[-1])

    def epoch(self, progress: float) -> int:
        """The epoch (from 0) that a job is in."""
        return int(np.searchsorted(self.boundaries, progress, side="right")) - 1

    def told(self, progress: float) -> float:
        """Work done as the job tells it."""
        return float(np.interp(progress, self.boundaries, self.declared))


def _alike(one: "Application | Training", other: "Application | Training") -> bool:
    """Whether all fields are equal, arrays entry by entry."""
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        if isinstance(getattr(one, field.name), np.ndarray)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in fields(one)
    )
