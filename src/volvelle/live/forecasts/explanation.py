"""Why a job is in its state, as users see it."""

from dataclasses import dataclass
from typing import Self

from volvelle.live.forecasts.suggestions import Suggestion
from volvelle.live.records import RateMeasured
from volvelle.live.status.view import JobStatusView


@dataclass(frozen=True)
class MeasuredRateView:
    """How fast jobs of a name were on ``gpus`` GPUs of ``gpu_type`` over ``nodes`` nodes.

    rate: epochs per second, or iterations where ``epochs`` is False. total: of the job; 0: not known.
    """

    gpu_type: str
    gpus: int
    nodes: int
    rate: float
    epochs: bool
    total: float

    @classmethod
    def of(cls, record: RateMeasured) -> Self:
        """As it is kept."""
        return cls(
            record.gpu_type, record.gpus, record.nodes, record.rate, record.epochs, record.total
        )


@dataclass(frozen=True)
class JobExplanation:
    """Why a job is in its state: the dominant reason, and what would change it.

    ahead: waiting jobs that are expected to start before it. after: the jobs at whose ends it starts.
    complete: whether all changes that could help were tried. measured: of its user's jobs of its name, the
    latest last. notices: limits of its forecast.
    """

    job: JobStatusView
    reason: str
    ahead: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    changes: tuple[Suggestion, ...] = ()
    complete: bool = True
    measured: tuple[MeasuredRateView, ...] = ()
    notices: tuple[str, ...] = ()
