"""The parts of a job request: durations, commands, deadlines, checkpoints, dependencies."""

import re
import shlex
import signal
from enum import StrEnum
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from volvelle.live.strict_model import StrictModel
from volvelle.model.job import Reward, wrong_steps
from volvelle.model.units import DAY, parse_duration, refuse_part


def _split(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _signal_name(value: str | None) -> str | None:
    if value is None:
        return None
    name = value.upper() if value.upper().startswith("SIG") else f"SIG{value.upper()}"
    if name not in signal.Signals.__members__:
        raise ValueError("name a signal, as in SIGTERM or USR1")
    return name


_MAX_SECONDS = 10 * 366 * DAY
_MAX_GPUS = 1_000_000

_SECONDS = Field(gt=0, le=_MAX_SECONDS)
_GPUS = Field(ge=1, le=_MAX_GPUS)
_DURATION = Field(pattern=r"^[1-9][0-9]{0,2}(\.[0-9])?\s?(s|sec|m|min|h|d)$")

_SIGNALS: list[JsonValue] = [*sorted(signal.Signals.__members__)]

PositiveDuration = Annotated[
    float,
    _SECONDS,
    BeforeValidator(
        parse_duration,
        json_schema_input_type=Annotated[float, _SECONDS] | Annotated[str, _DURATION],
    ),
]
"""Seconds, or a text such as "4h30m". The pattern documents the simplest of the forms that are read."""
Seconds = Annotated[
    float,
    Field(ge=0, le=_MAX_SECONDS),
    BeforeValidator(
        parse_duration,
        json_schema_input_type=Annotated[float, Field(ge=0, le=_MAX_SECONDS)]
        | Annotated[str, _DURATION],
    ),
]
"""As `PositiveDuration`, or none at all."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Gpus = Annotated[
    int,
    _GPUS,
    BeforeValidator(refuse_part, json_schema_input_type=Annotated[int, _GPUS]),
]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""Text that can be passed to a process: without NUL."""
_Arguments = Annotated[
    tuple[Annotated[Text, Field(max_length=65_536)], ...], Field(min_length=1, max_length=4096)
]
_Line = Annotated[str, Field(pattern=r"^[\w./=-]+( [\w./=-]+)*$")]
Command = Annotated[_Arguments, BeforeValidator(_split, json_schema_input_type=_Arguments | _Line)]
"""A command: its arguments, or a line that is split as a shell would, without a shell."""
PathText = Annotated[Text, Field(max_length=4096)]
Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class DeadlineKind(StrEnum):
    """How a deadline binds."""

    STRICT = "strict"
    SOFT = "soft"


class Step(StrictModel):
    """A step of a soft deadline: ``value`` for finishing within ``within``."""

    within: PositiveDuration = Field(description="time from submission")
    value: Amount = Field(description="what finishing by then is worth")


class Deadline(StrictModel):
    """When a job has to be done, counted from its submission."""

    kind: DeadlineKind = Field(
        DeadlineKind.STRICT,
        description="strict: worth nothing once it is over; soft: less by steps",
    )
    within: PositiveDuration | None = Field(None, description="time from submission")
    steps: tuple[Step, ...] = Field((), description="of a soft deadline, worth less and less")
    accept_later: bool = Field(
        False, description="if none can be guaranteed, take the earliest finish that can"
    )

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        if wrong := wrong_steps([(step.within, step.value) for step in steps]):
            raise ValueError(f"{wrong}: a later step is worth less than those before it")
        return steps

    @model_validator(mode="after")
    def _check_form(self) -> "Deadline":
        if (self.within is None) == (not self.steps):
            raise ValueError("give within or steps, one of them")
        if self.steps and self.kind is DeadlineKind.STRICT:
            raise ValueError("steps belong to a soft deadline: say kind: soft")
        return self

    @property
    def rewards(self) -> tuple[Reward, ...]:
        """The steps as the scheduler's rewards, the earliest first."""
        if self.within is not None:
            return (Reward(self.within, 1.0),)
        return tuple(
            Reward(step.within, step.value)
            for step in sorted(self.steps, key=lambda step: step.within)
        )


def _strict_within(written: object) -> object:
    """A deadline whose table is left out: a duration alone is that of a strict one."""
    return {"within": written} if isinstance(written, (str, int, float)) else written


DeadlineOrWithin = Annotated[
    Deadline, BeforeValidator(_strict_within, json_schema_input_type=Deadline | PositiveDuration)
]
"""A deadline as a table, or the time from submission of a strict one."""


class Checkpoint(StrictModel):
    """The signal that stops the job, and the place of its saved state."""

    path: PathText = Field("", description="folder or file")
    signal: Annotated[str | None, AfterValidator(_signal_name)] = Field(
        "SIGTERM",
        description="for scripts without volvelle.client",
        json_schema_extra={"anyOf": [{"enum": _SIGNALS}, {"type": "null"}]},
    )
    grace: PositiveDuration = Field(30.0, description="from the order to stop to the end by force")
    takes: Seconds | None = Field(
        None, description="how long a checkpoint takes; default: the server's guess"
    )
    restore: Seconds | None = Field(
        None, description="how long it takes to resume; default: the server's guess"
    )


class JobEnd(StrEnum):
    """How a job has to end for those that are after it."""

    SUCCESS = "success"
    ANY = "any"


_MAX_IN_A_ROW = 100
_MAX_AFTER = 10

_AFTER = re.compile(r"(?P<job>\d{1,18})(-(?P<last>\d{1,18}))?(?P<words>(:[a-z]+)*)")


def _read_after(value: object) -> object:
    """``12``, ``12-20``, ``12:any``, ``12-20:each``: as `After`."""
    if isinstance(value, (int, float)):
        return {"job": value}
    if not isinstance(value, str):
        return value
    match, words = _AFTER.fullmatch(value), set(value.split(":")[1:])
    if match is None or not words <= {"success", "any", "each"} or words >= {"success", "any"}:
        raise ValueError("say the number of a job, as in 12, 12:any, 12-20, 12-20:each")
    found: dict[str, object] = {"job": int(match["job"]), "each": "each" in words}
    if match["last"]:
        found["count"] = int(match["last"]) - int(match["job"]) + 1
    if "any" in words:
        found["end"] = JobEnd.ANY
    return found


_AfterText = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}(:any)?(:each)?$")]
_JobNumber = Annotated[int, Field(ge=0, le=2**53)]  # a JSON number is exact up to there


class After(StrictModel):
    """Jobs that have to end first."""

    job: _JobNumber = Field(description="its number, or the first of several")
    count: Annotated[int, Field(ge=1, le=_MAX_IN_A_ROW)] = Field(
        1, description="so many in a row, as 12-20 names nine"
    )
    end: JobEnd = Field(JobEnd.SUCCESS, description="success, or any end")
    each: bool = Field(
        False, description="of arrays: the first of this waits for the first of those, and so on"
    )

    def numbers(self, position: int) -> range:
        """The jobs for which the job at ``position`` of its array waits."""
        if self.each:
            return range(self.job + position, self.job + position + 1)
        return range(self.job, self.job + self.count)


AfterList = Annotated[
    tuple[
        Annotated[
            After,
            BeforeValidator(_read_after, json_schema_input_type=After | _JobNumber | _AfterText),
        ],
        ...,
    ],
    Field(max_length=_MAX_AFTER),
]
"""Jobs that have to end first, each as a table, a number or a text such as ``12-20:any``."""
