"""The job request: what a user submits, as YAML, as JSON or as options of ``volvelle submit``.

Unknown keys are errors that name the nearest known one. No shell interprets any part of a request.
"""

import hashlib
import json
import re
import shlex
import signal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    create_model,
    field_validator,
    model_validator,
)

from volvelle.live.declared_training import BatchSizes, Rates, SensitivityProfile, throughput_of
from volvelle.live.messages import Launch
from volvelle.live.notify import NotifyList
from volvelle.live.strict_model import StrictModel
from volvelle.live.uploads import DIGEST
from volvelle.model.job import Dependency, JobClass, JobSpec, Reward, wrong_steps
from volvelle.model.job_schema import GPUS, SECONDS, JobField, with_key
from volvelle.model.throughput import AnyThroughput, named_types
from volvelle.model.units import DAY, parse_duration

MAX_ARRAY_JOBS = 10_000


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
Gpus = Annotated[int, Field(ge=1, le=_MAX_GPUS)]
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
        raise ValueError("name a job, as in 12, 12:any, 12-20, 12-20:each")
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


_KEYS_OF_SPEC = [(one.name, one.about.key) for one in with_key(JobSpec)]
_GPUS_OF_SPEC = [one.name for one in with_key(JobSpec) if one.about.unit == GPUS]


def key_type(field: JobField) -> Any:
    """The type of the request's key for ``field``."""
    bounds, unit = field.about.bounds, field.about.unit
    kind: Any = Annotated[field.type, Field(**bounds)]
    if field.type is float:
        number = Annotated[float, Field(**(bounds or {"ge": 0}), allow_inf_nan=False)]
        kind = {GPUS: Gpus, SECONDS: PositiveDuration}.get(unit, number)
    elif field.type is str:
        kind = Name
    elif field.type == tuple[str, ...]:
        text: Any = (
            Annotated[str, Field(pattern=field.about.pattern)] if field.about.pattern else Name
        )
        kind = Annotated[tuple[text, ...], Field(**bounds)]
    return kind | None if field.optional else kind


def _keys() -> dict[str, Any]:
    """The keys of a request that follow from the schema of a job, each with its type and field."""
    return {
        one.about.key: (
            key_type(one),
            Field(
                int(one.default) if one.default and one.about.unit == GPUS else one.default,
                description=one.about.meaning,
            ),
        )
        for one in with_key(JobSpec)
    }


if TYPE_CHECKING:

    class _Declared(StrictModel):
        """The keys that follow from the schema of a job."""

        def __getattr__(self, name: str) -> Any: ...

else:
    _Declared = create_model("_Declared", __base__=StrictModel, **_keys())


