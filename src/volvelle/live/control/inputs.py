"""Inputs of the controller's cycle: reports, requests with their futures, forecasts."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from volvelle.core.scheduler import Scheduler
from volvelle.live.control.requests import ControlRequest
from volvelle.live.control.step_fits import StepFit
from volvelle.live.forecasts.forecast_update import ForecastUpdate
from volvelle.live.messages import Report
from volvelle.live.records import ClockSet


@dataclass(frozen=True)
class PendingRequest:
    """A request, and the future that waits for its answer."""

    request: ControlRequest
    answer: Future[Any]


@dataclass(frozen=True)
class ForkRequest:
    """A request for a fork of the scheduler."""

    answer: Future[Scheduler]


@dataclass(frozen=True)
class ControllerStarted:
    """The controller has started: nodes must join before they take new jobs.

    identity: of this start. nodes: names of those that the executor reports as joined or as lost. restored:
    an operator has restored the store from a backup.
    """

    identity: str
    nodes: frozenset[str]
    restored: bool = False


Input = (
    Report | PendingRequest | ForkRequest | ForecastUpdate | StepFit | ControllerStarted | ClockSet
)
