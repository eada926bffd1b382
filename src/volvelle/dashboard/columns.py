"""The columns of the rows that the page reads, from a server or from a run."""

JOB_COLUMNS = (
    "number",
    "name",
    "user",
    "state",
    "gpus",
    "submitted",
    "started",
    "predicted_start",
    "predicted_p50",
    "predicted_p90",
    "reason",
    "promised",
    "guaranteed",
    "attempt",
    "preemptions",
    "progress",
    "grants",
)
"""Of a job that is not over, as in the status view of a server.

guaranteed: when it is guaranteed to finish. progress: share of its iterations, in hundredths. grants: names
of nodes, each with the numbers of its GPUs.
"""

NODE_COLUMNS = ("name", "gpu_type", "gpus", "free", "state", "jobs")
"""Of a node. free: GPUs that nobody holds. jobs: numbers."""

HOLDING_COLUMNS = ("number", "name", "user", "start", "end", "grants")
"""Of a past holding of GPUs."""
