"""The columns of the jobs in the system: one matrix of floats, a row of it for each attribute.

One matrix makes a fork one copy, a removal one column move, and a compiled loop one argument. Whole
numbers and flags are stored as floats, which hold them exactly. The jobs stand in no particular order
(a removed job's place is taken by the last); ``NUMBER`` is the order of submission.
"""

from enum import IntEnum


class Column(IntEnum):
    """Which row of the matrix holds what. Times are seconds since the run's start."""

    NUMBER = 0
    SUBMIT = 1
    GPUS = 2  # the gang requested
    LEAST = 3  # fewest GPUs it runs on
    MOST = 4  # most GPUs it can use
    TYPES = 5  # bit t is set where GPU type t will do
    POOL = 6  # index into the scheduler's pool names, -1 without
    WEIGHT = 7
    PREEMPTIBLE = 8
    HELD = 9  # GPUs held now
    TYPE = 10  # GPU type held, -1 none
    PINNED = 11  # stays where it is: on a draining node
    FIRST_START = 12  # NaN before it
    STARTED = 13  # when it got the GPUs it holds
    PROGRESS_FROM = 14  # when work at RATE began or begins (after a restore)
    ATTAINED = 15  # seconds with GPUs, up to STARTED
    ATTAINED_GPU = 16  # GPU-seconds, up to STARTED
    DONE = 17  # units of work believed done, up to PROGRESS_FROM
    RATE = 18  # units per second believed, with the GPUs it holds
    TOTAL = 19  # units of work believed in all
    FULL_RATE = 20  # units per second believed on GPUS GPUs (MOST where elastic)
    SCALE = 21  # the estimator's factor on what remains
    ATTEMPT = 22  # starts so far
    PREEMPTIONS = 23
    REASON = 24  # why it waits: a Reason


class Reason(IntEnum):
    """Why a job waits: the dominant cause at the last decision."""

    NONE = 0
    GPUS = 1  # not enough free GPUs it could use
    ORDER = 2  # enough GPUs, but a job before it in a strict order waits
    QUOTA = 3  # its pool's quota is in use
    PLACEMENT = 4  # GPUs are free, but not where the placement wants them
    POLICY = 5  # the policy gave it nothing
