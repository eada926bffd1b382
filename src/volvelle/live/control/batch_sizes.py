"""Batch sizes that the scheduler chooses for live jobs, by the goodput that they measure (Pollux, OSDI'21).

The agent in the job (`volvelle.client.pollux`) measures iterations and gradients; the model of its steps is
fitted by the server (`StepFitter`), as in simulations, because the client has no solver. Departures from
the paper: the exchange of gradients is not measured apart, so that it is seen only in what a step takes
longer on more GPUs; and a batch is taken to be made in as many passes as Pollux would make it in.
"""

from volvelle.core.goodput import arrays_of, best_batch
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.messages import TrainingMeasure
from volvelle.model.goodput import Goodput

_MAX_SEEN = 50
"""Places and local batches of a job that are kept, the latest."""
_NEWS = 0.05
"""Relative change from which on a measure is news."""


def news_of(job: LiveJob, measure: TrainingMeasure, nodes: int, gpus: int) -> Goodput | None:
    """The goodput function by a measure on ``gpus`` GPUs of ``nodes`` nodes; None where that is no news.

    A first measurement is kept among the job's `steps_seen`, to be fitted.
    """
    local = measure.batch_size / gpus
    place, seconds = (float(nodes), float(gpus), local), measure.step_seconds
    if not measure.first <= measure.limit or not measure.least_local <= measure.most_local:
        return None  # jobs write what they want
    known, seen = job.goodput, dict(job.steps_seen)
    if _differs(seen.get(place, 0.0), seconds):
        seen.pop(place, None)
        seen[place] = seconds
        job.steps_seen = tuple(seen.items())[-_MAX_SEEN:]
    if job.steps is None:
        return None
    noise = measure.grad_var / measure.grad_sqr
    same_steps = known is not None and known.steps == job.steps
    if known is not None and same_steps and not _differs(known.grad_var / known.grad_sqr, noise):
        return None
    return Goodput(
        job.steps,
        measure.grad_sqr,
        measure.grad_var,
        measure.first,
        measure.limit,
        measure.least_local,
        measure.most_local,
    )


def best_size(goodput: Goodput, nodes: int, gpus: int) -> int:
    """The batch size of the best goodput on ``gpus`` GPUs of ``nodes`` nodes; 0 where none is known."""
    best, local, passes = best_batch(*arrays_of(goodput), nodes > 1, gpus)
    return local * passes * gpus if best > 0.0 else 0


def _differs(before: float, now: float) -> bool:
    return abs(now - before) > _NEWS * max(before, now)
