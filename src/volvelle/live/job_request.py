"""The job request: what a user submits, as YAML, as JSON or as options of ``volvelle submit``.

Unknown keys are errors that name the nearest known one. No shell interprets any part of a request.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model, model_validator

from volvelle.live.declared_training import BatchSizes, Rates, SensitivityProfile, throughput_of
from volvelle.live.messages import Launch
from volvelle.live.notify import NotifyList
from volvelle.live.request_parts import (
    AfterList,
    Checkpoint,
    Command,
    DeadlineOrWithin,
    Gpus,
    JobEnd,
    Name,
    PathText,
    PositiveDuration,
    Text,
    VariableName,
)
from volvelle.live.strict_model import StrictModel
from volvelle.live.uploads import DIGEST
from volvelle.model.job import Dependency, JobClass, JobSpec
from volvelle.model.job_schema import GPUS, SECONDS, JobField, with_key
from volvelle.model.throughput import AnyThroughput, named_types

MAX_ARRAY_JOBS = 10_000

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
    after: AfterList = Field(
        (), description="jobs that have to end first: 12, 12-20, 12:any (any end), 12:each"
    )
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

    @property
    def declares_checkpoints(self) -> bool:
        """Whether it says how it saves, or adapts its batch size, for which the client library saves it."""
        return bool(self.checkpoint.model_fields_set - {"grace"}) or self.batch_sizes is not None

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
