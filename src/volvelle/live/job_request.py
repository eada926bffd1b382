"""What a user submits: a job request, as YAML, as JSON or as flags of ``volvelle submit``.

Unknown keys are errors that name the nearest known one. Nothing in a request is ever read by a shell.
"""

import shlex
import signal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)

from volvelle.live.messages import Launch
from volvelle.model.job import JobClass, JobSpec, Reward
from volvelle.model.units import DAY, parse_duration

MOST_IN_ARRAY = 10_000


def _words(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _signal_name(value: str | None) -> str | None:
    if value is None:
        return None
    name = value.upper() if value.upper().startswith("SIG") else f"SIG{value.upper()}"
    if name not in signal.Signals.__members__:
        raise ValueError("name a signal, as in SIGTERM or USR1")
    return name


_LONGEST_SECONDS = 10 * 366 * DAY
_MOST_GPUS = 1_000_000

_ANY_TIME = Field(gt=0, le=_LONGEST_SECONDS)
_IN_WORDS = Field(pattern=r"^[1-9][0-9]{0,3}(\.[0-9])?\s?(s|sec|m|min|h|d)$")

_SIGNALS: list[JsonValue] = [*sorted(signal.Signals.__members__)]

Positive = Annotated[
    float,
    _ANY_TIME,
    BeforeValidator(
        parse_duration,
        json_schema_input_type=Annotated[float, _ANY_TIME] | Annotated[str, _IN_WORDS],
    ),
]
"""A duration, in seconds or in words. The pattern shows programs the plainest of the forms that are read."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Gpus = Annotated[int, Field(ge=1, le=_MOST_GPUS)]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""What a process can be given: anything but the character that ends it."""
_Listed = Annotated[
    tuple[Annotated[Text, Field(max_length=65_536)], ...], Field(min_length=1, max_length=4096)
]
_Line = Annotated[str, Field(pattern=r"^[\w./=-]+( [\w./=-]+)*$")]
Words = Annotated[_Listed, BeforeValidator(_words, json_schema_input_type=_Listed | _Line)]
"""A command: its words, or a line that is split as a shell would, but that no shell ever sees."""
PathText = Annotated[Text, Field(max_length=4096)]
Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class DeadlineKind(StrEnum):
    """How a deadline binds."""

    STRICT = "strict"
    SOFT = "soft"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Step(_Strict):
    """A step of a soft deadline: ``value`` for finishing within ``within``."""

    within: Positive = Field(description="time from submission")
    value: Amount = Field(description="what finishing by then is worth")


class Deadline(_Strict):
    """When a job has to be done, counted from its submission."""

    kind: DeadlineKind = Field(DeadlineKind.STRICT, description="strict: in time or not at all")
    within: Positive | None = Field(None, description="time from submission")
    steps: tuple[Step, ...] = Field((), description="of a soft deadline, worth less and less")

    @model_validator(mode="after")
    def _one_way(self) -> "Deadline":
        if (self.within is None) == (not self.steps):
            raise ValueError("give within or steps, one of them")
        if self.steps and self.kind is DeadlineKind.STRICT:
            raise ValueError("steps belong to a soft deadline: say kind: soft")
        return self

    @property
    def rewards(self) -> tuple[Reward, ...]:
        """The steps in the house's words, the earliest first."""
        if self.within is not None:
            return (Reward(self.within, 1.0),)
        return tuple(
            Reward(step.within, step.value)
            for step in sorted(self.steps, key=lambda step: step.within)
        )


class Checkpoint(_Strict):
    """How the job is told to stop, and where it keeps what it has done."""

    path: PathText = Field("", description="folder or file")
    signal: Annotated[str | None, AfterValidator(_signal_name)] = Field(
        "SIGTERM",
        description="for scripts without volvelle.client",
        json_schema_extra={"anyOf": [{"enum": _SIGNALS}, {"type": "null"}]},
    )
    grace: Positive = Field(30.0, description="from the order to stop to the end by force")


class JobRequest(_Strict):
    """A job as its user wants it."""

    name: Name = Field("", description="for people, and for what past runs of it teach")
    command: Words = Field(description="the program and its arguments")
    directory: PathText = Field("", description="where it starts; default: a folder of its own")
    gpus: Gpus = Field(1, description="all or nothing, over all nodes")
    min_gpus: Gpus | None = Field(None, description="fewest it runs on")
    max_gpus: Gpus | None = Field(None, description="most it can use")
    gpu_types: tuple[Name, ...] = Field((), description="types that will do; empty: any")
    cpus: Amount = Field(0.0, description="for the job as a whole")
    memory_gb: Amount = Field(0.0, description="for the job as a whole")
    pool: Name = Field("", description="whose quota it uses")
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        1.0, description="where the policy heeds it"
    )
    preemptible: bool = Field(True, description="whether it may be stopped and resumed")
    deadline: Deadline | None = Field(None, description="when it has to be done")
    estimate: Positive | None = Field(None, description="run time on the GPUs asked for")
    checkpoint: Checkpoint = Field(Checkpoint(), description="how it stops and resumes")
    environment: dict[VariableName, Text] = Field(
        {}, description="variables it is given", json_schema_extra={"additionalProperties": False}
    )
    retries: Annotated[int, Field(ge=0, le=1000)] = Field(3, description="after failures")
    array: Annotated[int, Field(ge=1, le=MOST_IN_ARRAY)] = Field(
        1, description="so many jobs alike, told apart by VOLVELLE_ARRAY_INDEX"
    )

    @model_validator(mode="after")
    def _ordered(self) -> "JobRequest":
        least, most = self.min_gpus or self.gpus, self.max_gpus or self.gpus
        if not least <= self.gpus <= most:
            raise ValueError(f"gpus must be between min_gpus and max_gpus, not {self.gpus}")
        return self

    def spec(self, number: int, user: str, submit_time: float) -> JobSpec:
        """What the scheduler sees of job ``number``, submitted at ``submit_time`` (seconds of the run)."""
        kind = JobClass.BEST_EFFORT if self.deadline is None else JobClass(self.deadline.kind)
        return JobSpec(
            id=str(number),
            submit_time=submit_time,
            gpus=float(self.gpus),
            min_gpus=None if self.min_gpus is None else float(self.min_gpus),
            max_gpus=None if self.max_gpus is None else float(self.max_gpus),
            gpu_types=self.gpu_types,
            cpus=self.cpus,
            memory_gb=self.memory_gb,
            user=user,
            pool=self.pool,
            name=self.name,
            job_class=kind,
            rewards=() if self.deadline is None else self.deadline.rewards,
            weight=self.weight,
            preemptible=self.preemptible,
            max_retries=self.retries,
            estimate_seconds=self.estimate,
        )

    def launch(self, index: int = 0) -> Launch:
        """How the ``index``-th job of the array is run."""
        environment: dict[str, str] = dict(self.environment)
        if self.array > 1:
            environment["VOLVELLE_ARRAY_INDEX"] = str(index)
        return Launch(
            command=self.command,
            environment=environment,
            directory=self.directory,
            checkpoint=self.checkpoint.path,
            stop_signal=self.checkpoint.signal,
            grace_seconds=self.checkpoint.grace,
        )

    def as_json(self) -> dict[str, Any]:
        """What differs from the defaults, as a user would write it."""
        return self.model_dump(mode="json", exclude_defaults=True)
