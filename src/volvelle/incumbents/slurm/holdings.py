"""The resources that running jobs hold, as columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.shapes import Share
from volvelle.model.arrays import Floats, Ints


class Holdings(NamedTuple):
    """A row for each node of each running job; never changed in place, so that forks share it.

    numbers: of jobs. shares: (rows, 4), as `Share`. ends: by limits. classes: numbers of QOS and partition.
    exempt: seconds before which a job is not stopped for another; infinite: never.
    """

    numbers: Ints
    shares: Floats
    ends: Floats
    classes: Ints
    exempt: Floats

    def without(self, number: int) -> "Holdings":
        """The holdings of all other jobs."""
        others = self.numbers != number
        return Holdings(*(column[others] for column in self))

    def plus(
        self, number: int, held: Sequence[Share], end: float, of: int, exempt: float
    ) -> "Holdings":
        """These holdings, and those of a job that starts."""
        rows = len(held)
        return Holdings(
            np.concatenate([self.numbers, np.full(rows, number)]),
            np.concatenate([self.shares, np.array(held, dtype=np.float64).reshape(rows, 4)]),
            np.concatenate([self.ends, np.full(rows, end)]),
            np.concatenate([self.classes, np.full(rows, of)]),
            np.concatenate([self.exempt, np.full(rows, exempt)]),
        )


NONE = Holdings(
    np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64), np.zeros(0)
)
