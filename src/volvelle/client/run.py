"""One process of a training job: iterates over its data from the checkpoint's position, and saves.

An iteration counts once a durable checkpoint holds it. After a kill the job repeats later iterations; in the
surviving history every iteration occurs once.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from volvelle.client import random_state
from volvelle.client.checkpoint import CheckpointFolder, Position, RandomStates
from volvelle.client.lease import Lease
from volvelle.durations import parse_duration

Batch = TypeVar("Batch")


class BatchSizeRule(Protocol):
    """How a script scales its batch size: `volvelle.client.accordion`, `volvelle.client.gns`, or its own."""

    @property
    def batch_size(self) -> int:
        """The size of the epoch that begins."""
        ...

    def epoch_done(self) -> object:
        """Called at the end of every epoch: choose the size of the next."""
        ...


@runtime_checkable
class MeasuringRule(Protocol):
    """A rule that measures what the scheduler chooses batch sizes by: `volvelle.client.pollux`."""

    @property
    def measured(self) -> dict[str, float] | None:
        """The measurement of the present epoch; None: nothing yet."""
        ...

    def epoch_begins(self, batch_size: int) -> object:
        """Called at the start of every epoch with its size."""
        ...


class JobProgress(NamedTuple):
    """Progress of a job: iterations over all attempts, the current epoch, batches done of it."""

    iterations: int
    epoch: int
    batch: int


class SaveOptions(NamedTuple):
    """How a loop saves; the fields are those of `volvelle.client.iterate`."""

    save: Callable[[Path], object] | None
    every: str | int | timedelta | None
    accumulate: int
    on_all_ranks: bool

    def checked(self, ranks: int) -> "SaveOptions":
        """These options, if they are valid for ``ranks`` ranks. Raises ValueError."""
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
        """Checkpoint interval in nanoseconds; None if it is not a duration."""
        match self.every:
            case None | int():
                return None
            case timedelta():
                return int(1e9 * self.every.total_seconds())
            case _:
                return int(1e9 * parse_duration(self.every))


class TrainingRun:
    """The training run of this process, under its lease."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._context = lease.context
        self._checkpoints: CheckpointFolder | None = None
        self._position = Position(ranks=self._context.ranks)
        self._resumed: RandomStates | None = None
        self._epoch_states: dict[str, Any] = {}
        self._loops = 0
        self._within = 0

    @property
    def progress(self) -> JobProgress:
        """Progress of the job."""
        return JobProgress(self._position.iterations, self._position.epoch, self._position.batch)

    def open_checkpoints(self, folder: Path | None) -> Path | None:
        """Use ``folder`` for checkpoints unless the scheduler sets one. Returns the latest state in it."""
        folder = self._context.checkpoint or folder
        if folder is None:
            return None
        self._checkpoints = CheckpointFolder(folder, self._context.rank)
        position = self._position = self._checkpoints.position()
        # Ranks interleave the samples of an epoch, so the samples done are a prefix for any number of ranks.
        position.batch = position.batch * position.ranks // self._context.ranks
        position.ranks = self._context.ranks
        self._resumed = self._checkpoints.random_states()
        self.lease.resume_from(position.iterations)
        return self._checkpoints.latest()

    def batch_size(self, otherwise: int) -> int:
        """The batch size of this epoch: the scheduler's, or ``otherwise``."""
        position = self._position
        return (position.batch_size if position.batch else self.lease.batch_size) or otherwise

    def report(self, values: dict[str, object]) -> None:
        """Report ``values`` for the current iteration."""
        self.lease.report(self._position.iterations + self._within, values)

    def iterate(
        self,
        loader: Iterable[Batch],
        epochs: int | None,
        total: int | None,
        options: SaveOptions,
        on_batch_size: Callable[[int], object] | None,
        scaling: BatchSizeRule | None = None,
    ) -> Iterator[Batch]:
        """The next loop of the job, from its position."""
        saver = _Saver(self, options.checked(self._context.ranks))
        if total is not None and total < 1:
            raise ValueError(
                f"total must be at least 1, or left out where it is unknown, not {total}"
            )
        loop, self._loops = self._loops, self._loops + 1
        lease, position = self.lease, self._position
        if lease.preempted or loop < position.loop:
            return
        if loop > position.loop:  # the script broke out of the loop before
            position.loop, position.epoch, position.batch = loop, 0, 0
        lease.attach()
        for epoch in range(position.epoch, epochs or 1):
            items = self._begin(loader, epoch, epochs, on_batch_size, scaling)
            lease.set_total_iterations(total or self._total(loader, (epochs or 1) - epoch))
            length = _length(loader)
            share = 1.0 / length if length else 0.0
            lease.begin_epoch(
                epoch + min(position.batch * share, 1.0),
                epochs or 0,
                position.batch_size if scaling is not None else 0,
            )
            began = time.perf_counter_ns()
            for batch in items:
                self._within = 1
                yield batch
                self._within = 0
                now = time.perf_counter_ns()
                position.batch += 1
                position.iterations += 1
                epochs_done = epoch + min(position.batch * share, 1.0)
                if lease.iteration_done(
                    position.iterations, now - began, options.accumulate, epochs_done
                ):
                    saver.save()
                    lease.mark_preempted()
                    return
                if saver.due(now, position.iterations):
                    saver.save_if_possible()
                began = time.perf_counter_ns()
            if isinstance(scaling, MeasuringRule) and (measured := scaling.measured):
                lease.report_training(position.iterations, measured)
            if scaling is not None:
                scaling.epoch_done()
        position.loop, position.epoch, position.batch = loop + 1, 0, 0
        saver.save()

    def _begin(
        self,
        loader: Iterable[Batch],
        epoch: int,
        epochs: int | None,
        on_batch_size: Callable[[int], object] | None,
        scaling: BatchSizeRule | None,
    ) -> Iterator[Batch]:
        """The remaining batches of an epoch, in the order of its original shuffle."""
        position = self._position
        if epoch != position.epoch:
            position.epoch, position.batch = epoch, 0
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            random_state.restore_states(resumed.epoch if position.batch else resumed.now)
        if position.batch:
            self._epoch_states = resumed.epoch if resumed is not None else {}
        else:
            chosen = 0 if scaling is None else scaling.batch_size
            position.batch_size = self.lease.batch_size or chosen
            self._epoch_states = random_state.capture()
        if isinstance(scaling, MeasuringRule):
            scaling.epoch_begins(position.batch_size)
        if on_batch_size is not None and position.batch_size:
            on_batch_size(position.batch_size)
        if epochs is not None:
            set_epoch(loader, epoch)
        items = iter(loader)
        _skip(items, epoch, position.batch)
        if resumed is not None and position.batch:
            random_state.restore_states(resumed.now)
        return items

    def _total(self, loader: Any, epochs_left: int) -> int:
        """Iterations of the whole job as far as this loop shows; 0 if its loader has no length."""
        length = _length(loader)
        if length is None:
            return 0
        return self._position.iterations - self._position.batch + length * epochs_left

    def save(self, options: SaveOptions) -> None:
        """Write a checkpoint, if there is a checkpoint folder."""
        if options.save is None or self._checkpoints is None:
            return
        if self._context.is_leader or options.on_all_ranks:
            self.lease.flush()
            states = RandomStates(self._epoch_states, random_state.capture())
            savers = self._context.ranks if options.on_all_ranks else 1
            self._checkpoints.write(self._position, states, options.save, savers)
            self.lease.checkpoint_saved(self._position.iterations)


