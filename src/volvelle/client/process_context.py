"""The environment of one process of a job, as the agent and the launcher of its ranks set it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class ProcessContext(NamedTuple):
    """One process of a job.

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
