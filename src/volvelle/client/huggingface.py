"""Hugging Face's Trainer: a callback that makes it preemptible.

    folder = vc.checkpoint_folder("out")
    trainer = Trainer(model, TrainingArguments(str(folder), save_steps=500), callbacks=[Preemptible()])
    trainer.train(resume_from_checkpoint=latest_checkpoint(folder))

The Trainer writes and reads its checkpoints itself, and skips what is done of an epoch. It writes them in
place; so the callback marks those that are whole, and only they are resumed from. With ``save_total_limit=1``
the Trainer removes the one before too early.
"""

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from volvelle.client.durable_files import force, write_whole
from volvelle.client.lease import this_lease

_MARK = "whole.json"


def latest_checkpoint(folder: str | Path) -> str | None:
    """The latest checkpoint in ``folder`` that was written to its end, if any."""
    whole = Path(folder).glob(f"checkpoint-*/{_MARK}")
    latest = max(whole, key=lambda mark: int(mark.parent.name.rpartition("-")[2]), default=None)
    return None if latest is None else str(latest.parent)


class Preemptible(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Leaves when the lease ends, counts steps as iterations, reports what the Trainer logs."""

    def __init__(self) -> None:
        self._lease = this_lease()
        self._began = 0
        self._leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Go on from where the Trainer does."""
        self._lease.begin_from(state.global_step)
        self._lease.tell(state.max_steps)
        self._lease.attach()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the time."""
        self._began = time.perf_counter_ns()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step; where it is the last of this lease, save and stop."""
        if self._lease.done(state.global_step, time.perf_counter_ns() - self._began):
            self._leaving = control.should_save = control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report what is a number."""
        self._lease.report(
            state.global_step,
            {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)},
        )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint as whole, once the disk has it."""
        if state.is_world_process_zero:
            self._lease.flush()
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            force(checkpoint)
            write_whole(checkpoint / _MARK, state.global_step)
            self._lease.saved(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave, if that is why training ends."""
        if self._leaving:
            self._lease.leave()
