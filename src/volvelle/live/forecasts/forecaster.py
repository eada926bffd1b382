"""Forecasts all jobs repeatedly, in a thread of its own."""

import threading
import time
from collections.abc import Callable, Iterable

from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import ForecastUpdate, forecast_jobs

_BETWEEN_PARTS_SECONDS = 0.02
_MIN_PAUSE_SECONDS = 2.0
_PAUSE_PER_SECOND = 4.0
"""Pause for each second of work: forecasts never use more than a fifth of a core."""


class Forecaster:
    """A thread that forecasts the scheduler it was last given, and sends the update in parts.

    It pauses in between, longer after longer forecasts. The controller never waits for it.
    """

    def __init__(
        self,
        calibration: ForecastCalibration,
        send: Callable[[ForecastUpdate], None],
    ) -> None:
        self.calibration = calibration
        self.last_seconds = 0.0
        """Seconds of a processor that the last forecast took: a busy machine makes it no longer."""
        self.problem = ""
        """Why there was no forecast the last time; empty: there was one."""
        self._send = send
        self._input: tuple[Scheduler, float, float] | None = None
        self._ended: list[tuple[int, float, bool]] = []
        self._ready_at = 0.0
        self._busy = self._hurried = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="forecaster", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End, without waiting for a forecast in progress."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def seconds_until_ready(self) -> float | None:
        """Seconds until it takes another scheduler; None while it forecasts."""
        with self._changed:
            if self._busy or self._input is not None:
                return None
            return max(self._ready_at - time.monotonic(), 0.0)

    def hurry(self) -> None:
        """Take the next scheduler without a pause, as soon as no forecast is in progress."""
        with self._changed:
            self._ready_at, self._hurried = 0.0, self._busy or self._input is not None

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over."""
        with self._changed:
            self._ended.append((number, time, finished))

    def submit(self, scheduler: Scheduler, now: float, epoch: float) -> None:
        """Forecast a scheduler used by nothing else, as of ``now``. ``epoch``: time 0 of the journal."""
        with self._changed:
            self._input = (scheduler, now, epoch)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._input is not None)
                if self._closing:
                    return
                given, self._input = self._input, None
                ended, self._ended = self._ended, []
                self._busy = True
            assert given is not None
            scheduler, now, epoch = given
            began = time.thread_time()
            parts: Iterable[ForecastUpdate] = ()
            try:
                for number, when, finished in ended:
                    self.calibration.job_ended(number, when, finished=finished)
                parts = forecast_jobs(scheduler, now, self.calibration, epoch).parts()
                self.problem = ""
            except Exception as error:  # the next one may succeed; meanwhile jobs run as ever
                self.problem = f"there are no forecasts: {type(error).__name__}: {error}"
            self.last_seconds = time.thread_time() - began
            with self._changed:
                self._busy = False
                pause = max(_MIN_PAUSE_SECONDS, _PAUSE_PER_SECOND * self.last_seconds)
                self._ready_at = 0.0 if self._hurried else time.monotonic() + pause
                self._hurried = False
            for part in parts:
                self._send(part)
                time.sleep(_BETWEEN_PARTS_SECONDS)
