"""Where the columns of jobs stand in `volvelle.core.view.JobView.matrix`, for compiled loops of policies.

They are those of `volvelle.core.state.Jobs`, which says what each is.
"""

(
    NUMBER,
    SUBMIT,
    GPUS,
    LEAST,
    MOST,
    TYPES,
    POOL,
    WEIGHT,
    PREEMPTIBLE,
    TOTAL,
    SCALE,
    FULL_RATE,
    REQUEST_RATE,
    UNIT_RATE,
    TABLE,
    CURVE,
    START_GAP,
    RESTORE,
    RESIZE,
    CHECKPOINT,
    PRIORITY,
    TIME_LIMIT,
    EXCLUSIVE,
    STARTS_OVER,
    DEADLINE,
    USER,
    DECLARED_CPUS,
    DECLARED_MEMORY,
    NODES,
    ESTIMATE,
    ID_NUMBER,
) = range(31)
(
    HELD,
    TYPE,
    PINNED,
    FIRST_START,
    STARTED,
    PROGRESS_FROM,
    ATTAINED,
    ATTAINED_GPU,
    DONE,
    RATE,
    ATTEMPT,
    PREEMPTIONS,
) = range(35, 47)
COUNT = 52
"""Columns in all, before those of the policy's own."""
