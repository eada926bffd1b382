"""Hugging Face's Trainer: a callback that makes it preemptible.

    folder = vc.checkpoint_folder("out")
    arguments = TrainingArguments(str(folder), save_steps=500)
    trainer = Trainer(model, arguments, callbacks=[PreemptibleTrainerCallback()])
    trainer.train(resume_from_checkpoint=latest_checkpoint(folder))

The Trainer writes and reads its checkpoints, and skips the batches of an epoch that are done. It writes in
place; so the callback marks complete checkpoints, and only these are resumed from. Do not set
``save_total_limit=1``: the Trainer then removes the last complete checkpoint before the next is complete.
"""

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from volvelle.client.durable_files import fsync_tree, write_json
from volvelle.client.lease import this_lease

_COMPLETE = "complete.json"


def latest_checkpoint(folder: str | Path) -> str | None:
    """Path of the latest complete checkpoint in ``folder``; None if there is none."""
    complete = Path(folder).glob(f"checkpoint-*/{_COMPLETE}")
    latest = max(complete, key=lambda file: int(file.parent.name.rpartition("-")[2]), default=None)
    return None if latest is None else str(latest.parent)


class PreemptibleTrainerCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Stops training when the lease is revoked, counts steps as iterations, reports what the Trainer logs."""

    def __init__(self) -> None:
        self._lease = this_lease()
        self._began = 0
        self._preempted = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Attach to the lease at the Trainer's step."""
        self._lease.resume_from(state.global_step)
        self._lease.set_total_iterations(state.max_steps)
        self._lease.attach()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start timing a step."""
        self._began = time.perf_counter_ns()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step. If it is the last one of this lease, save and stop."""
        if self._lease.iteration_done(state.global_step, time.perf_counter_ns() - self._began):
            self._preempted = control.should_save = control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report logged numbers."""
        self._lease.report(
            state.global_step,
            {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)},
        )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint as complete once it is on disk."""
        if state.is_world_process_zero:
            self._lease.flush()
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            fsync_tree(checkpoint)
            write_json(checkpoint / _COMPLETE, state.global_step)
            self._lease.checkpoint_saved(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record the preemption, if that ended training."""
        if self._preempted:
            self._lease.mark_preempted()
