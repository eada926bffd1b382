"""Rates that jobs of a name showed while they ran, from which later jobs of that name are declared.

Progress reports give the rate of a job on so many GPUs of a type, over so many nodes. The latest
measurement counts, of the jobs of the same user and name: scripts change. Where a request does not say it
itself,

- its run time is the work that the latest job of the name reported, at the rate measured on its GPUs;
- its rates by GPUs and types are those measured, linear between them and in proportion beyond
  (`volvelle.model.throughput.through`), in 1-GPU seconds and rounded to two digits, so that the scheduler
  meets few different ones; a type without a measurement is taken to be as quick as the slowest with one;
- its slowdown over nodes is the mean over numbers of GPUs that were measured on several numbers of nodes.

A job counts epochs where its script reports them, else iterations. These have to be as much work on any
number of GPUs; measures in the other unit are not compared with them.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean

import msgspec

from volvelle.live.records import RateMeasured
from volvelle.model.job import JobSpec
from volvelle.model.throughput import (
    MOST_TABLE_GPUS,
    AnyThroughput,
    Linear,
    PerType,
    Table,
    through,
)
from volvelle.model.units import DAY

MAX_NAMES = 10_000
"""Names of jobs of which rates are kept: the latest."""
_MAX_MEASURES = 100
"""Of a name, the latest."""
_NEWS = 0.05
"""Relative change from which on a measure is news."""
_LEAST_SLOWDOWN, _MAX_SLOWDOWN = 0.02, 1000.0
_LEAST_RATE, _MAX_RATE = 1e-9, 1e12
_MAX_TOTAL = 1e12
_MAX_SECONDS = 10 * 366 * DAY
_MAX_RATIO = 1e6


class MeasuredRates:
    """Measurements by user and name of job. Any thread may read them."""

    def __init__(self, measured: Iterable[RateMeasured] = ()) -> None:
        self._names: dict[tuple[str, str], tuple[RateMeasured, ...]] = {}
        for one in measured:
            self.add(one)

    @property
    def all(self) -> tuple[RateMeasured, ...]:
        """All that is kept, the latest of a name last."""
        return tuple(one for kept in self._names.values() for one in kept)

    def of(self, user: str, name: str) -> tuple[RateMeasured, ...]:
        """Measurements of jobs of this name, the latest last."""
        return self._names.get((user, name), ())

    def is_news(self, one: RateMeasured) -> bool:
        """Whether it can be true and differs from what is kept: jobs write what they want."""
        if not _LEAST_RATE <= one.rate <= _MAX_RATE or not 0.0 <= one.total <= _MAX_TOTAL:
            return False
        for known in self.of(one.user, one.name):
            if known.place == one.place:
                change = abs(known.rate - one.rate)
                return known.total != one.total or change > _NEWS * max(known.rate, one.rate)
        return True

    def add(self, one: RateMeasured) -> None:
        """Keep it, in place of what was measured there before."""
        key = (one.user, one.name)
        others = (known for known in self._names.pop(key, ()) if known.place != one.place)
        self._names[key] = (*others, one)[-_MAX_MEASURES:]
        if len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]

    def declare(self, spec: JobSpec, types: Sequence[str]) -> JobSpec:
        """``spec`` with what jobs of its name showed, where it declares none; ``types``: of the cluster."""
        kept = self.of(spec.user, spec.name) if spec.name and spec.adaptation is None else ()
        if not kept:
            return spec
        alike = [one for one in kept if one.epochs == kept[-1].epochs]
        wanted = spec.gpu_types or tuple(types)
        models = _models(alike, wanted, spec)
        if not models:
            return spec
        base = models.get(spec.first_type, models[wanted[0]]).rate(spec.gpus)
        estimate, throughput = spec.estimate_seconds, spec.throughput
        total = next((one.total for one in reversed(alike) if one.total), 0.0)
        if estimate is None and 0.0 < total / base <= _MAX_SECONDS:
            estimate = total / base
        if throughput is None and (spec.elastic or len(wanted) > 1):
            throughput = _relative(models, base / spec.gpus, spec)
        slowdown = spec.spread_slowdown or _slowdown(alike)
        return msgspec.structs.replace(
            spec, estimate_seconds=estimate, throughput=throughput, spread_slowdown=slowdown
        )


def _models(
    measured: Sequence[RateMeasured], wanted: Sequence[str], spec: JobSpec
) -> dict[str, Linear | Table]:
    """A model for each type that is ``wanted``; none at all where nothing was measured on any of them."""
    models = {}
    for kind in wanted:
        points: dict[int, float] = {}
        for one in sorted(measured, key=lambda one: -one.spread):
            if one.gpu_type == kind:
                points[one.gpus] = one.rate
        if points:
            models[kind] = through(points, int(spec.most_gpus))
    if models:
        slowest = min(models.values(), key=lambda model: model.rate(spec.gpus))
        models = {kind: models.get(kind, slowest) for kind in wanted}
    return models


def _relative(models: dict[str, Linear | Table], unit: float, spec: JobSpec) -> AnyThroughput:
    """The models on the GPUs that the job can have, as multiples of ``unit``, rounded."""
    rounded: dict[str, Linear | Table] = {}
    for kind, model in models.items():
        if isinstance(model, Linear) or not spec.elastic:
            rounded[kind] = Linear(_ratio(model.rate(spec.gpus) / spec.gpus / unit))
        else:
            numbers = range(1, min(int(spec.most_gpus), MOST_TABLE_GPUS) + 1)
            rounded[kind] = Table(tuple(_ratio(model.rate(n) / unit) for n in numbers))
    if len(rounded) > 1:
        return PerType(dict(rounded))
    return next(iter(rounded.values()))


def _slowdown(measured: Sequence[RateMeasured]) -> float:
    """The share by which each node beyond the fewest measured lengthened an iteration; 0 for next to none."""

    def place(one: RateMeasured) -> tuple[str, int]:
        return one.gpu_type, one.gpus

    found = []
    for _, group in groupby(sorted(measured, key=lambda one: (*place(one), one.spread)), place):
        fewest, *others = group
        found += [(fewest.rate / one.rate - 1.0) / (one.spread - fewest.spread) for one in others]
    slowdown = _two_digits(min(max(fmean(found), 0.0), _MAX_SLOWDOWN)) if found else 0.0
    return slowdown if slowdown > _LEAST_SLOWDOWN else 0.0


def _ratio(number: float) -> float:
    return _two_digits(min(max(number, 1.0 / _MAX_RATIO), _MAX_RATIO))


def _two_digits(number: float) -> float:
    return float(f"{number:.2g}")
