"""Declarations of a job's training: rates, sensitivity to CPUs and memory, batch sizes."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, ValidationError, WrapValidator, model_validator

from volvelle.live.strict_model import StrictModel
from volvelle.model.adaptation import Adaptation, ScalingRule
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import Linear, PerBatchSize, PerType, Table, through

_BatchSize = Annotated[int, Field(ge=1, le=999_999_999)]
_Rate = Annotated[float, Field(ge=1e-9, le=1e12)]
_TypeName = Annotated[str, Field(max_length=200)]
_Gpus = Annotated[int, Field(ge=1, le=1024)]
_GPUS_PATTERN = "^([1-9][0-9]{0,2}|10[01][0-9]|102[0-4])$"
_ByGpus = Annotated[
    dict[_Gpus, _Rate],
    Field(
        min_length=1,
        max_length=1000,
        json_schema_extra={"propertyNames": {"pattern": _GPUS_PATTERN}},
    ),
]
_ByType = Annotated[dict[_TypeName, _Rate | _ByGpus], Field(min_length=1, max_length=1000)]


def _read_rates(value: object, read: Callable[[object], Any]) -> Any:
    try:
        return read(value)
    except ValidationError:
        raise ValueError(
            "say numbers above 0: one, or by number of GPUs (1: 10, 2: 19), by GPU type, or by both"
        ) from None


Rates = Annotated[
    Annotated[_Rate | _ByGpus | _ByType, Field(union_mode="left_to_right")],
    WrapValidator(_read_rates),
]
"""Units of work per second: of the GPUs asked for, by number of GPUs, by GPU type, or by type and number."""


def throughput_of(rates: "Rates", gpus: int, most: int) -> Linear | Table | PerType:
    """``rates`` as a model for up to ``most`` GPUs; a single rate is that on ``gpus`` and linear."""

    def of_one(given: float | Mapping[int, float]) -> Linear | Table:
        points = given if isinstance(given, Mapping) else {gpus: given}
        return through(points, most)

    if isinstance(rates, float):
        return of_one(rates)
    by_gpus = {gpus: rate for gpus, rate in rates.items() if isinstance(gpus, int)}
    if by_gpus:
        return of_one(cast(dict[int, float], by_gpus))
    return PerType({str(kind): of_one(given) for kind, given in rates.items()})


_Grid = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1e9)], ...], Field(min_length=1, max_length=100)
]
_Share = Annotated[float, Field(ge=0, le=1)]


class SensitivityProfile(StrictModel):
    """Rates of a job with fewer CPUs and less memory, as shares of the rate with enough of both."""

    cpus: _Grid = Field(description="per GPU, ascending")
    memory_gb: _Grid = Field(description="per GPU, ascending")
    shares: Annotated[tuple[tuple[_Share, ...], ...], Field(max_length=100)] = Field(
        description="a row for each number of CPUs, in it a share for each memory; the last is 1"
    )
    below: Literal["linear", "zero"] = Field(
        "linear", description="below the least of a grid: linear to nothing, or zero"
    )

    @model_validator(mode="after")
    def _check(self) -> "SensitivityProfile":
        self.profile  # noqa: B018 - raises ValueError for a table that is none
        return self

    @property
    def profile(self) -> Sensitivity:
        """The profile as the scheduler has it. Raises ValueError where it makes no sense."""
        return Sensitivity(self.cpus, self.memory_gb, self.shares, self.below)


class BatchSizes(StrictModel):
    """How a job changes its batch size as it trains, and how fast it is at each size."""

    rule: ScalingRule = Field(
        description="accordion, gns, schedule, sequence (in this order), or unknown"
    )
    sizes: tuple[_BatchSize, ...] = Field(
        min_length=1,
        max_length=1000,
        description="accordion: small, large; gns: first, limit; unknown: the first; otherwise all in order",
    )
    begins: tuple[Annotated[float, Field(ge=0, le=1e9)], ...] = Field(
        (), description="of a schedule: the epoch of each size"
    )
    regimes: Annotated[int, Field(ge=1, le=1000)] = Field(
        2, description="of accordion: how many stretches at one size there are at most"
    )
    epochs: Annotated[float, Field(gt=0, le=1e9)] = Field(description="in all")
    epoch_samples: Annotated[int, Field(ge=1, le=10**15)] = Field(description="samples of an epoch")
    samples_per_second: dict[_BatchSize, _Rate | dict[_TypeName, _Rate]] = Field(
        description="by batch size, on the GPUs asked for; by GPU type where types differ",
        json_schema_extra={"propertyNames": {"pattern": "^[1-9][0-9]{0,8}$"}},
    )

    @model_validator(mode="after")
    def _check(self) -> "BatchSizes":
        for size in self.adaptation.needed:
            if size not in self.samples_per_second:
                raise ValueError(
                    f"samples_per_second has no batch size {size}, to which {self.rule} may come"
                )
        return self

    @property
    def adaptation(self) -> Adaptation:
        """The rule. Raises ValueError where it makes no sense."""
        return Adaptation(
            rule=self.rule,
            epochs=self.epochs,
            sizes=self.sizes,
            begins=self.begins,
            regimes=self.regimes,
        )

    def throughput(self, gpus: float) -> PerBatchSize:
        """Epochs per second, measured on ``gpus`` GPUs and linear in their number."""

        def linear(samples_per_second: float) -> Linear:
            return Linear(samples_per_second / self.epoch_samples / gpus)

        return PerBatchSize(
            {
                size: PerType({kind: linear(rate) for kind, rate in rates.items()})
                if isinstance(rates, dict)
                else linear(rates)
                for size, rates in self.samples_per_second.items()
            },
            self.sizes[0],
        )
