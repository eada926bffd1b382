"""What a training script imports: a loop that saves, resumes, and returns when the scheduler wants its GPUs.

    import volvelle.client as vc

    state = vc.restore(default=vc.State(weight=0.0))
    for batch in vc.iterate(loader, epochs=3, save=state.save, every="10m"):
        ...
        vc.report(loss=loss)

Works without a scheduler too. Depends on the standard library alone. The idea is that of Blox's client
library (sections 6 and 7).
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar, overload

from volvelle.client.lease import this_lease
from volvelle.client.run import Batch, Progress, Run, Saving
from volvelle.client.state import Restorable, State

__all__ = [
    "Progress",
    "Restorable",
    "State",
    "batch_size",
    "checkpoint_folder",
    "iterate",
    "left",
    "progress",
    "report",
    "restore",
]

Loaded = TypeVar("Loaded")
Loading = TypeVar("Loading", bound=Restorable)


@cache
def _this_run() -> Run:
    return Run(this_lease())


@overload
def restore(default: Loading, *, checkpoint: str | Path | None = None) -> Loading: ...
@overload
def restore(
    default: Loaded, load: Callable[[Path], Loaded], *, checkpoint: str | Path | None = None
) -> Loaded: ...
def restore(default, load=None, *, checkpoint=None):  # type: ignore[no-untyped-def]
    """The state of the latest checkpoint, or ``default`` where there is none. Call it before `iterate`.

    A checkpoint is read by ``load(path)``, which returns the state; without it by ``default.load(path)``,
    which changes ``default`` in place. ``checkpoint`` is the folder of a job whose scheduler names none; with
    neither, nothing is saved.
    """
    path = _this_run().keep_at(None if checkpoint is None else Path(checkpoint))
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
) -> Iterator[Batch]:
    """The batches of ``loader``, ``epochs`` times over, without those that the checkpoint holds.

    Ends early when the lease does, once the checkpoint is written (`left` says so). Call it in the same order
    in every attempt: the second call continues the second loop of the job.

    epochs: passes over the loader; None: one, of a loop over epochs that the script has itself.
    save: called with the path of a file or folder to write.
    every: how often, as a duration ("10m") or in iterations (100); None: only as loop or lease end.
    total: iterations of the whole job, where they are not the batches of this loop's epochs.
    accumulate: iterations of one optimizer step, after which the job is saved or left, and ranks meet.
    save_on_all_ranks: every rank saves its part; otherwise the leading rank alone.
    on_batch_size: called before an epoch for which the scheduler wants a batch size of its own.
    """
    return _this_run().iterate(
        loader,
        epochs,
        total,
        Saving(save, every, accumulate, save_on_all_ranks),
        on_batch_size,
    )


def report(**metrics: object) -> None:
    """Report numbers of this iteration, such as ``loss``; only the leading rank's are kept."""
    _this_run().report(metrics)


def left() -> bool:
    """Whether the loop ended because the lease did, so that the script has nothing more to do."""
    return this_lease().left


def progress() -> Progress:
    """How far the job is, over all attempts."""
    return _this_run().progress


def batch_size(otherwise: int) -> int:
    """The batch size the scheduler wants for this epoch, ``otherwise`` where it leaves that to the script."""
    return _this_run().batch_size(otherwise)


def checkpoint_folder(otherwise: str | Path) -> Path:
    """Where the scheduler wants checkpoints, for frameworks that write their own; else ``otherwise``."""
    return this_lease().place.checkpoint or Path(otherwise)
