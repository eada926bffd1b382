"""What reaches the controller: reports, asks with the futures that wait for their answers, forecasts."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from volvelle.core.scheduler import Scheduler
from volvelle.live.control.requests import Ask
from volvelle.live.forecasts.forecaster import Foreseen
from volvelle.live.messages import Report


@dataclass(frozen=True)
class Asked:
    """Somebody waits for an answer."""

    ask: Ask
    answer: Future[Any]


@dataclass(frozen=True)
class Look:
    """Somebody wants a scheduler in the state of the present one, for himself."""

    answer: Future[Scheduler]


@dataclass(frozen=True)
class Awaiting:
    """The controller has just begun: nodes that were there are to take no new jobs before they join."""


Stimulus = Report | Asked | Look | Foreseen | Awaiting
