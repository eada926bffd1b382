"""Every metric by name, so that reports, comparisons and searches can ask for ``jct:p99``.

A metric of kind ``job`` has a number for each job, one of kind ``time`` is a series, one of kind
``run`` is a single number. Figures are in the metric's unit: a fraction under ``%`` is times 100.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from volvelle.core.mistakes import mistakes_of, wrong_answer
from volvelle.core.registry import Catalogue, path_of
from volvelle.core.written import WrittenPart
from volvelle.metrics import (
    deadlines,
    fairness,
    measures,
    per_job,
    power,
    profiling,
    promises,
    series,
)
from volvelle.metrics.fairness import FairShare
from volvelle.metrics.outcomes import Outcomes, Steps
from volvelle.model.arrays import FloatColumn
from volvelle.model.problems import Problem

Kind = Literal["job", "time", "run"]
Unit = Literal["s", "%", "GPUs", "GPU s", "jobs", "kWh", "kg", "1"]
Better = Literal["lower", "higher", "neither"]
Measured = FloatColumn | Steps | float


@dataclass(frozen=True)
class Metric:
    """A metric. ``title`` heads a column; ``better`` says which way is good, if any.

    Raises `Problem` for a unit, a direction or a kind that there is not.
    """

    name: str
    title: str
    unit: Unit
    better: Better
    kind: Kind
    of: Callable[[Outcomes], Measured]

    def __post_init__(self) -> None:
        for key, known in (("unit", Unit), ("better", Better), ("kind", Kind)):
            value = getattr(self, key)
            if value not in get_args(known):
                raise Problem(
                    f"metric {self.name!r}: {key} is {value!r}",
                    mend=f"write one of {', '.join(map(repr, get_args(known)))}",
                )

    @property
    def __wrapped__(self) -> Callable[[Outcomes], Measured]:
        """The function, as the code that the metric is (`inspect.unwrap`)."""
        return self.of

    def __reduce__(self) -> tuple[Any, ...]:
        """A metric is pickled as it is written: another process reads the file that it is in."""
        path = path_of(self)
        return _written, (f"{path}:{self.name}" if path else self.name,)

    @property
    def description(self) -> str:
        """Its meaning and source in a line: the first of the function's own docstring."""
        return (self.of.__doc__ or "").partition("\n")[0].replace("`", "")

    def __call__(self, outcomes: Outcomes) -> Measured:
        """The quantity that is measured: of kind ``job`` a column, ``time`` steps, ``run`` a number.

        Raises `Problem` where it gives anything else.
        """
        result: Any
        with mistakes_of(f"metric {self.name!r}", f"it measured {len(outcomes)} jobs"):
            result = self.of(outcomes)
        if self.kind == "run" and isinstance(result, (int, float, np.number)):
            return float(result)
        if self.kind == "time" and isinstance(result, Steps):
            return result
        if self.kind == "job" and np.shape(result) == (len(outcomes),):
            return np.asarray(result, dtype=np.float64)
        raise wrong_answer(
            f"metric {self.name!r}",
            self.of,
            f"of kind {self.kind!r} gave {type(result).__name__} of shape {np.shape(result)}",
            mend={
                "job": f"return a number for each job, here {len(outcomes)}, or say kind='run'",
                "time": "return volvelle.metrics.outcomes.Steps",
                "run": "return a number, or say kind='job'",
            }[self.kind],
        )


class _Metrics(Catalogue[Metric]):
    """The metrics, in the order of a report: ours, then others in the order of their registration."""

    def all(self) -> dict[str, Metric]:
        """Every metric known on this machine, by name."""
        known = super().all()
        return {name: known[name] for name in self._known}

    def near(self, name: str) -> str:
        """Also by its heading in tables, or with its measure as other programs join them: ``mean_jct``."""
        words = re.findall("[a-z0-9]+", name.lower())
        for measure, rest in ((words[:1], words[1:]), (words[-1:], words[:-1])):
            if (metric := "_".join(rest)) in self.names():
                with suppress(Problem):
                    return f" (did you mean '{metric}:{measures.read_measure(measure[0])}'?)"
        headings = {one.title: one.name for one in self.all().values()}
        if (headed := headings.get(name.lower())) is not None:
            return f" (did you mean {headed!r}?)"
        return super().near(name)

    @property
    def registering(self) -> str:
        """A metric is a function."""
        return "@metric('NAME', 'UNIT', 'lower') above its function"


metrics = _Metrics("metric", "metrics", "volvelle.metrics")


def _written(text: str) -> Metric:
    return metrics.written(text)


