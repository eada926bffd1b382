"""Labels by which jobs are grouped (pool, user, class, GPUs requested), as numbered names."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.metrics.outcomes import Outcomes, once
from volvelle.model.arrays import IntColumn


@dataclass(frozen=True)
class Labels:
    """A text for each job: ``names`` as they come first, and in ``of`` the number of each job's name."""

    names: list[str]
    of: IntColumn

    @classmethod
    def read(cls, texts: Sequence[str]) -> "Labels":
        """The labels of ``texts``, one for each job."""
        names = list(dict.fromkeys(texts))
        number_of = {name: number for number, name in enumerate(names)}
        return cls(names, np.array([number_of[text] for text in texts], dtype=np.int64))

    def at(self, rows: IntColumn) -> "Labels":
        """The labels of the jobs in ``rows``."""
        return self.read([self.names[number] for number in self.of[rows].tolist()])


@once
def pools(outcomes: Outcomes) -> Labels:
    """The pool of each job, "" for none."""
    return Labels.read([spec.pool for spec in outcomes.specs])


@once
def users(outcomes: Outcomes) -> Labels:
    """The user of each job, "" where unknown."""
    return Labels.read([spec.user for spec in outcomes.specs])


@once
def classes(outcomes: Outcomes) -> Labels:
    """How each job's deadline binds."""
    return Labels.read([spec.job_class.value for spec in outcomes.specs])


@once
def widths(outcomes: Outcomes) -> Labels:
    """The GPUs each job requests: ``8``, ``0.5``."""
    texts = {gpus: repr(gpus).removesuffix(".0") for gpus in set(outcomes.gpus.tolist())}
    return Labels.read([texts[gpus] for gpus in outcomes.gpus.tolist()])
