"""A job's lease on its GPUs: what a process writes to its control block, and when it has to exit.

The lease is optimistic (Blox, section 7): a job only reads its control block, which changes when the lease is
revoked. A single process exits at once. Of several ranks the leading one picks the next iteration after which
all of them can exit, and announces it before it begins that iteration.
"""

import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from volvelle.client.control_block import (
    ATTACHED,
    BATCH_SIZE,
    EPOCH_MILLIONTHS,
    EXIT_AT,
    EXIT_CONFIRMED,
    FIRST_BATCH_SIZE,
    ITERATION_NS,
    ITERATIONS,
    OWN_BATCH_SIZE,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    TOTAL_EPOCHS,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.client.metrics import MetricsFile

_POLL_SECONDS = 0.001
_MEAN_OVER_ITERATIONS = 20
"""Iteration time is the mean after the first (warm-up), later an exponential mean over about this many."""


class ProcessContext(NamedTuple):
    """One process of a job, as the agent and the launcher of its ranks set its environment.

    attempt_folder: the attempt's folder on this node; None without a scheduler. rank, ranks: among all
    processes. checkpoint: the folder of the job's checkpoints, the same for all ranks.
    """

    attempt_folder: Path | None
    rank: int
    ranks: int
    nodes: int
    checkpoint: Path | None

    @property
    def is_leader(self) -> bool:
        """Whether this is the leading rank, which reports for the job."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "ProcessContext":
        """Read ``environment``: the launcher's RANK and WORLD_SIZE, else one process on each node."""
        folder, checkpoint = environment.get("VOLVELLE_RUN"), environment.get("VOLVELLE_CHECKPOINT")
        nodes = int(environment.get("VOLVELLE_NODES", "1"))
        return cls(
            attempt_folder=Path(folder) if folder else None,
            rank=int(environment.get("RANK", environment.get("VOLVELLE_NODE_RANK", "0"))),
            ranks=int(environment.get("WORLD_SIZE", str(nodes))),
            nodes=nodes,
            checkpoint=Path(checkpoint) if checkpoint else None,
        )


class Lease:
    """The lease of one process. Without a scheduler it is never revoked."""

    def __init__(self, context: ProcessContext) -> None:
        self.context = context
        self.preempted = False
        folder = context.attempt_folder
        self._block = (
            ControlBlock.detached()
            if folder is None
            else ControlBlock(folder / ControlBlock.FILE_NAME)
        )
        self._first_batch_size = self._block[FIRST_BATCH_SIZE]
        self._metrics: MetricsFile | None = None
        if folder is not None and context.is_leader:
            self._metrics = MetricsFile(folder / "metrics.jsonl")
        self._mean_ns = 0.0
        self._measured = -1  # the first iteration counts until there is a second

    @property
    def batch_size(self) -> int:
        """The batch size that the scheduler sets; 0: the script's own.

        Of several processes all have that with which the attempt began: they could not agree on another.
        """
        return self._block[BATCH_SIZE] if self.context.ranks == 1 else self._first_batch_size

    def resume_from(self, iterations: int) -> None:
        """Record that this attempt resumes from a checkpoint with ``iterations`` iterations."""
        if self.context.is_leader:
            self._block[ITERATIONS] = self._block[SAVED_ITERATIONS] = iterations

    def attach(self) -> None:
        """Record that this process reads its control block after every iteration."""
        self._block[ATTACHED] = 1

    def set_total_iterations(self, total: int) -> None:
        """Record the number of iterations of the whole job; 0: unknown."""
        if self.context.is_leader:
            self._block[TOTAL_ITERATIONS] = total

    def begin_epoch(self, epochs_done: float, epochs: int, batch_size: int) -> None:
        """Record that a loop of ``epochs`` goes on, ``epochs_done`` of them done, at ``batch_size``.

        epochs: 0 if unknown. batch_size: 0 if no rule of the script has chosen it.
        """
        if self.context.is_leader:
            self._block[EPOCH_MILLIONTHS] = int(1e6 * epochs_done)
            self._block[TOTAL_EPOCHS] = epochs
            self._block[OWN_BATCH_SIZE] = batch_size

    def iteration_done(
        self, iterations: int, nanoseconds: int, accumulate: int = 1, epochs_done: float = 0.0
    ) -> bool:
        """Record ``iterations`` done, the last in ``nanoseconds``. Returns whether the process must exit now.

        accumulate: see `volvelle.client.iterate`. epochs_done: of this loop.
        """
        block = self._block
        if self.context.is_leader:
            self._measured = min(self._measured + 1, _MEAN_OVER_ITERATIONS)
            self._mean_ns += (nanoseconds - self._mean_ns) / max(self._measured, 1)
            block[ITERATION_NS] = int(self._mean_ns)
            block[ITERATIONS] = iterations
            block[EPOCH_MILLIONTHS] = int(1e6 * epochs_done)
            if block[REVOKED] and not block[EXIT_AT]:
                self._agree_on_exit(iterations, accumulate)
        return 0 < block[EXIT_AT] <= iterations

    def _agree_on_exit(self, iterations: int, accumulate: int) -> None:
        """Choose the last iteration of all ranks; return once every control block holds it."""
        earliest = iterations + (1 if self.context.ranks > 1 else 0)
        exit_at = -(-earliest // accumulate) * accumulate
        self._block[EXIT_AT] = exit_at
        while self.context.nodes > 1 and self._block[EXIT_CONFIRMED] != exit_at:
            time.sleep(_POLL_SECONDS)

    def report(self, iteration: int, values: Mapping[str, object]) -> None:
        """Report ``values`` for ``iteration``. Only those of the leading rank are kept."""
        if self._metrics is not None:
            self._metrics.add(iteration, values)

    def report_training(self, iteration: int, measured: Mapping[str, float]) -> None:
        """Report what a rule of batch sizes measured. Only that of the leading rank is kept."""
        if self._metrics is not None:
            self._metrics.add(iteration, measured, "training")

    def flush(self) -> None:
        """Write pending reports; called before a checkpoint."""
        if self._metrics is not None:
            self._metrics.flush()

    def checkpoint_saved(self, iterations: int) -> None:
        """Record that a durable checkpoint holds ``iterations`` iterations."""
        if self.context.is_leader:
            self._block[SAVED_ITERATIONS] = iterations

    def mark_preempted(self) -> None:
        """Record that the job exits because its lease was revoked. Its checkpoint is written."""
        self.preempted = True
        if self.context.is_leader:
            self._block[PREEMPTED] = 1


@cache
def this_lease() -> Lease:
    """The lease of this process, from its environment."""
    return Lease(ProcessContext.from_environment())
