"""A change of a job that waits: what may change is a property of each attribute in the schema of a job."""

from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, create_model, model_validator

from volvelle.live.job_request import key_type
from volvelle.live.strict_model import StrictModel
from volvelle.model.job import JobSpec
from volvelle.model.job_schema import changeable

Value = int | float | None
"""Of a changeable attribute."""

KEYS = {one.name: one.about.key for one in changeable(JobSpec)}
"""The keys in a request of the fields of `JobSpec` that may change."""


def _without_default(schema: dict[str, Any]) -> None:
    """A key that is left out changes nothing: it has no default."""
    schema.pop("default")


class _Change(StrictModel):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    @model_validator(mode="after")
    def _check_something(self) -> "_Change":
        if not self.model_fields_set:
            raise ValueError(f"say what changes: {', '.join(KEYS.values())}")
        return self

    @property
    def changes(self) -> dict[str, Value]:
        """The new values by the names of `JobSpec`'s fields."""
        given = self.model_fields_set
        return {name: getattr(self, key) for name, key in KEYS.items() if key in given}


if TYPE_CHECKING:

    class JobChange(_Change):
        """New values of attributes of a job that waits; the others stay as they are."""

        def __init__(self, **keys: Any) -> None: ...

else:
    JobChange = create_model(
        "JobChange",
        __base__=_Change,
        __doc__="New values of attributes of a job that waits; the others stay as they are.",
        **{
            one.about.key: (
                key_type(one),
                Field(None, description=one.about.meaning, json_schema_extra=_without_default),
            )
            for one in changeable(JobSpec)
        },
    )
