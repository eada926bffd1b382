"""Options that several commands share, and the experiment they add up to."""

import functools
from collections.abc import Callable, Iterable
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from volvelle.simulate.experiment import Experiment

JOBS, _SCHEDULER, _WORLD, _OUTPUT = "The jobs", "The scheduler", "The cluster", "Output"


class Form(StrEnum):
    """How results are printed: for people, or for programs (raw numbers in base units)."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Trace = Annotated[
    Path | None,
    typer.Argument(
        metavar="TRACE",
        help="A trace: Slurm sacct, SWF, Philly, Helios, PAI, plain CSV, Parquet ...",
    ),
]
Generate = Annotated[
    str | None,
    typer.Option(
        "--generate",
        metavar="NAME[:KEY=VALUE,...]",
        help="Generate the jobs instead; see: volvelle list generators.",
        rich_help_panel=JOBS,
    ),
]
FromJournal = Annotated[
    Path | None,
    typer.Option(
        "--from-journal",
        metavar="JOURNAL",
        help="The jobs of a run again, simulated or live, as long as they really took; on its cluster "
        "and under its parts, unless said otherwise.",
        rich_help_panel=JOBS,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME[:KEY=VALUE,...]",
        help="The trace's format, guessed if not said; see: volvelle list formats.",
        rich_help_panel=JOBS,
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OURS=THEIRS[,...]",
        help="Column names of a plain table, as in gpus=num_gpu,duration=runtime:min; or a profile of them, "
        "pm100, aurora or a .toml file.",
        rich_help_panel=JOBS,
    ),
]
Dates = Annotated[
    str | None,
    typer.Option(
        "--dates",
        metavar="FORMAT",
        help="How a CSV's times are written, as in '%d.%m.%Y %H:%M' (strptime).",
        rich_help_panel=JOBS,
    ),
]
Strict = Annotated[
    bool | None,
    typer.Option(
        "--strict",
        help="Stop at the first row that cannot be read, instead of counting it.",
        rich_help_panel=JOBS,
    ),
]
IgnoreTypes = Annotated[
    bool | None,
    typer.Option(
        "--ignore-types",
        help="Let jobs run on any GPU type, whatever the trace says.",
        rich_help_panel=JOBS,
    ),
]
Track = Annotated[
    str | None,
    typer.Option(
        "--track",
        metavar="FIRST:LAST",
        help="Measure only these jobs, by number from 0; those before warm the cluster up.",
        rich_help_panel=JOBS,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "-c",
        metavar="NODESxGPUS[:TYPE][,...]",
        help="The cluster, as in 120x8 or 30x8:a100,12x8:h100; or its TOML file.",
        rich_help_panel=_WORLD,
    ),
]
Overheads = Annotated[
    str | None,
    typer.Option(
        "--overheads",
        metavar="KEY=SECONDS[,...]",
        help="What starts and stops cost: start, restore, checkpoint, checkpoint_every.",
        rich_help_panel=_WORLD,
    ),
]
Users = Annotated[
    str | None,
    typer.Option(
        "--users",
        metavar="FILE",
        help="Habits of users who submit again when their jobs end; see: volvelle trace fit.",
        rich_help_panel=_WORLD,
    ),
]
Tick = Annotated[
    str | None,
    typer.Option(
        "--tick",
        metavar="TIME",
        help="Notice ends of jobs only at multiples of this.",
        rich_help_panel=_WORLD,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="End after this much simulated time, as in 14d.",
        rich_help_panel=_WORLD,
    ),
]
Predict = Annotated[
    bool | None,
    typer.Option(
        "--predict",
        help="Forecast every job's finish at its submission, and measure the error.",
        rich_help_panel=_WORLD,
    ),
]
Refresh = Annotated[
    bool | None,
    typer.Option(
        "--refresh",
        help="Predict for all jobs at every event too, into predictions.csv.",
        rich_help_panel=_WORLD,
    ),
]
PlayOuts = Annotated[
    int | None,
    typer.Option(
        "--play-outs",
        min=0,
        help="Find P50 and P90 of predictions with this many futures.  [default: 20]",
        show_default=False,
        rich_help_panel=_WORLD,
    ),
]
_PART = "NAME[:KEY=VALUE,...]"
_FILE = "or a .py file"
Placement = Annotated[
    str | None,
    typer.Option("--placement", metavar=_PART, help="Which GPUs.", rich_help_panel=_SCHEDULER),
]
Admission = Annotated[
    str | None,
    typer.Option("--admission", metavar=_PART, help="Who may enter.", rich_help_panel=_SCHEDULER),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        "--estimator", metavar=_PART, help="What is believed of jobs.", rich_help_panel=_SCHEDULER
    ),
]
Termination = Annotated[
    str | None,
    typer.Option(
        "--termination", metavar=_PART, help="When a job ends.", rich_help_panel=_SCHEDULER
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar=_PART,
        help=f"A policy to compare, {_FILE}; repeat it. See: volvelle list policies.",
        rich_help_panel=_SCHEDULER,
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="POLICY",
        help="Judge all others against this policy: speed-up and harm of each job.",
        rich_help_panel=_SCHEDULER,
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        "--price",
        metavar="MONEY",
        min=0.0,
        help="Of a GPU-hour, in any currency: the verdict says what that comes to.",
        rich_help_panel=_OUTPUT,
    ),
]
Placements = Annotated[
    list[str] | None,
    typer.Option(
        "--placement", metavar=_PART, help="Which GPUs; repeatable.", rich_help_panel=_SCHEDULER
    ),
]
Admissions = Annotated[
    list[str] | None,
    typer.Option(
        "--admission", metavar=_PART, help="Who may enter; repeatable.", rich_help_panel=_SCHEDULER
    ),
]
Estimators = Annotated[
    list[str] | None,
    typer.Option(
        "--estimator",
        metavar=_PART,
        help="What is believed of jobs; repeatable.",
        rich_help_panel=_SCHEDULER,
    ),
]
Terminations = Annotated[
    list[str] | None,
    typer.Option(
        "--termination",
        metavar=_PART,
        help="When a job ends; repeatable.",
        rich_help_panel=_SCHEDULER,
    ),
]
Synthesize = Annotated[
    list[str] | None,
    typer.Option(
        "--synthesize",
        metavar="NAME[:MEASURE]",
        help="Choose among the policies and admissions while running, as for jct:mean; repeatable.",
        rich_help_panel=_SCHEDULER,
    ),
]
SynthesizeEvery = Annotated[
    str | None,
    typer.Option(
        "--synthesize-every",
        metavar="TIME",
        help="How often to choose.  [default: 50m]",
        show_default=False,
        rich_help_panel=_SCHEDULER,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Seed of all that is random.  [default: 0]", show_default=False
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="A TOML file with all of this; options come before it."
    ),
]
Output = Annotated[
    Form, typer.Option("--output", "-o", help="How to print results.", rich_help_panel=_OUTPUT)
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder for the results.", rich_help_panel=_OUTPUT
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace what is there already.", rich_help_panel=_OUTPUT),
]
Png = Annotated[
    bool,
    typer.Option("--png", help="Also write the charts as PNG files.", rich_help_panel=_OUTPUT),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="NAME[:MEASURE]",
        help="A column, as in jct:p99; repeat it. See: volvelle list metrics.",
        rich_help_panel=_OUTPUT,
    ),
]


AnyCommand = Callable[..., None]


def parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """A parameter of a command, as Typer reads them."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def besides(made: Callable[[], Iterable[Parameter]]) -> Callable[[AnyCommand], AnyCommand]:
    """Let the ``**`` parameter of a command stand for the options that ``made`` makes when it is used."""

    def decorate(command: AnyCommand) -> AnyCommand:
        command.besides = made  # type: ignore[attr-defined]
        return command

    return decorate


def complete(command: AnyCommand) -> AnyCommand:
    """``command`` with the options besides its own; they stand behind its arguments."""
    if not hasattr(command, "besides"):
        return command
    own = [
        one for one in signature(command).parameters.values() if one.kind != Parameter.VAR_KEYWORD
    ]
    own = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in own]
    arguments = [one for one in own if one.default is Parameter.empty]
    options = [one for one in own if one.default is not Parameter.empty]

    @functools.wraps(command)
    def completed(**given: Any) -> None:
        command(**given)

    completed.__signature__ = Signature([*arguments, *command.besides(), *options])  # type: ignore[attr-defined]
    return completed


def experiment(config: Path | None, columns: list[str] | None, **given: Any) -> "Experiment":
    """The experiment of ``--config`` and the options given, ``columns`` being those of ``--map``."""
    from volvelle.simulate.experiment import Experiment

    kept = ("seeds", "play_outs")  # where 0 is not the same as nothing
    options = {key: value if key in kept else value or None for key, value in given.items()}
    if columns:
        from volvelle.workload.readers.mapping import parse_map

        options["map"] = parse_map(columns)
    return Experiment.of(config, options)
