"""Registers: entries of `State.count` and `State.clock`, and the codes of phases, questions and reasons."""

from enum import IntEnum

(
    PHASE,
    JOBS,  # in the system
    RUNNING,
    WAITING,
    ELASTIC,  # that may hold fewer or more GPUs than they do
    SHORT,  # that hold less than they can use
    RANKED,  # running jobs in `State.ranked`, for a decision
    SPARE,  # unused rows
    CLASSES,
    OLDEST,
    YOUNGEST,
    VERSION,  # grows whenever a job comes or goes
    EXPECTED,  # entries of what is expected
    RELEASES,
    DIRTY,  # 1 where something happened that the policy was not asked about
    COME,  # arrivals that were submitted
    QUEUED,  # the first of them that is not admitted yet
    CHANGED,  # rows that the decision changes
    UNRATED,  # of them rows whose rate Python has to say
    SUBJECT,  # the row that Python is asked about
    SUBJECT_KIND,
    EVENTS,
    EVENTS_BEFORE,  # this moment
    MOMENTS,
    MARK,  # where in the log the events end that led to the decision
    IDLE_WAKES,  # wake-ups in a row to no effect
    TRACKED,  # jobs waited for that are not through, -1: all are waited for
    TRACKED_FIRST,
    TRACKED_LAST,
    NEWCOMERS,  # submitted at this moment
    WOKE,  # 1 where this moment is a wake-up
    ENDLESS,  # 1 where nodes fail at random
    AWAY,  # nodes that take no jobs
    NODES_NAMED,  # 0 where the policy does not choose nodes itself; else 1 more than it has named
    LOGGED_EVENTS,
    LOGGED_DECISIONS,
    LOGGED_SLOTS,
    LOGGED_MOMENTS,
    RETURNED,  # in the admission queue: arrivals that were blocked on dependencies, and recalled jobs
    BLOCKS,  # in use, of running jobs by their keys
    PINNED,  # jobs that are pinned; some may have gone since
    UNPOOLED,  # the first class of jobs of no pool
    TOUCHED,  # pools of which something changed
    OVERDRAWN,  # pools that have more than their quota
    SHARED_GPUS,  # GPUs of which jobs hold parts by name
    COUNTERS,
) = range(46)
"""Entries of `State.count`."""

(
    NOW,
    WAKE,  # when the scheduler asked to be woken
    NAMED_WAKE,  # when the policy named a time at which it is to be asked
    NODE_AT,  # when a node changes next
    SWITCH_AT,  # when the switcher is asked next
    DEMAND,  # GPUs that admitted jobs request
    LIMIT,  # the most that they may
    DECIDED,  # when was last decided
    PROMISED,  # when the first guarantee is due that is not known to be kept
    TIMED,  # when the first job may have run for as long as it is allowed to
    ELIGIBLE,  # when the next job may come that is blocked on dependencies
    SUBJECT_NUMBER,  # the job that Python is asked about
    SUBJECT_STAMP,  # and its attempt, of a checkpoint
    CPUS,  # of the nodes that take jobs, infinite where none says how many it has
    MEMORY,  # the same, GB
    CLOCKS,
) = range(16)
"""Entries of `State.clock`: times and sums."""

(
    AHEAD,
    NEWS,
    NODES,
    ARRIVALS,
    DIRECTION,
    LIMITS,
    PROMISES,
    DEPENDENCIES,
    ADMISSION,
    DECISION,
    PLACING,
    COMMIT,
    RATES,
    DIVISION,
    WATCH,
    CLOSING,
) = range(16)
"""Phases of a moment."""

(
    THROUGH,  # nothing is left that could happen
    UNTIL,  # the next moment is later than asked for
    PAUSED,  # as many moments as asked for
    ROWS_FULL,
    LOG_FULL,
    ASK_NEWS,  # what happens to the job in SUBJECT
    ASK_NODES,
    ASK_SWITCHER,
    ASK_LIMITS,  # whose time is over
    ASK_PROMISES,  # which due guarantees were not kept, and who is to be stopped for the sake of others
    ASK_DEPENDENCIES,  # which jobs are blocked no longer
    ASK_ADMISSION,
    ASK_POLICY,
    ASK_TOLD,  # what the policy's kernel guarantees to jobs
    ASK_PLACEMENT,
    ASK_RATES,
    ASK_DIVISION,
    ASK_WATCH,  # which guarantees are impossible, and when others will be
) = range(18)
"""Why `volvelle.core.forward.advance` returns."""

ENTERS, OBSTACLE, NO_PROGRESS, GONE, DEPENDS = range(5)
"""An arrival enters, cannot run here, is believed to make no progress, is out of the queue already, or stands
aside for other jobs."""

ORDER, KERNEL, ASKED, COUNTED = range(4)
"""Ways to decide or place: a kept order, a kernel, Python; COUNTED: GPUs are only counted."""

EVERY_POOL = -1
"""In the place of a pool: a decision is about all jobs."""

NEVER, EVERY_MOMENT, NEWCOMERS_CAME = range(3)
"""After which moments `volvelle.core.forward.advance` pauses."""


class Reason(IntEnum):
    """Why a job waits: the dominant cause at the last decision."""

    NONE = 0
    GPUS = 1  # not enough free GPUs it could use
    ORDER = 2  # enough GPUs, but a job before it in a strict order waits
    QUOTA = 3  # its pool's quota is in use
    PLACEMENT = 4  # GPUs are free, but not where the placement wants them
    POLICY = 5  # the policy gave it nothing
    ROUND = 6  # the policy was not asked since it came: it is at the next round
    RESERVED = 7  # GPUs are free, but kept for jobs of the pools that own them
