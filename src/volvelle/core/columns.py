"""The columns of the jobs in the system: one matrix of floats, a row of it for each attribute.

One matrix makes a fork one copy, a removal one column move, and a compiled loop one argument. Whole
numbers and flags are stored as floats, which hold them exactly. The jobs stand in no particular order
(a removed job's place is taken by the last); ``NUMBER`` is the order of submission.
"""

from enum import IntEnum
from typing import Final


class Column:
    """Which row of the matrix holds what. Times are seconds since the run's start.

    Plain integers, not an enum: they index arrays in the inner loops.
    """

    NUMBER: Final = 0
    SUBMIT: Final = 1
    GPUS: Final = 2  # the gang requested
    LEAST: Final = 3  # fewest GPUs it runs on
    MOST: Final = 4  # most GPUs it can use
    TYPES: Final = 5  # bit t is set where GPU type t will do
    POOL: Final = 6  # index into the scheduler's pool names, -1 without
    WEIGHT: Final = 7
    PREEMPTIBLE: Final = 8
    HELD: Final = 9  # GPUs held now
    TYPE: Final = 10  # GPU type held, -1 none
    PINNED: Final = 11  # stays where it is: on a draining node
    FIRST_START: Final = 12  # NaN before it
    STARTED: Final = 13  # when it got the GPUs it holds
    PROGRESS_FROM: Final = 14  # when work at RATE began or begins (after a restore)
    ATTAINED: Final = 15  # seconds with GPUs, up to STARTED
    ATTAINED_GPU: Final = 16  # GPU-seconds, up to STARTED
    DONE: Final = 17  # units of work believed done, up to PROGRESS_FROM
    RATE: Final = 18  # units per second believed, with the GPUs it holds
    TOTAL: Final = 19  # units of work believed in all
    FULL_RATE: Final = 20  # units per second believed on MOST GPUs, as a mean of what is to come
    SCALE: Final = 21  # the estimator's factor on what remains
    ATTEMPT: Final = 22  # starts so far
    PREEMPTIONS: Final = 23
    REASON: Final = 24  # why it waits: a Reason
    UNIT_RATE: Final = 25  # believed rate per GPU where that is all there is to it, else NaN
    RESTORE: Final = 26  # seconds a resume costs
    RESIZE: Final = 27  # seconds a resize costs
    CURVE: Final = 28  # index into the table of rates by GPUs, -1 until a policy asks
    START_GAP: Final = 29  # seconds its next start costs
    REQUEST_RATE: Final = 30  # as FULL_RATE, on the GPUs it requests

    COUNT: Final = 31


class Reason(IntEnum):
    """Why a job waits: the dominant cause at the last decision."""

    NONE = 0
    GPUS = 1  # not enough free GPUs it could use
    ORDER = 2  # enough GPUs, but a job before it in a strict order waits
    QUOTA = 3  # its pool's quota is in use
    PLACEMENT = 4  # GPUs are free, but not where the placement wants them
    POLICY = 5  # the policy gave it nothing
    ROUND = 6  # the policy was not asked since it came: it is at the next round
