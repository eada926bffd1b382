"""The keys of an experiment file, which are options of ``simulate``, ``compare`` and ``tune`` too.

Each key is declared once: its type and bounds, what it means, and how it is written as an option. Nothing
heavy is imported, for the sake of ``--help``.
"""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from volvelle.core.written import Written
from volvelle.model.overheads import Overheads
from volvelle.model.tolerances import WHOLE_NUMBER
from volvelle.model.validation import Seconds

SINGULAR = {
    "policy": "policies",
    "placement": "placements",
    "admission": "admissions",
    "estimator": "estimators",
    "termination": "terminations",
    "seed": "seeds",
    "metric": "metrics",
}
"""How keys are written where there is one of what may be several."""

_JOBS, _SCHEDULER, _WORLD, _OUTPUT = "The jobs", "The scheduler", "The cluster", "Output"
_PART = "NAME[:KEY=VALUE,...]"


class AsOption(NamedTuple):
    """How a key is written on the command line: its value, the group in the help, its short form."""

    metavar: str = ""
    panel: str = ""
    short: str = ""


def _pairs(value: object) -> object:
    from volvelle.simulate.sources import split_pairs  # noqa: PLC0415 - heavy

    return split_pairs(value) if isinstance(value, str) else value


def _mapping(value: object) -> object:
    if not isinstance(value, str):
        return value
    from volvelle.workload.readers.mapping import parse_map  # noqa: PLC0415 - only for a table's columns

    return parse_map([value])


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) else value


