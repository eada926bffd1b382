"""One process of a job at work: it goes through its data from where the checkpoint stands, and saves.

An iteration counts once the checkpoint that holds it is durable: after an attempt that was killed, the job
repeats what came later, and in the history that survives every iteration is once.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from volvelle.client import random_state
from volvelle.client.checkpoint import Chances, Checkpoints, Position
from volvelle.client.lease import Lease
from volvelle.durations import parse_duration

Batch = TypeVar("Batch")


class Progress(NamedTuple):
    """How far a job is: iterations done over all attempts; the epoch it is in, and batches done of it."""

    iterations: int
    epoch: int
    batch: int


@dataclass(frozen=True)
class Saving:
    """How a loop saves; the fields are those of `volvelle.client.iterate`."""

    save: Callable[[Path], object] | None
    every: str | int | timedelta | None
    accumulate: int
    on_all_ranks: bool

    def checked(self, ranks: int) -> "Saving":
        """This, if it can be done with so many ranks. Raises ValueError."""
        if self.accumulate < 1:
            raise ValueError(f"accumulate must be at least 1 iteration, not {self.accumulate}")
        if isinstance(self.every, int) and self.every < 1:
            raise ValueError(f"every must be at least 1 iteration, not {self.every}")
        if self.on_all_ranks and ranks > 1 and self.period_ns is not None:
            raise ValueError(
                "with save_on_all_ranks, give every as a number of iterations: clocks of ranks differ"
            )
        return self

    @property
    def period_ns(self) -> int | None:
        """Nanoseconds from one checkpoint to the next, where it is a matter of time."""
        match self.every:
            case None | int():
                return None
            case timedelta():
                return int(1e9 * self.every.total_seconds())
            case _:
                return int(1e9 * parse_duration(self.every))


class Run:
    """This process, on its lease."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._place = lease.place
        self._checkpoints: Checkpoints | None = None
        self._position = Position(ranks=self._place.ranks)
        self._resumed: Chances | None = None
        self._epoch_chance: dict[str, Any] = {}
        self._loops = 0
        self._within = 0

    @property
    def progress(self) -> Progress:
        """How far the job is."""
        return Progress(self._position.iterations, self._position.epoch, self._position.batch)

    def keep_at(self, folder: Path | None) -> Path | None:
        """Keep checkpoints in ``folder`` where the scheduler names none; the latest state there."""
        folder = self._place.checkpoint or folder
        if folder is None:
            return None
        self._checkpoints = Checkpoints(folder, self._place.rank)
        position = self._position = self._checkpoints.position()
        # Ranks take turns in an epoch's samples, so what is done is a prefix whatever their number.
        position.batch = position.batch * position.ranks // self._place.ranks
        position.ranks = self._place.ranks
        self._resumed = self._checkpoints.chances()
        self.lease.begin_from(position.iterations)
        return self._checkpoints.latest()

    def batch_size(self, otherwise: int) -> int:
        """The batch size of this epoch: the scheduler's, or ``otherwise``."""
        position = self._position
        return (position.batch_size if position.batch else self.lease.batch_size) or otherwise

    def report(self, values: dict[str, object]) -> None:
        """Have ``values`` go with the iteration at hand."""
        self.lease.report(self._position.iterations + self._within, values)

    def iterate(
        self,
        loader: Iterable[Batch],
        epochs: int | None,
        total: int | None,
        saving: Saving,
        on_batch_size: Callable[[int], object] | None,
    ) -> Iterator[Batch]:
        """The next loop of the job, from where it stood."""
        saver = _Saver(self, saving.checked(self._place.ranks))
        loop, self._loops = self._loops, self._loops + 1
        lease, position = self.lease, self._position
        if lease.left or loop < position.loop:
            return
        if loop > position.loop:  # the script broke out of the one before
            position.loop, position.epoch, position.batch = loop, 0, 0
        lease.attach()
        for epoch in range(position.epoch, epochs or 1):
            items = self._begin(loader, epoch, epochs, on_batch_size)
            lease.tell(total or self._total(loader, (epochs or 1) - epoch))
            began = time.perf_counter_ns()
            for batch in items:
                self._within = 1
                yield batch
                self._within = 0
                now = time.perf_counter_ns()
                position.batch += 1
                position.iterations += 1
                if lease.done(position.iterations, now - began, saving.accumulate):
                    saver.save()
                    lease.leave()
                    return
                if saver.due(now, position.iterations):
                    saver.save_if_possible()
                began = time.perf_counter_ns()
        position.loop, position.epoch, position.batch = loop + 1, 0, 0
        saver.save()

    def _begin(
        self,
        loader: Iterable[Batch],
        epoch: int,
        epochs: int | None,
        on_batch_size: Callable[[int], object] | None,
    ) -> Iterator[Batch]:
        """The rest of an epoch, shuffled as when it was begun."""
        position = self._position
        if epoch != position.epoch:
            position.epoch, position.batch = epoch, 0
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            random_state.put_back(resumed.epoch if position.batch else resumed.now)
        if position.batch:
            self._epoch_chance = resumed.epoch if resumed is not None else {}
        else:
            self._epoch_chance, position.batch_size = random_state.capture(), self.lease.batch_size
        if on_batch_size is not None and position.batch_size:
            on_batch_size(position.batch_size)
        if epochs is not None:
            set_epoch(loader, epoch)
        items = iter(loader)
        _skip(items, epoch, position.batch)
        if resumed is not None and position.batch:
            random_state.put_back(resumed.now)
        return items

    def _total(self, loader: Any, epochs_left: int) -> int:
        """Iterations of the whole job, as far as this loop tells; 0 where its loader has no length."""
        try:
            return self._position.iterations - self._position.batch + len(loader) * epochs_left
        except TypeError:
            return 0

    def save(self, saving: Saving) -> None:
        """Make the state and the position durable, where checkpoints are kept at all."""
        if saving.save is None or self._checkpoints is None:
            return
        if self._place.leading or saving.on_all_ranks:
            self.lease.flush()
            chances = Chances(self._epoch_chance, random_state.capture())
            savers = self._place.ranks if saving.on_all_ranks else 1
            self._checkpoints.write(self._position, chances, saving.save, savers)
            self.lease.saved(self._position.iterations)


