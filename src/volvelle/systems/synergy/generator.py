"""Synergy's mix of jobs (OSDI'22): image, language and speech models that need CPUs and memory unequally.

Durations and widths are those of Gavel's trace, as in the authors' generator of synthetic jobs. A job is
of one of three classes (by default 20, 70 and 10 %, the split of the authors' first run) and of one of
its class's models, each as likely. Durations hold at a GPU's proportional share of the authors' machines,
24 CPUs and 500 GB for 8 GPUs; work is in seconds of a GPU with all the CPUs and memory it can use.

`MODELS` states what the authors' simulator (github.com/msr-fiddle/synergy, ``simulator/models``) has for
one GPU: where a model saturates, its rate there, and its rates with only the proportional memory at these
CPUs and at the number of CPUs measured before. For gnmt, transformer and lstm it was read from the files
for two GPUs. Values in between are ours: linear in CPUs, from nothing through the proportional share, and
linear in memory from a tenth at 20.83 GB. All of the authors' points lie within 0.26 of that (alexnet with
6 CPUs: 1.5 here, 1.75 there).
"""

from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from volvelle.model.job import Truth
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.tolerances import SAME_SHARE
from volvelle.systems.gavel.generator import GavelJobs
from volvelle.workload.generators.base import JobColumns, generators

SHARE_CPUS, SHARE_MEMORY_GB = 3.0, 62.5
"""CPUs and memory for each GPU of the authors' machines."""

_STARVED_MEMORY_GB, _STARVED = 20.83, 0.1


class Model(NamedTuple):
    """CPUs and memory per GPU that saturate it, and rates over that at the proportional share.

    ``rate``: saturated; ``by_cpus_alone``: with the CPUs that saturate it and the proportional memory;
    ``before``: a number of CPUs at which more memory than that does not help yet, and the rate there.
    """

    cpus: float
    memory_gb: float
    rate: float
    by_cpus_alone: float
    before: tuple[float, float] = (SHARE_CPUS, 1.0)

    @property
    def profile(self) -> Sensitivity:
        """The sensitivity through these points."""
        memory = tuple(sorted({_STARVED_MEMORY_GB, SHARE_MEMORY_GB, self.memory_gb}))
        fed = len(memory) - 1
        at = {SHARE_CPUS: [1.0] * fed, self.before[0]: [self.before[1]] * fed}
        at = {cpus: rates for cpus, rates in at.items() if cpus < self.cpus}
        at[self.cpus] = [self.by_cpus_alone, self.rate][-fed:]
        return Sensitivity(
            tuple(at),
            memory,
            tuple(tuple(rate / self.rate for rate in (_STARVED, *rates)) for rates in at.values()),
        )


MODELS: dict[str, dict[str, Model]] = {
    "image": {
        "alexnet": Model(12, 125, 2.94, 2.0, (9, 2.0)),
        "shufflenet": Model(12, 125, 2.89, 2.0, (9, 2.0)),
        "resnet18": Model(9, 62.5, 2.4, 2.4, (6, 1.75)),
        "mobilenet": Model(6, 62.5, 1.55, 1.55, (5, 1.49)),
        "resnet50": Model(4, 62.5, 1.15, 1.15),
    },
    "language": {
        "gnmt": Model(1, 62.5, 1.0, 1.0),
        "transformer": Model(1, 62.5, 1.0, 1.0),
        "lstm": Model(1, 62.5, 1.0, 1.0),
    },
    "speech": {
        "m5": Model(6, 187.5, 2.5, 1.5, (5, 1.4)),
        "deepspeech": Model(3, 62.5, 1.0, 1.0),
    },
}
"""The models of each class."""

_Share = Annotated[float, Field(ge=0, le=1)]


@generators.register
class SynergyJobs(GavelJobs):
    """Gavel's durations and widths, with models that need CPUs and memory unequally."""

    name: ClassVar[str] = "synergy"
    source: ClassVar[str] = "Synergy, OSDI'22, and its artifact's models and workload"

    image: _Share = Field(0.2, description="share of jobs that train image models")
    language: _Share = Field(0.7, description="share of jobs that train language models")
    speech: _Share = Field(0.1, description="share of jobs that train speech models")

    @model_validator(mode="after")
    def _shares_add_up(self) -> "SynergyJobs":
        if abs(self.image + self.language + self.speech - 1.0) > SAME_SHARE:
            raise ValueError("image, language and speech must add up to 1")
        return self

    def finished(self, rng: np.random.Generator, columns: JobColumns) -> JobColumns:
        """The jobs with a model each, and the work that it does in their duration."""
        columns = super().finished(rng, columns)
        split = {"image": self.image, "language": self.language, "speech": self.speech}
        choices = [
            (f"{kind} {name}", model.profile, split[kind] / len(models))
            for kind, models in MODELS.items()
            for name, model in models.items()
        ]
        likely = np.cumsum([share for _, _, share in choices])
        drawn = np.searchsorted(likely / likely[-1], rng.random(len(columns.work)), side="right")
        chosen = [choices[index] for index in drawn.tolist()]
        work = columns.work * [
            profile.share(SHARE_CPUS, SHARE_MEMORY_GB) for _, profile, _ in chosen
        ]
        return replace(
            columns,
            work=work,
            names=[name for name, _, _ in chosen],
            truths=[
                Truth(work=each, sensitivity=profile)
                for each, (_, profile, _) in zip(work.tolist(), chosen, strict=True)
            ],
        )
