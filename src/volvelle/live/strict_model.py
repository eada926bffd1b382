"""Base of the pydantic models that people write: unknown keys are errors, instances are immutable."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A model without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