def metric(
    name: str,
    unit: Unit = "1",
    better: Better = "neither",
    *,
    title: str = "",
    kind: Kind = "job",
) -> Callable[[Callable[[Outcomes], Measured]], Metric]:
    """A decorator that makes a function of `Outcomes` the metric ``name``, and registers it.

    The first line of its docstring describes it. title: heads a column; the name unless given. Raises
    `Problem` for a name that is taken.
    """

    def register(of: Callable[[Outcomes], Measured]) -> Metric:
        heading = title or name.replace("_", " ")
        return metrics.register(Metric(name, heading, unit, better, kind, of))

    return register


def _rho_static(outcomes: Outcomes) -> FloatColumn:
    """Finish-time fairness with one contention factor for the trace (Shockwave's artifact)."""
    return fairness.rho(outcomes, FairShare.STATIC)


def _rho_contention(outcomes: Outcomes) -> FloatColumn:
    """Finish-time fairness with the jobs per GPU met during the stay (Shockwave's artifact)."""
    return fairness.rho(outcomes, FairShare.CONTENTION)


def _unfair(outcomes: Outcomes) -> FloatColumn:
    """Jobs with rho above 1; the mean is the unfair fraction (Shockwave, section 8.2)."""
    return 100.0 * fairness.unfair(outcomes)


def _deadline_miss(outcomes: Outcomes) -> FloatColumn:
    """Jobs that missed the deadline of their full reward; the mean is the miss rate."""
    return 100.0 * deadlines.missed(outcomes)


def _first_deadline_miss(outcomes: Outcomes) -> FloatColumn:
    """Jobs that missed the first of their deadlines."""
    return 100.0 * deadlines.first_missed(outcomes)


def _guaranteed(outcomes: Outcomes) -> FloatColumn:
    """Jobs that were guaranteed a finish, of those with deadlines."""
    return 100.0 * promises.promised(outcomes)


def _broken(outcomes: Outcomes) -> FloatColumn:
    """Guarantees that were not kept, of those that were made."""
    return 100.0 * promises.broken(outcomes)


def _profiled_only(outcomes: Outcomes) -> FloatColumn:
    """Jobs that ended while they were profiled, done or crashed, and never entered the queue."""
    return 100.0 * profiling.ended_there(outcomes)


def _profile_error(outcomes: Outcomes) -> FloatColumn:
    """Difference of the run time that a profile measured from the true one, relative to that."""
    return 100.0 * profiling.error(outcomes)


def _weighted_deadline_miss(outcomes: Outcomes) -> FloatColumn:
    """Reward not earned; the mean is the weighted deadline miss rate (Chronus, 1 - Eq. 9)."""
    return 100.0 * deadlines.weighted_miss(outcomes)


def _utilisation(outcomes: Outcomes) -> float:
    """GPU time held over GPU time present, from the first submission to the end of the run."""
    return 100.0 * series.utilisation(outcomes)


def _goodput_lost(outcomes: Outcomes) -> float:
    """GPU time whose work failures lost, of all GPU time that jobs held."""
    held = float(outcomes.gpu_seconds.sum())
    return 100.0 * float(outcomes.lost_gpu_seconds.sum()) / held if held > 0 else float("nan")


def _solver_gap(outcomes: Outcomes) -> float:
    """The worst gap of the policy's programs: how much better an answer could at most have been."""
    return float("nan") if outcomes.solver_gap is None else 100.0 * outcomes.solver_gap


