"""The forecast of one job, as users see it."""

from dataclasses import dataclass

from volvelle.live.status.view import Guarantee, Moment


@dataclass(frozen=True, kw_only=True)
class JobForecast:
    """Times in seconds since the Unix epoch; None if a time is not known.

    guessed: nothing is known of how long such a job takes, or of how well forecasts hold.
    deadline_share: share of jobs like it that keep such a deadline. ahead: waiting jobs that are expected to
    start before it.
    reason: why it does not start at once, or is rejected. guarantee: what would be guaranteed of its finish;
    of an array the least of all. guaranteed, rejected: elements of an array that would be.
    notices: what submitting it would answer with.
    """

    start: Moment | None = None
    p50: Moment | None = None
    p90: Moment | None = None
    guessed: bool = False
    deadline_share: float | None = None
    ahead: int = 0
    reason: str = ""
    guarantee: Guarantee | None = None
    guaranteed: int = 0
    rejected: int = 0
    notices: tuple[str, ...] = ()
