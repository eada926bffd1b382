"""The quota of jobs that are not over: of all users, and of one user."""

from collections import Counter

from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import Principal
from volvelle.live.http.errors import HttpError


class JobQuota:
    """At most ``jobs`` in total and ``jobs_of_a_user`` for each user."""

    def __init__(self, jobs: int, jobs_of_a_user: int) -> None:
        self._max = jobs
        self._max_of_a_user = jobs_of_a_user
        self._version = -1
        self._counts: Counter[str] = Counter()

    def reserve(self, controller: Controller, principal: Principal, jobs: int) -> None:
        """Count ``jobs`` more for a user. Raises `HttpError` if they exceed the quota."""
        view = controller.status
        if view.version != self._version:
            self._version = view.version
            self._counts = Counter(view.job_counts)
        for present, limit, whose in (
            (self._counts.total(), self._max, "in the queue"),
            (
                self._counts[principal.user],
                self._max_of_a_user,
                f"of user {principal.user} in the queue",
            ),
        ):
            if present + jobs > limit:
                raise HttpError(
                    429,
                    f"there are {present:,} jobs {whose}, {jobs:,} more would be over {limit:,}",
                    place="queue",
                    hint="wait until some are over, or ask the operator for larger limits",
                    headers={"Retry-After": "60"},
                )
        self._counts[principal.user] += jobs
