"""Lanes: whether a job runs on GPUs of its own pool (dedicated) or on borrowed ones.

A pool owns so many GPUs, not certain ones. Of its jobs the longest-running are dedicated, as far as
what it owns goes; the others run on borrowed GPUs. The paper's opportunistic jobs (anticipatory
scheduling, SIA, section 5.5) are these.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn


def borrowed(
    pool: IntColumn, held: FloatColumn, since: FloatColumn, owned: FloatColumn, unowned: float
) -> BoolColumn:
    """Which of some jobs run on GPUs that their pool does not own.

    pool: index into ``owned``, GPUs by pool; -1 for none, whose jobs have the ``unowned`` GPUs. held: GPUs,
    all or none of which are borrowed. since: when each got them, seconds; equals are in order of the columns.
    """
    left = [*owned.tolist(), unowned]
    found = np.zeros(len(pool), dtype=np.bool_)
    for row in np.argsort(since, kind="stable").tolist():
        gpus, whose = float(held[row]), int(pool[row])
        if gpus > left[whose]:
            found[row] = True
        else:
            left[whose] -= gpus
    return found


class Lane(NamedTuple):
    """The lane of a job that is to be placed, and where dedicated jobs stand.

    guest: it would be on borrowed GPUs. dedicated: by slot, whether a job that is not stands there.
    """

    guest: bool
    dedicated: BoolColumn
