"""The client library for training scripts: a loop that saves, resumes, and returns when it is preempted.

    import volvelle.client as vc

    state = vc.restore(default=vc.State(weight=0.0))
    for batch in vc.iterate(loader, epochs=3, save=state.save, every="10m"):
        ...
        vc.report(loss=loss)

Works without a scheduler too. Depends on the standard library only. After Blox's client library (sections 6
and 7). README.md describes the package.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar, overload

from volvelle.client.lease import this_lease
from volvelle.client.run import Batch, BatchSizeRule, JobProgress, SaveOptions, TrainingRun
from volvelle.client.state import Restorable, State

__all__ = [
    "BatchSizeRule",
    "JobProgress",
    "Restorable",
    "State",
    "batch_size",
    "checkpoint_folder",
    "iterate",
    "preempted",
    "progress",
    "report",
    "restore",
]

Loaded = TypeVar("Loaded")
Loading = TypeVar("Loading", bound=Restorable)


@cache
def _this_run() -> TrainingRun:
    return TrainingRun(this_lease())


@overload
def restore(default: Loading, *, checkpoint: str | Path | None = None) -> Loading: ...
@overload
def restore(
    default: Loaded, load: Callable[[Path], Loaded], *, checkpoint: str | Path | None = None
) -> Loaded: ...
def restore(default, load=None, *, checkpoint=None):  # type: ignore[no-untyped-def]
    """The state of the latest checkpoint, or ``default`` if there is none. Call it before `iterate`.

    ``load(path)`` reads a checkpoint and returns the state. Without ``load``, ``default.load(path)`` changes
    ``default`` in place. ``checkpoint``: the folder to use if the scheduler sets none. With neither, nothing
    is saved.
    """
    path = _this_run().open_checkpoints(None if checkpoint is None else Path(checkpoint))
    if path is None:
        return default
    if load is not None:
        return load(path)
    default.load(path)
    return default


def iterate(
    loader: Iterable[Batch],
    *,
    epochs: int | None = None,
    save: Callable[[Path], object] | None = None,
    every: str | int | timedelta | None = "10m",
    total: int | None = None,
    accumulate: int = 1,
    save_on_all_ranks: bool = False,
    on_batch_size: Callable[[int], object] | None = None,
    scaling: BatchSizeRule | None = None,
) -> Iterator[Batch]:
    """The batches of ``loader``, ``epochs`` times over, without those that the checkpoint holds.

    Ends early when the job is preempted, once the checkpoint is written (see `preempted`). Call it in the
    same order in every attempt: the second call continues the second loop of the job.

    epochs: passes over the loader; None: one pass, inside a loop over epochs of the script's own.
    save: called with the path of a file or folder to write.
    every: a duration ("10m") or iterations (100) between checkpoints; None: only as loop or lease ends.
    total: iterations of the whole job, if they are not the batches of this loop's epochs.
    accumulate: iterations of one optimizer step; the job saves and exits only after whole steps.
    save_on_all_ranks: every rank saves its part; otherwise only the leading rank.
    on_batch_size: called before an epoch for which the scheduler or ``scaling`` sets a batch size.
    scaling: the rule by which the script changes its batch size between epochs, which the scheduler is told.
        It belongs to the state that is saved.
    """
    return _this_run().iterate(
        loader,
        epochs,
        total,
        SaveOptions(save, every, accumulate, save_on_all_ranks),
        on_batch_size,
        scaling,
    )


def report(**metrics: object) -> None:
    """Report metrics of this iteration, such as ``loss``. Only those of the leading rank are kept."""
    _this_run().report(metrics)


def preempted() -> bool:
    """Whether the loop ended because the lease was revoked. The script should then exit."""
    return this_lease().preempted


def progress() -> JobProgress:
    """Progress of the job over all attempts."""
    return _this_run().progress


def batch_size(otherwise: int) -> int:
    """The batch size that is set for this epoch; ``otherwise`` if none is.

    The scheduler sets one, or the checkpoint of a half-done epoch, whose rule had chosen it.
    """
    return _this_run().batch_size(otherwise)


def checkpoint_folder(otherwise: str | Path) -> Path:
    """The scheduler's checkpoint folder, for frameworks that write checkpoints; else ``otherwise``."""
    return this_lease().context.checkpoint or Path(otherwise)
