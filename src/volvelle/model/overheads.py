"""Costs of starting, stopping and moving a job that does not declare them itself."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from volvelle.model.job import JobSpec
from volvelle.model.validation import Seconds

Cost = Annotated[Seconds, Field(ge=0)]


class Overheads(BaseModel):
    """Seconds during which a job holds its GPUs and makes no progress.

    start: from getting GPUs for the first time to the first iteration.
    restore: the same for a job that resumes from a checkpoint.
    checkpoint: from the command to stop to the GPUs being free.
    checkpoint_every: run time between the checkpoints a job writes of its own accord, to which a
    failure throws it back; None means only a stop writes one.
    A resize or a move to other GPUs costs checkpoint + restore on the new GPUs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: Cost = 0.0
    restore: Cost = 0.0
    checkpoint: Cost = 0.0
    checkpoint_every: Annotated[Seconds, Field(gt=0)] | None = None

    def restore_seconds(self, spec: JobSpec) -> float:
        """Seconds that a resume costs ``spec``."""
        return self.restore if spec.restore_seconds is None else spec.restore_seconds

    def checkpoint_seconds(self, spec: JobSpec) -> float:
        """Seconds that a stop costs ``spec``."""
        return self.checkpoint if spec.checkpoint_seconds is None else spec.checkpoint_seconds

    def resize_seconds(self, spec: JobSpec) -> float:
        """Seconds that a resize or a move costs ``spec``."""
        return self.checkpoint_seconds(spec) + self.restore_seconds(spec)

    def gap_seconds(self, spec: JobSpec, *, resumed: bool, resized: bool) -> float:
        """Seconds without progress after GPUs were given to a job."""
        if resized:
            return self.resize_seconds(spec)
        return self.restore_seconds(spec) if resumed else self.start
