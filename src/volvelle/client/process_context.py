"""Where a script finds itself: what the agent and the launcher of its ranks put into its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """One process of a job.

    run: the attempt's folder on this node, None without a scheduler. rank, ranks: among all processes.
    checkpoint: the folder the job keeps its checkpoints in, the same for all ranks.
    """

    run: Path | None
    rank: int
    ranks: int
    nodes: int
    checkpoint: Path | None

    @property
    def leading(self) -> bool:
        """Whether this process speaks for the job."""
        return self.rank == 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Place":
        """What ``environment`` says: the launcher's RANK and WORLD_SIZE, else one process on each node."""
        run, checkpoint = environment.get("VOLVELLE_RUN"), environment.get("VOLVELLE_CHECKPOINT")
        nodes = int(environment.get("VOLVELLE_NODES", "1"))
        return cls(
            run=Path(run) if run else None,
            rank=int(environment.get("RANK", environment.get("VOLVELLE_NODE_RANK", "0"))),
            ranks=int(environment.get("WORLD_SIZE", str(nodes))),
            nodes=nodes,
            checkpoint=Path(checkpoint) if checkpoint else None,
        )
