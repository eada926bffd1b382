"""Lightning: a callback that makes a Trainer preemptible.

    preemptible = PreemptibleLightningCallback("out", every=500)
    trainer = lightning.Trainer(callbacks=[preemptible])
    trainer.fit(model, ckpt_path=preemptible.latest)

Lightning resumes within an epoch but restarts its data loader; the callback skips the batches that are done,
in their shuffled order. It uses parts of the Trainer's loops that are not Lightning's public API. A
checkpoint must be one file, as most strategies write it.
"""

import time
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from volvelle.client import random_state
from volvelle.client.checkpoint import RandomStates
from volvelle.client.durable_files import publish
from volvelle.client.lease import this_lease
from volvelle.client.run import set_epoch


class PreemptibleLightningCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Saves every ``every`` optimizer steps and when the lease is revoked, and then stops training.

    folder: for the checkpoint of a job whose scheduler sets no folder. An iteration is an optimizer step.
    """

    def __init__(self, folder: str | Path, every: int) -> None:
        self._lease = this_lease()
        self._folder = self._lease.context.checkpoint or Path(folder)
        self._every = every
        self._began = 0
        self._steps = 0
        self._preempted = False
        self._epoch_states: dict[str, Any] = {}
        self._resumed: dict[str, Any] | None = None

    @property
    def latest(self) -> str | None:
        """Path of the checkpoint to resume from; None if there is none."""
        path = self._folder / "latest.ckpt"
        return str(path) if path.exists() else None

    def state_dict(self) -> dict[str, Any]:
        """The random number generators, part of the checkpoint."""
        return RandomStates(self._epoch_states, random_state.capture())._asdict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the random number generators of the checkpoint."""
        self._resumed = state_dict

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Capture the states that decide the shuffle of the first epoch."""
        self._epoch_states = random_state.capture()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Capture the states that decide the shuffle of a later epoch."""
        if trainer.current_epoch > 0:
            self._epoch_states = random_state.capture()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach to the lease at the Trainer's step, and skip the batches that are done."""
        self._steps = trainer.global_step
        self._lease.resume_from(self._steps)
        total = trainer.estimated_stepping_batches
        self._lease.set_total_iterations(int(total) if 0 < total < float("inf") else 0)
        self._lease.attach()
        if self._resumed is not None:
            self._skip_done(trainer, RandomStates(**self._resumed))
        self._began = time.perf_counter_ns()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count an optimizer step. Save at the interval; save and stop if the lease was revoked."""
        if trainer.global_step == self._steps:
            return
        self._steps = trainer.global_step
        now = time.perf_counter_ns()
        self._lease.report(self._steps, trainer.logged_metrics)
        self._preempted = self._lease.iteration_done(self._steps, now - self._began)
        if self._preempted or self._steps % self._every == 0:
            self._save(trainer)
        if self._preempted:
            trainer.should_stop = True
            trainer.limit_val_batches = 0  # a Trainer validates before it stops
            trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        self._began = time.perf_counter_ns()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the preemption, if that ended training."""
        if self._preempted:
            self._lease.mark_preempted()

    def _skip_done(self, trainer: Any, states: RandomStates) -> None:
        """Skip the batches of the epoch that are done, and restore the random states of the checkpoint."""
        done = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if done >= trainer.num_training_batches:
            done = 0
        self._epoch_states = states.epoch if done else states.now
        if trainer.is_global_zero:  # other ranks' generators are not in the checkpoint
            random_state.restore_states(self._epoch_states)
        set_epoch(trainer.train_dataloader, trainer.current_epoch)
        batches = iter(trainer.fit_loop._data_fetcher)
        for _ in range(done):
            next(batches)
        batches.fetched -= done  # the epoch's loop counts them itself
        if trainer.is_global_zero and done:
            random_state.restore_states(states.now)

    def _save(self, trainer: Any) -> None:
        partial = self._folder / "partial.ckpt"
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            self._lease.flush()
            publish(partial, self._folder / "latest.ckpt")
            self._lease.checkpoint_saved(self._steps)
