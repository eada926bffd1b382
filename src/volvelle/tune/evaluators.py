"""Evaluators of candidates: processes of this machine; a Ray cluster is in `volvelle.tune.on_ray`.

A search submits a candidate's parameters and the number of a sample, and gets a future of the figures.
Figures
depend on nothing else: the order and place of evaluations decide nothing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from volvelle.metrics.catalogue import Objective
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting
from volvelle.simulate.workers import Workers, usable_cpus
from volvelle.tune.evaluate import evaluate
from volvelle.workload.workload import Workload

Figures = tuple[float, ...]
"""Of each objective on one sample."""

Submit = Callable[[str, int], "Future[Figures]"]
"""Has the candidate of these parameters evaluated on the sample of this number."""


@dataclass(frozen=True)
class EvaluatorStage:
    """The common inputs of all evaluations of a search, given to every worker once."""

    workloads: tuple[Workload, ...]
    setting: Setting
    policy: str
    objectives: tuple[Objective, ...]

    def figures(self, parameters: str, sample: int) -> Figures:
        """The objectives of a candidate on one sample."""
        composition = msgspec.structs.replace(
            self.setting.composition, policy=f"{self.policy}:{parameters}"
        )
        setting = replace(self.setting, composition=composition)
        return evaluate(self.workloads[sample], setting, self.objectives)


@contextmanager
def processes(stage: EvaluatorStage, workers: int | None = None) -> Iterator[Submit]:
    """Processes of this machine; by default one for each CPU that may be used.

    A search that ends early gives up evaluations under way.
    """
    with Workers(workers or usable_cpus(), _enter, stage) as pool:
        try:
            yield lambda parameters, sample: pool.submit(_figures, parameters, sample)
        except BrokenProcessPool:
            raise Problem(
                "a process of the search died, perhaps for want of memory",
                mend="go on with --resume, and try fewer at a time with --workers 1",
            ) from None
        except BaseException:
            pool.end()
            raise


_stage: EvaluatorStage | None = None  # of a worker process


def _enter(stage: EvaluatorStage) -> None:
    global _stage  # noqa: PLW0603 - a worker process has one task in life
    _stage = stage


def _figures(parameters: str, sample: int) -> Figures:
    assert _stage is not None
    return _stage.figures(parameters, sample)
