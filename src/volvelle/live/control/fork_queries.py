"""Questions about what would be, answered on a fork: forecasts, suggestions, the snapshot."""

from collections.abc import Callable
from concurrent.futures import Future

from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.live.control.clock import JournalClock
from volvelle.live.control.composition_checks import check_recomposition
from volvelle.live.control.inputs import ForkRequest, Input
from volvelle.live.control.requests import Recompose
from volvelle.live.control.state import ControllerState
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.forecasts.suggestions import Suggestions, suggest
from volvelle.live.forecasts.what_if import (
    ClusterForecast,
    RecompositionEffect,
    forecast_cluster,
    forecast_recomposition,
    forecast_request,
)
from volvelle.live.job_request import JobRequest
from volvelle.live.scheduler_queries import job_numbers
from volvelle.live.status.view import JobStatusView
from volvelle.model.node import Node

_FORK_TIMEOUT_SECONDS = 30.0


class ForkQueries:
    """Answers from any thread. The fork is made by the controller, to which ``put`` gives the request.

    version: of the program, for the snapshot.
    """

    def __init__(
        self,
        state: ControllerState,
        clock: JournalClock,
        forecaster: Forecaster,
        put: Callable[[Input], None],
        version: str,
    ) -> None:
        self._state, self._clock, self._forecaster = state, clock, forecaster
        self._put, self._version = put, version

    def forecast(self, request: JobRequest, user: str) -> JobForecast:
        """The forecast for ``request`` if ``user`` submitted it now. Raises `Problem` if it can never run."""
        fork = self._fork()
        now, epoch = max(self._clock.now(), fork.now), self._state.epoch
        calibration, measured = self._forecaster.calibration, self._state.measured
        return forecast_request(fork, calibration, measured, request, user, now, epoch)

    def forecast_recomposition(self, request: Recompose) -> RecompositionEffect:
        """The first decision of another policy. Raises `Problem` if it cannot schedule these jobs."""
        fork = self._fork()
        check_recomposition(fork, request)
        now = max(self._clock.now(), fork.now)
        return forecast_recomposition(fork, request.event(now))

    def forecast_cluster(self, request: Recompose, nodes: tuple[Node, ...]) -> ClusterForecast:
        """All jobs with another policy or more ``nodes``. Raises `Problem` if these cannot be scheduled."""
        fork = self._fork()
        check_recomposition(fork, request)
        now, epoch = max(self._clock.now(), fork.now), self._state.epoch
        calibration = self._forecaster.calibration
        return forecast_cluster(
            fork, calibration, request.policy, request.admission, nodes, now, epoch
        )

    def suggest(self, job: JobStatusView) -> Suggestions:
        """Suggestions for a job that waits or is held."""
        fork, forecaster = self._fork(), self._forecaster
        if job.number not in job_numbers(fork):
            return Suggestions((), (), True)  # it is over by now
        now, epoch = self._clock.now(), self._state.epoch
        return suggest(fork, forecaster.calibration, job, now, epoch, forecaster.last_seconds)

    def snapshot(self) -> Snapshot:
        """The whole state, for `volvelle simulate --from-snapshot`."""
        return Snapshot.of(self._fork(), self._version)

    def _fork(self) -> Scheduler:
        fork_request = ForkRequest(Future())
        self._put(fork_request)
        return fork_request.answer.result(timeout=_FORK_TIMEOUT_SECONDS)