class _Saver:
    """When a loop saves."""

    def __init__(self, run: Run, saving: Saving) -> None:
        self._run = run
        self._saving = saving
        self._period_ns = saving.period_ns
        self._wait()

    def _wait(self) -> None:
        self._due_ns = time.perf_counter_ns() + (self._period_ns or 0)

    def due(self, now_ns: int, iterations: int) -> bool:
        """Whether to save after so many iterations."""
        if iterations % self._saving.accumulate:
            return False
        if self._period_ns is not None:
            return now_ns >= self._due_ns
        every = self._saving.every
        return isinstance(every, int) and iterations % every == 0

    def save(self) -> None:
        """Save now. Raises OSError where that fails."""
        self._run.save(self._saving)
        self._wait()

    def save_if_possible(self) -> None:
        """Save now; where the disk refuses, say so, and train on with the checkpoint there is.

        Not where other ranks wait for this one's part.
        """
        try:
            self.save()
        except OSError as error:
            if self._saving.on_all_ranks:
                raise
            self._wait()
            warnings.warn(f"no checkpoint: {error}; training goes on", RuntimeWarning, stacklevel=3)


def _skip(items: Iterator[Any], epoch: int, batches: int) -> None:
    """Pass over what the checkpoint holds. Raises RuntimeError where there is less."""
    nothing = object()
    for done in range(batches):
        if next(items, nothing) is nothing:
            raise RuntimeError(
                f"epoch {epoch} has {done} batches, the checkpoint holds {batches} of it: "
                "were the data or the batch size changed?"
            )


def set_epoch(loader: object, epoch: int) -> None:
    """Tell the loader and the samplers that PyTorch's hold which epoch this is, if they ask."""
    for listener in (
        loader,
        getattr(loader, "sampler", None),
        getattr(loader, "batch_sampler", None),
    ):
        set_epoch = getattr(listener, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
