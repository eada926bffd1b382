"""Options that several commands share, and the experiment they add up to."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from volvelle.simulate.experiment import Experiment


def under(panel: str) -> Callable[..., Any]:
    """`typer.Option`, for options that the help shows under the heading ``panel``."""
    return functools.partial(typer.Option, rich_help_panel=panel)


jobs, scheduler = under("The jobs"), under("The scheduler")
world, results = under("The cluster"), under("Output")


class Form(StrEnum):
    """How results are printed: for people, or for programs (raw numbers in base units)."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Cluster = Annotated[
    str | None,
    world(
        "--cluster",
        "-c",
        metavar="NODESxGPUS[:TYPE][,...]",
        help="The cluster, as in 120x8 or 30x8:a100,12x8:h100; or its TOML file.",
    ),
]
_PART = "NAME[:KEY=VALUE,...]"
Placement = Annotated[str | None, scheduler("--placement", metavar=_PART, help="Which GPUs.")]
Estimator = Annotated[
    str | None, scheduler("--estimator", metavar=_PART, help="What is believed of jobs.")
]


def _money(text: str | float) -> float:
    with suppress(ValueError):
        if 0.0 <= (given := float(text)) < float("inf"):
            return given
    raise typer.BadParameter(f"{text!r} is no price: write a number, as in 2.50")


Price = Annotated[
    float | None,
    results(
        "--price",
        metavar="MONEY",
        parser=_money,
        help="Of a GPU-hour, in any currency: the verdict says what that comes to.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Seed of all that is random; default: 0.", show_default=False
    ),
]
Output = Annotated[Form, results("--output", "-o", help="How to print results.")]
Force = Annotated[bool, results("--force", help="Replace what is there already.")]
Png = Annotated[bool, results("--png", help="Also write the charts as PNG files.")]


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


def of_fields(record: type) -> Callable[[], Iterator[Parameter]]:
    """The options that a named tuple has as its fields."""

    def made() -> Iterator[Parameter]:
        defaults = record._field_defaults  # type: ignore[attr-defined]
        for name, hint in get_type_hints(record, include_extras=True).items():
            yield parameter(name, hint, defaults[name])

    return made


def of_keys(*keys: str) -> Callable[[], Iterator[Parameter]]:
    """The options for some keys of an experiment file."""

    def made() -> Iterator[Parameter]:
        from volvelle.simulate.experiment_file import ExperimentFile

        for key in keys:
            yield _option(key, ExperimentFile.model_fields[key])

    return made


reading = besides(of_keys("format", "map", "dates", "strict"))
"""Lets the ``**`` parameter of a command stand for the options that say how a trace is read."""


def of_experiment(*keys: str) -> Callable[[], Iterator[Parameter]]:
    """The options for some keys of an experiment file, and ``--config``."""

    def made() -> Iterator[Parameter]:
        yield from of_keys(*keys)()
        config = typer.Option(
            metavar="FILE", help="A TOML file with all of this; options come before it."
        )
        yield parameter("config", Annotated[Path | None, config], None)

    return made


def _option(key: str, field: "FieldInfo") -> Parameter:
    """The option for a key of an experiment file; the argument for ``trace``."""
    from volvelle.simulate.experiment_file import SINGULAR, AsOption

    written = [one for one in field.metadata if isinstance(one, AsOption)][-1]
    kind = _kind(field.annotation)
    meaning = str(field.description)
    several = kind in (list[str], list[int]) and key != "map"
    said = [
        meaning[0].upper() + meaning[1:],
        *(["repeatable"] if several else []),
        *_default(field),
    ]
    text = "; ".join(said)
    text += "" if text.endswith(".") else "."
    settings: Any = {"metavar": written.metavar or None, "help": text}
    if key == "trace":
        return parameter(key, Annotated[kind | None, typer.Argument(**settings)], None)
    singular = next((one for one, many in SINGULAR.items() if many == key), key)
    names = [f"--{singular.replace('_', '-')}", *([written.short] if written.short else [])]
    option = typer.Option(*names, rich_help_panel=written.panel or None, **settings)
    return parameter(key, Annotated[kind | None, option], None)


def _kind(annotation: Any) -> Any:
    """The type that Typer reads; everything else is read by the model."""
    if get_origin(annotation) is tuple:
        first = get_args(annotation)[0]
        return list[int] if int in (first, *get_args(first)) else list[str]
    if get_origin(annotation) is dict:
        return list[str]
    return next(
        (one for one in (bool, int, Path) if one in (annotation, *get_args(annotation))), str
    )


def _default(field: "FieldInfo") -> list[str]:
    """A default that is a number, as the help shows it."""
    from volvelle.model.units import format_duration

    default = (
        field.default[0] if isinstance(field.default, tuple) and field.default else field.default
    )
    if isinstance(default, float):
        return [f"default: {format_duration(default).removesuffix(' 00s')}"]
    return [f"default: {default}"] if isinstance(default, int) and default is not False else []


def experiment(given: Mapping[str, Any]) -> "Experiment":
    """The experiment of ``--config`` and the options that are given, by their keys."""
    from volvelle.simulate.experiment import Experiment

    options: dict[str, Any] = {
        key: None if value is False or value in ("", []) else value for key, value in given.items()
    }
    config = options.pop("config", None)
    if options.get("map"):
        from volvelle.workload.readers.mapping import parse_map

        options["map"] = parse_map(options["map"])
    return Experiment.of(config, options)