class JobRequest(_Declared):
    """A job request: the keys that follow from the schema of a job, and those that say how it is run."""

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None: ...

    command: Command = Field(description="the program and its arguments")
    setup: Annotated[tuple[Command, ...], Field(max_length=20)] = Field(
        (), description="commands that are run before it on each of its nodes, in every attempt"
    )
    container: Annotated[str, Field(pattern=r"^([\w./][\w.:/@-]*)?$", max_length=500)] = Field(
        "", description="image in which it runs, by Podman or Apptainer on its nodes"
    )
    upload: Annotated[str, Field(pattern=DIGEST)] | None = Field(
        None, description="hash of an uploaded tar, in whose files it starts"
    )
    directory: PathText = Field("", description="where it starts; default: a folder of its own")
    deadline: DeadlineOrWithin | None = Field(
        None, description="when it has to be done; a duration alone is that of a strict deadline"
    )
    batch_sizes: BatchSizes | None = Field(
        None, description="how it changes its batch size; estimator declared-regimes predicts it"
    )
    rates: Rates | None = Field(
        None,
        description="units of work per second on the GPUs asked for, or by number of GPUs; by GPU type",
    )
    sensitivity: SensitivityProfile | None = Field(
        None, description="what it loses with fewer CPUs or less memory per GPU"
    )
    checkpoint: Checkpoint = Field(Checkpoint(), description="how it stops and resumes")
    environment: dict[VariableName, Text] = Field(
        {}, description="variables it is given", json_schema_extra={"additionalProperties": False}
    )
    secrets: dict[VariableName, Text] = Field(
        {},
        description="variables too; stored encrypted, and only their names are shown",
        json_schema_extra={"additionalProperties": False},
    )
    after: Annotated[
        tuple[
            Annotated[
                After,
                BeforeValidator(
                    _read_after, json_schema_input_type=After | _JobNumber | _AfterText
                ),
            ],
            ...,
        ],
        Field(max_length=_MAX_AFTER),
    ] = Field((), description="jobs that have to end first: 12, 12-20, 12:any (any end), 12:each")
    array: Annotated[int, Field(ge=1, le=MAX_ARRAY_JOBS)] = Field(
        1, description="so many jobs alike, told apart by VOLVELLE_ARRAY_INDEX"
    )
    at_once: Annotated[int | None, Field(ge=1)] = Field(
        None, description="of an array: so many at a time, in as many rows of one after another"
    )

    notify: NotifyList = Field((), description="webhooks and mail addresses that are told of it")

    @model_validator(mode="after")
    def _check_gpus(self) -> "JobRequest":
        least, most = self.min_gpus or self.gpus, self.max_gpus or self.gpus
        if not least <= self.gpus <= most:
            raise ValueError(f"gpus must be between min_gpus and max_gpus, not {self.gpus}")
        return self

    @model_validator(mode="after")
    def _check_secrets(self) -> "JobRequest":
        if twice := sorted(self.environment.keys() & self.secrets.keys()):
            raise ValueError(f"{twice[0]} is in environment and in secrets")
        return self

    @model_validator(mode="after")
    def _check_rates(self) -> "JobRequest":
        if self.rates is None:
            return self
        if self.batch_sizes is not None:
            raise ValueError("batch_sizes says how fast it is at each size: leave out rates")
        known = named_types(throughput_of(self.rates, self.gpus, self.gpus))
        if known != ("",) and (unknown := [kind for kind in self.gpu_types if kind not in known]):
            raise ValueError(f"rates says nothing of {unknown[0]}, which gpu_types names")
        return self

    @property
    def throughput(self) -> AnyThroughput | None:
        """As it is declared; None where nothing is."""
        if self.batch_sizes is not None:
            return self.batch_sizes.throughput(self.gpus)
        if self.rates is not None:
            return throughput_of(self.rates, self.gpus, self.max_gpus or self.gpus)
        return None

    def spec(self, number: int, user: str, submit_time: float) -> JobSpec:
        """The scheduler's view of job ``number``, submitted at ``submit_time`` on the journal's clock."""
        kind = JobClass.BEST_EFFORT if self.deadline is None else JobClass(self.deadline.kind)
        batch_sizes = self.batch_sizes
        declared = {name: getattr(self, key) for name, key in _KEYS_OF_SPEC}
        for name in _GPUS_OF_SPEC:
            declared[name] = None if declared[name] is None else float(declared[name])
        declared["constraints"] = tuple(sorted(set(self.constraints)))
        return JobSpec(
            id=str(number),
            submit_time=submit_time,
            user=user,
            job_class=kind,
            rewards=() if self.deadline is None else self.deadline.rewards,
            accept_later=self.deadline is not None and self.deadline.accept_later,
            throughput=self.throughput,
            sensitivity=None if self.sensitivity is None else self.sensitivity.profile,
            checkpoint_seconds=self.checkpoint.takes,
            restore_seconds=self.checkpoint.restore,
            adaptation=None if batch_sizes is None else batch_sizes.adaptation,
            **declared,
        )

    def dependencies(self, position: int) -> tuple[Dependency, ...]:
        """The dependencies of the job at ``position`` of the array."""
        return tuple(
            Dependency(str(number), one.end is JobEnd.ANY)
            for one in self.after
            for number in one.numbers(position)
        )

    def row_before(self, position: int, number: int) -> tuple[Dependency, ...]:
        """The job whose end job ``number``, at ``position`` of the array, waits for where few are at once."""
        if self.at_once is None or position < self.at_once:
            return ()
        return (Dependency(str(number - self.at_once), any_end=True),)

    @property
    def waits_for(self) -> set[int]:
        """Numbers of all jobs for which some job of the array waits."""
        positions = range(self.array) if any(one.each for one in self.after) else range(1)
        return {n for one in self.after for position in positions for n in one.numbers(position)}

    def launch(self, index: int = 0) -> Launch:
        """How the ``index``-th job of the array is run."""
        environment: dict[str, str] = dict(self.environment)
        if self.array > 1:
            environment["VOLVELLE_ARRAY_INDEX"] = str(index)
        return Launch(
            command=self.command,
            setup=self.setup,
            upload=self.upload or "",
            container=self.container,
            environment=environment,
            directory=self.directory,
            checkpoint=self.checkpoint.path,
            stop_signal=self.checkpoint.signal,
            grace_seconds=self.checkpoint.grace,
        )

    def as_json(self) -> dict[str, Any]:
        """The request without defaults, as a user would write it; retries that were asked for stay."""
        written = self.model_dump(mode="json", exclude_defaults=True)
        return written | ({"retries": self.retries} if self.asks_for_retries else {})

    @property
    def asks_for_retries(self) -> bool:
        """Whether the user said how often to try again, so that immediate crashes are tried as often."""
        return "retries" in self.model_fields_set


def digest_of_request(request: dict[str, Any]) -> str:
    """The same for the same request, `JobRequest.as_json`, only."""
    text = json.dumps(request, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def shown(request: dict[str, Any]) -> dict[str, Any]:
    """A request as JSON, as it is shown: without the values of secrets."""
    if not request.get("secrets"):
        return request
    return request | {"secrets": dict.fromkeys(request["secrets"], "")}
