"""Lightning: a callback that makes a Trainer preemptible.

    preemptible = Preemptible("out", every=500)
    trainer = lightning.Trainer(callbacks=[preemptible])
    trainer.fit(model, ckpt_path=preemptible.latest)

Lightning resumes within an epoch but begins its data anew; the callback passes over what was done of it, in
the order in which it was shuffled. For that it uses parts of the Trainer's loops that Lightning does not
promise to keep. Checkpoints must be one file, as most strategies write them.
"""

import time
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from volvelle.client import random_state
from volvelle.client.checkpoint import Chances
from volvelle.client.durable_files import put
from volvelle.client.lease import this_lease
from volvelle.client.run import set_epoch


class Preemptible(Callback):  # type: ignore[misc, unused-ignore]
    """Saves every so many optimizer steps and when the lease ends, and leaves then.

    folder: for the checkpoint of a job whose scheduler names no place. An iteration is an optimizer step.
    """

    def __init__(self, folder: str | Path, every: int) -> None:
        self._lease = this_lease()
        self._folder = self._lease.place.checkpoint or Path(folder)
        self._every = every
        self._began = 0
        self._steps = 0
        self._leaving = False
        self._epoch_chance: dict[str, Any] = {}
        self._resumed: dict[str, Any] | None = None

    @property
    def latest(self) -> str | None:
        """What to resume from, if anything."""
        path = self._folder / "latest.ckpt"
        return str(path) if path.exists() else None

    def state_dict(self) -> dict[str, Any]:
        """The random generators, part of the checkpoint."""
        return Chances(self._epoch_chance, random_state.capture())._asdict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What the checkpoint has of it."""
        self._resumed = state_dict

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember what decides how the first epoch is shuffled."""
        self._epoch_chance = random_state.capture()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember what decides how a later epoch is shuffled."""
        if trainer.current_epoch > 0:
            self._epoch_chance = random_state.capture()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on from where the Trainer does."""
        self._steps = trainer.global_step
        self._lease.begin_from(self._steps)
        total = trainer.estimated_stepping_batches
        self._lease.tell(int(total) if 0 < total < float("inf") else 0)
        self._lease.attach()
        if self._resumed is not None:
            self._pass_over(trainer, Chances(**self._resumed))
        self._began = time.perf_counter_ns()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count an optimizer step; save where it is time, and stop where the lease has ended."""
        if trainer.global_step == self._steps:
            return
        self._steps = trainer.global_step
        now = time.perf_counter_ns()
        self._lease.report(self._steps, trainer.logged_metrics)
        self._leaving = self._lease.done(self._steps, now - self._began)
        if self._leaving or self._steps % self._every == 0:
            self._save(trainer)
        if self._leaving:
            trainer.should_stop = True
            trainer.limit_val_batches = 0  # a Trainer told to stop validates first
            trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        self._began = time.perf_counter_ns()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave, if that is why training ends."""
        if self._leaving:
            self._lease.leave()

    def _pass_over(self, trainer: Any, chances: Chances) -> None:
        """Pass over what is done of the epoch; then the random generators are as when it was saved."""
        done = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if done >= trainer.num_training_batches:
            done = 0
        self._epoch_chance = chances.epoch if done else chances.now
        if trainer.is_global_zero:  # other ranks' generators are not in the checkpoint
            random_state.put_back(self._epoch_chance)
        set_epoch(trainer.train_dataloader, trainer.current_epoch)
        batches = iter(trainer.fit_loop._data_fetcher)
        for _ in range(done):
            next(batches)
        batches.fetched -= done  # the epoch's loop adds them itself
        if trainer.is_global_zero and done:
            random_state.put_back(chances.now)

    def _save(self, trainer: Any) -> None:
        partial = self._folder / "partial.ckpt"
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            self._lease.flush()
            put(partial, self._folder / "latest.ckpt")
            self._lease.saved(self._steps)
