"""Base of the pydantic models that people write: unknown keys are errors, instances are immutable."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class StrictModel(BaseModel):
    """A model without unknown keys, in which true and false are no numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
            if bool not in kinds and kinds & {int, float}:
                raise ValueError("a number is wanted")
        return value


def _kinds(annotation: Any) -> set[Any]:
    """The types that ``annotation`` is made of."""
    return {annotation}.union(*map(_kinds, get_args(annotation)))