class _Saver:
    """Decides when a loop saves."""

    def __init__(self, run: TrainingRun, options: SaveOptions) -> None:
        self._run = run
        self._options = options
        self._period_ns = options.period_ns
        self._wait()

    def _wait(self) -> None:
        self._due_ns = time.perf_counter_ns() + (self._period_ns or 0)

    def due(self, now_ns: int, iterations: int) -> bool:
        """Whether a checkpoint is due."""
        if iterations % self._options.accumulate:
            return False
        if self._period_ns is not None:
            return now_ns >= self._due_ns
        every = self._options.every
        return isinstance(every, int) and iterations % every == 0

    def save(self) -> None:
        """Save now. Raises OSError if the write fails."""
        self._run.save(self._options)
        self._wait()

    def save_if_possible(self) -> None:
        """Save now. If the disk refuses, warn and continue with the checkpoint before.

        With several saving ranks the error is raised: other ranks wait for this one's part.
        """
        try:
            self.save()
        except OSError as error:
            if self._options.on_all_ranks:
                raise
            self._wait()
            warnings.warn(f"no checkpoint: {error}; training goes on", RuntimeWarning, stacklevel=3)


def _length(loader: Any) -> int | None:
    """Batches of an epoch; None where the loader does not say."""
    try:
        return len(loader)
    except TypeError:
        return None


def _skip(items: Iterator[Any], epoch: int, batches: int) -> None:
    """Skip the batches that the checkpoint holds. Raises RuntimeError if there are fewer."""
    nothing = object()
    for done in range(batches):
        if next(items, nothing) is nothing:
            raise RuntimeError(
                f"epoch {epoch} has {done} batches, the checkpoint holds {batches} of it: "
                "were the data or the batch size changed?"
            )


def set_epoch(loader: object, epoch: int) -> None:
    """Call ``set_epoch`` of the loader and of its samplers where they have it."""
    for listener in (
        loader,
        getattr(loader, "sampler", None),
        getattr(loader, "batch_sampler", None),
    ):
        set_epoch = getattr(listener, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
