"""The quota of jobs that are not over: of all users, and of one user."""

from collections import Counter

from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import Principal
from volvelle.live.http.errors import HttpError


class JobQuota:
    """At most ``jobs`` in total and ``jobs_of_a_user`` for each user, of whom none exceeds ``priority``."""

    def __init__(self, jobs: int, jobs_of_a_user: int, priority: int) -> None:
        self._priority = priority
        self._max = jobs
        self._max_of_a_user = jobs_of_a_user
        self._version = -1
        self._counts: Counter[str] = Counter()

    def check_priority(self, principal: Principal, priority: int) -> None:
        """Raise `HttpError` where the user may not give a job this priority."""
        if priority > self._priority and not principal.is_operator:
            raise HttpError(
                403,
                f"priority {priority} is higher than {self._priority}, the highest of users here",
                place="priority",
                hint="choose a lower one, or ask an operator",
            )

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
