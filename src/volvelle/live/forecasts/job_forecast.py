"""What can be told about the future of a job."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What becomes of a job, in seconds since the epoch; None where it is not believed to come.

    deadline_share: share of futures in which it is done in time. ahead: jobs served before it.
    reason: why it does not start at once, or is turned away.
    """

    start: float | None = None
    p50: float | None = None
    p90: float | None = None
    deadline_share: float | None = None
    ahead: int = 0
    reason: str = ""