def _span(value: object) -> object:
    if not isinstance(value, str):
        return value
    first, colon, last = value.partition(":")
    if not (colon and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise ValueError("write FIRST:LAST, numbers of jobs from 0, as in 3000:4000")
    return int(first), int(last)


_MOST_RATES = 1000


def _read_rates(value: object) -> object:
    """``"1:9"`` as 1, 2, ... 9, ``"1:2:0.5"`` as 1, 1.5, 2; several of these, and plain numbers."""
    found: list[object] = []
    for one in value if isinstance(value, (list, tuple)) else (value,):
        found += _rate_span(one) if isinstance(one, str) else [one]
    return tuple(dict.fromkeys(found))


def _rate_span(text: str) -> list[float]:
    mend = "write a number, FIRST:LAST or FIRST:LAST:STEP, as in 1:9"
    try:
        first, *rest = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(mend) from None
    if not rest:
        return [first]
    last, step = (*rest, 1.0)[:2]
    if len(rest) > 2 or not (first <= last and 0 < step <= last) or last / step > _MOST_RATES:
        raise ValueError(mend)
    return [first + index * step for index in range(int((last - first) / step + WHOLE_NUMBER) + 1)]


def _foreseen(objectives: tuple[str, ...]) -> tuple[str, ...]:
    from volvelle.simulate.synthesis import read_foreseen  # noqa: PLC0415 - heavy

    for one in objectives:
        read_foreseen(one)
    return objectives


def _measured(columns: tuple[str, ...]) -> tuple[str, ...]:
    from volvelle.metrics.catalogue import read_objective  # noqa: PLC0415 - heavy

    for one in columns:
        read_objective(one)
    return columns


Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Names = Annotated[
    tuple[Written, ...],
    BeforeValidator(_listed),
    Field(min_length=1),
    AsOption(_PART, _SCHEDULER),
]


class ExperimentFile(BaseModel):
    """The content of an experiment file. Names of parts may have parameters, or name a ``.py`` file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trace: Annotated[Path | None, AsOption("TRACE")] = Field(
        None, description="a trace: Slurm sacct, SWF, Philly, Helios, PAI, plain CSV, Parquet ..."
    )
    from_journal: Annotated[Path | None, AsOption("JOURNAL", _JOBS)] = Field(
        None,
        description="jobs of a run, simulated or live, as long as they really took; its cluster and "
        "parts unless named",
    )
    format: Annotated[str | None, AsOption(_PART, _JOBS, "-f")] = Field(
        None,
        description="the trace's format, or a .py file with one; guessed if not said; "
        "see: volvelle list formats",
    )
    map: Annotated[
        dict[str, str], BeforeValidator(_mapping), AsOption("OURS=THEIRS[,...]", _JOBS)
    ] = Field(
        {},
        description="column names of a plain table, as in gpus=num_gpu,duration=runtime:min; or a "
        "profile of them, pm100, aurora or a .toml file",
    )
    dates: Annotated[str | None, AsOption("FORMAT", _JOBS)] = Field(
        None, description="how a CSV's times are written, as in '%d.%m.%Y %H:%M' (strptime)"
    )
    strict: Annotated[bool, AsOption("", _JOBS)] = Field(
        False, description="stop at the first row that cannot be read, instead of counting it"
    )
    ignore_types: Annotated[bool, AsOption("", _JOBS)] = Field(
        False, description="let jobs run on any GPU type, whatever the trace says"
    )
    generate: Annotated[Written | None, AsOption(_PART, _JOBS)] = Field(
        None,
        description="generate the jobs instead, also by a .py file; see: volvelle list generators",
    )
    cluster: Annotated[
        str | dict[str, Any] | None, AsOption("NODESxGPUS[:TYPE][,...]", _WORLD, "-c")
    ] = Field(
        None,
        description="the cluster, as in 120x8 or 30x8:a100,12x8:h100; or its TOML file",
    )
    policies: Annotated[Names, AsOption(_PART, _SCHEDULER, "-p")] = Field(
        ("fifo",), description="who gets how many GPUs, or a .py file; see: volvelle list policies"
    )
    reference: Annotated[Written | None, AsOption("POLICY", _SCHEDULER)] = Field(
        None,
        description="judge all others against this policy: speed-up and harm of each job",
    )
    placements: Names = Field(("none",), description="which GPUs")
    admissions: Names = Field(("accept-all",), description="who may enter")
    estimators: Names = Field(("oracle",), description="what is believed of jobs")
    terminations: Names = Field(("completion",), description="when a job ends")
    overheads: Annotated[
        Overheads, BeforeValidator(_pairs), AsOption("KEY=SECONDS[,...]", _WORLD)
    ] = Field(
        Overheads(),
        description="what starts and stops cost: start, restore, checkpoint, checkpoint_every",
    )
    power: Annotated[str | None, AsOption("TYPE=WATTS,...", _WORLD)] = Field(
        None,
        description="of a GPU, as in a100=400W,idle=60W (busy=400W: any type); measures energy",
    )
    carbon: Annotated[str | None, BeforeValidator(_as_text), AsOption("GRAMS|FILE", _WORLD)] = (
        Field(
            None, description="of a kWh, or a CSV file with columns time and g_per_kwh; needs power"
        )
    )
    seeds: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        BeforeValidator(_listed),
        Field(min_length=1),
        AsOption(),
    ] = Field((0,), description="seed of all that is random")
    jobs_per_hour: Annotated[
        tuple[Rate, ...], BeforeValidator(_read_rates), AsOption("RATE|FIRST:LAST[:STEP]", _JOBS)
    ] = Field(
        (),
        description="rates of submission to try, as in 1:9; a trace's jobs come as Poisson then",
    )
    track: Annotated[
        tuple[int, int] | None, BeforeValidator(_span), AsOption("FIRST:LAST", _JOBS)
    ] = Field(
        None,
        description="measure only these jobs, by number from 0; those before warm the cluster up",
    )
    users: Annotated[Path | None, AsOption("FILE", _WORLD)] = Field(
        None,
        description="habits of users who submit again when their jobs end; see: volvelle trace fit",
    )
    tick: Annotated[Annotated[Seconds, Field(gt=0)] | None, AsOption("TIME", _WORLD)] = Field(
        None, description="notice ends of jobs only at multiples of this"
    )
    until: Annotated[Annotated[Seconds, Field(gt=0)] | None, AsOption("TIME", _WORLD)] = Field(
        None, description="end after this much simulated time, as in 14d"
    )
    synthesize: Annotated[
        tuple[str, ...],
        BeforeValidator(_listed),
        AfterValidator(_foreseen),
        AsOption("NAME[:MEASURE]", _SCHEDULER),
    ] = Field(
        (),
        description="choose among the policies and admissions while running, as for jct:mean",
    )
    synthesize_every: Annotated[Seconds, Field(gt=0), AsOption("TIME", _SCHEDULER)] = Field(
        3000.0, description="how often to choose"
    )
    predict: Annotated[bool, AsOption("", _WORLD)] = Field(
        False,
        description="forecast every job's finish at its submission, and measure the error",
    )
    refresh: Annotated[bool, AsOption("", _WORLD)] = Field(
        False, description="predict for all jobs at every event too, into predictions.csv"
    )
    metrics: Annotated[
        tuple[str, ...],
        BeforeValidator(_listed),
        AfterValidator(_measured),
        AsOption("NAME[:MEASURE]", _OUTPUT, "-m"),
    ] = Field(
        (),
        description="a column, as in jct:p99, also of a .py file; see: volvelle list metrics",
    )
    out: Annotated[Path | None, AsOption("FOLDER", _OUTPUT)] = Field(
        None, description="folder for the results"
    )