for _one in (
    Metric("jct", "JCT", "s", "lower", "job", per_job.jct),
    Metric("queueing_delay", "queueing delay", "s", "lower", "job", per_job.queueing_delay),
    Metric("responsiveness", "wait", "s", "lower", "job", per_job.responsiveness),
    Metric("slowdown", "slowdown", "1", "lower", "job", per_job.slowdown),
    Metric("attained_service", "service", "GPU s", "neither", "job", per_job.attained_service),
    Metric("preemptions", "preemptions", "1", "lower", "job", per_job.preemptions),
    Metric("restarts", "restarts", "1", "lower", "job", per_job.restarts),
    Metric("lost_gpu_seconds", "lost work", "GPU s", "lower", "job", per_job.lost_gpu_seconds),
    Metric("eta_error", "ETA error", "%", "lower", "job", per_job.prediction_error),
    Metric(
        "eta_signed_error",
        "signed ETA error",
        "%",
        "neither",
        "job",
        per_job.signed_prediction_error,
    ),
    Metric("eta_p50_coverage", "P50 coverage", "%", "neither", "job", per_job.within_p50),
    Metric("eta_p90_coverage", "P90 coverage", "%", "neither", "job", per_job.within_p90),
    Metric("eta_p90_width", "P50 to P90", "%", "lower", "job", per_job.p90_width),
    Metric("rho", "rho", "1", "lower", "job", fairness.rho),
    Metric("rho_static", "rho (static)", "1", "lower", "job", _rho_static),
    Metric("rho_contention", "rho (contention)", "1", "lower", "job", _rho_contention),
    Metric("unfair", "unfair", "%", "lower", "job", _unfair),
    Metric("unfairness", "unfairness", "%", "lower", "job", fairness.unfairness),
    Metric("deadline_miss", "deadline misses", "%", "lower", "job", _deadline_miss),
    Metric(
        "weighted_deadline_miss", "weighted misses", "%", "lower", "job", _weighted_deadline_miss
    ),
    Metric(
        "first_deadline_miss", "first deadline misses", "%", "lower", "job", _first_deadline_miss
    ),
    Metric("guaranteed", "guaranteed", "%", "higher", "job", _guaranteed),
    Metric("guarantee_broken", "guarantees broken", "%", "lower", "job", _broken),
    Metric("earned_value", "earned value", "1", "higher", "job", deadlines.earned_value),
    Metric("profile_wait", "wait for a profile", "s", "lower", "job", profiling.wait),
    Metric("profiled_only", "ended while profiled", "%", "neither", "job", _profiled_only),
    Metric("profile_error", "profile error", "%", "lower", "job", _profile_error),
    Metric("makespan", "makespan", "s", "lower", "run", series.makespan),
    Metric("utilisation", "utilisation", "%", "higher", "run", _utilisation),
    Metric("goodput_lost", "goodput lost", "%", "lower", "run", _goodput_lost),
    Metric("energy", "energy", "kWh", "lower", "run", power.energy),
    Metric("carbon", "carbon", "kg", "lower", "run", power.carbon),
    Metric("solver_gap", "solver gap", "%", "lower", "run", _solver_gap),
    Metric("profiling_gpus", "GPUs for profiling", "GPUs", "neither", "run", profiling.gpus),
    Metric("busy_gpus", "busy GPUs", "GPUs", "higher", "time", series.busy_gpus),
    Metric("fragmentation", "fragmentation", "GPUs", "lower", "time", series.fragmented_gpus),
    Metric("queue_length", "queue", "jobs", "lower", "time", series.queue_length),
    Metric("queued_gpus", "queued GPUs", "GPUs", "lower", "time", series.queued_gpus),
    Metric("demand", "demand", "GPUs", "neither", "time", series.demand),
    Metric("running_jobs", "running jobs", "jobs", "neither", "time", series.running_jobs),
):
    metrics.register(_one)


_ALSO = {"pred_error": "eta_error"}
"""Metrics by the names that papers give them."""


@dataclass(frozen=True)
class Objective:
    """A metric and a measure of it, written ``jct:p99``; no measure for one of kind run.

    asked: how it was asked for, as ``pred_error:p99`` for ``eta_error:p99``.
    """

    metric: Metric
    measure: str
    asked: str = field(default="", compare=False)

    def __str__(self) -> str:
        """The form `read_objective` reads."""
        return f"{self.metric.name}:{self.measure}" if self.measure else self.metric.name

    def of(self, outcomes: Outcomes) -> float:
        """The figure, over the tracked jobs or the whole run; NaN where there is none."""
        result = self.metric(outcomes)
        if isinstance(result, float):
            return result
        if isinstance(result, Steps):
            start = series.start_time(outcomes)
            return measures.over_time(result, start, outcomes.end_time, self.measure)[0]
        return measures.of_jobs(result[outcomes.tracked], self.measure)[0]


def read_objective(text: str) -> Objective:
    """The objective written ``name:measure``; ``name`` alone means its mean, or the run's number.

    For the name there may stand ``path/to/file.py[:name]``, a metric that the file registers. Raises
    `Problem` naming what is unknown and the nearest name.
    """
    if not isinstance(text, str):
        raise Problem(f"{text!r} is no metric", mend="write NAME or NAME:MEASURE, as in 'jct:p99'")
    found = WrittenPart.read(text)
    metric = metrics.written(_ALSO.get(found.part, found.part))
    if metric.kind == "run":
        if found.part != text:
            raise Problem(
                f"metric {metric.name!r} is one number for the run and has no measure {found.rest!r}",
                mend=f"write {found.part}",
                usage=True,
            )
        return Objective(metric, "", text)
    measured = measures.read_measure("mean" if found.part == text else found.rest)
    return Objective(metric, measured, text)


def measure(outcomes: Outcomes, text: str) -> float:
    """The figure ``text`` asks for, in the metric's unit: ``measure(outcomes, "jct:p99")``."""
    return read_objective(text).of(outcomes)
