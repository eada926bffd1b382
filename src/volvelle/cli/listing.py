"""``volvelle list``: what can be named on the command line, with parameters and sources."""

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import BaseModel

    from volvelle.report.text import Cell


class Kind(StrEnum):
    """The kinds that can be listed."""

    POLICIES = "policies"
    PLACEMENTS = "placements"
    ADMISSIONS = "admissions"
    ESTIMATORS = "estimators"
    TERMINATIONS = "terminations"
    EXECUTORS = "executors"
    GENERATORS = "generators"
    FORMATS = "formats"
    METRICS = "metrics"


_KINDS = {
    name: kind
    for kind in Kind
    for name in (kind.value, kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind[:-1])
}
"""Of one and of several."""

_WHAT = {
    Kind.POLICIES: "who runs next, and on how many GPUs",
    Kind.PLACEMENTS: "on which GPUs",
    Kind.ADMISSIONS: "which jobs are accepted, and what they are promised",
    Kind.ESTIMATORS: "how long jobs are taken to run",
    Kind.TERMINATIONS: "when a job is done",
    Kind.EXECUTORS: "where a server's jobs run",
    Kind.GENERATORS: "jobs made up, by published distributions",
    Kind.FORMATS: "traces that are read",
    Kind.METRICS: "what is measured of a run",
}


@dataclass(frozen=True)
class Parameter:
    """A key that can be given after the colon."""

    name: str
    type: str
    default: Any
    description: str


@dataclass(frozen=True)
class Listed:
    """Something with a name. ``facts`` are further properties of its kind."""

    name: str
    summary: str
    source: str
    parameters: list[Parameter]
    facts: dict[str, Any]


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=f"{', '.join(Kind)}; without it, all names in short."),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this one, with its parameters.")
    ] = None,
    output: options.Output = Form.TABLE,
) -> None:
    """List policies, placements and whatever else has a name, with parameters and sources.

    volvelle list

    volvelle list policies

    volvelle list las
    """
    from volvelle.core.written import WrittenPart
    from volvelle.model.problems import Problem, nearest

    if kind is None:
        return _print_names(output)
    meant = _KINDS.get(kind)
    if name is None and WrittenPart.read(kind).in_a_file:
        meant, name = Kind.POLICIES, kind
    if meant is None and name is None:  # a name alone will do
        meant = next((one for one in Kind if kind in (each.name for each in _listed(one))), None)
        name = kind
    if meant is None:
        raise Problem(
            f"there is no kind {kind!r}{nearest(kind, _KINDS)}",
            mend=f"kinds are {', '.join(Kind)}",
            usage=True,
        )
    if name is not None and WrittenPart.read(name).in_a_file:
        found = [replace(_described(meant, _registry(meant).written(name)), name=name)]
    else:
        found = list(_listed(meant))
    if name is not None:
        names = [one.name for one in found]
        if name not in names:
            raise Problem(
                f"there is no {name!r} among the {meant.value}{nearest(name, names)}",
                mend=f"see: volvelle list {meant.value}",
                usage=True,
            )
        found = [one for one in found if one.name == name]
    if output is Form.JSON:
        print(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
    elif output is Form.CSV:
        _print_csv(found)
    elif name is not None:
        _print_one(found[0])
    else:
        _print_all(meant, found)


def _print_names(output: Form) -> None:
    """Every kind, and the names that there are of it."""
    from volvelle.report.text import Styled

    names = {kind.value: [one.name for one in _listed(kind)] for kind in Kind}
    if output is Form.JSON:
        print(json.dumps(names, indent=2, ensure_ascii=False))
    elif output is Form.CSV:
        print("kind,name")
        print("\n".join(f"{kind},{name}" for kind, each in names.items() for name in each))
    else:
        rows = [
            [
                [Styled(kind.value, "bold")],
                [Styled(what), Styled(", ".join(names[kind.value]), "dim")],
            ]
            for kind, what in _WHAT.items()
        ]
        _print_columns(("kind", "what it is, and what there is"), rows)
        print("\nWith parameters and sources: volvelle list KIND, volvelle list KIND NAME")


def _listed(kind: Kind) -> "Iterable[Listed]":
    return (_described(kind, part) for part in _registry(kind).all().values())


def _described(kind: Kind, part: Any) -> Listed:
    facts: dict[str, Any] = {}
    if kind is Kind.METRICS:
        facts = {
            "title": part.title,
            "unit": part.unit,
            "better": part.better,
            "of": part.kind,
        }
        return Listed(part.name, part.description, "", [], facts)
    if kind is Kind.FORMATS:
        from volvelle.workload.writing import WRITERS

        facts = {"written": part.name in WRITERS}
        return Listed(part.name, part.title, "", _parameters(part.options_type), facts)
    if kind is Kind.POLICIES:
        facts = {
            "kind": part.kind,
            "optimises": part.optimises,
            "needs_durations": part.needs_durations,
            "starvation_free": part.starvation_free,
            "work_conserving": part.work_conserving,
            "heeds_priority": part.heeds_priority,
        }
    return Listed(part.name, part.summary(), part.source, _parameters(part), facts)


def _registry(kind: Kind) -> Any:
    if kind is Kind.POLICIES:
        from volvelle.core.policy import policies

        return policies
    if kind is Kind.EXECUTORS:
        from volvelle.live.nodes.executor import executors

        return executors
    if kind is Kind.GENERATORS:
        from volvelle.workload.generators import generators

        return generators
    if kind is Kind.FORMATS:
        from volvelle.workload.readers import formats

        return formats
    if kind is Kind.METRICS:
        from volvelle.metrics.catalogue import metrics

        return metrics
    from volvelle.core.parts import admissions, estimators, placements, terminations

    return {
        Kind.PLACEMENTS: placements,
        Kind.ADMISSIONS: admissions,
        Kind.ESTIMATORS: estimators,
        Kind.TERMINATIONS: terminations,
    }[kind]


def _parameters(model: "type[BaseModel]") -> list[Parameter]:
    return [
        Parameter(
            name,
            "duration" if _is_duration(field.metadata) else _type_name(field.annotation),
            _default(field),
            field.description or "",
        )
        for name, field in model.model_fields.items()
    ]


def _is_duration(metadata: "Iterable[Any]") -> bool:
    from volvelle.model.units import parse_duration

    return any(getattr(one, "func", None) is parse_duration for one in metadata)


def _default(field: Any) -> Any:
    """The default as it would be written; None for none."""
    from pydantic import BaseModel
    from pydantic_core import PydanticUndefined

    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return None
    if isinstance(default, BaseModel):
        return str(getattr(default, "kind", None) or type(default).__name__.lower())
    return default if isinstance(default, (bool, int, float, str, type(None))) else str(default)


def _type_name(annotation: Any) -> str:
    """The type in a word or two: ``float``, ``bool``, ``a | b``."""
    from types import UnionType
    from typing import Literal, Union, get_args, get_origin

    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if origin is Annotated:
        bare, *metadata = get_args(annotation)
        return "duration" if _is_duration(metadata) else _type_name(bare)
    if origin in (Union, UnionType):
        names = [_type_name(one) for one in get_args(annotation) if one is not type(None)]
        return " | ".join(names)
    return str(getattr(annotation, "__name__", annotation)).lower()


def _print_all(kind: Kind, found: "list[Listed]") -> None:
    from volvelle.report.text import Styled

    has_parameters = any(one.parameters for one in found)
    rows = []
    for one in found:
        what = [Styled(one.summary)]
        if about := _about(one):
            what.append(Styled(about, "dim"))
        cells = [[Styled(one.name, "bold")], what]
        if has_parameters:
            cells.append([Styled("  ".join(_key(one) for one in one.parameters))])
        rows.append(cells)
    heads = [kind.value, "what it is", *(["parameters"] if has_parameters else [])]
    _print_columns(heads, rows)
    if has_parameters:
        print(f"\nWhat the parameters mean: volvelle list {kind.value} NAME")


def _print_columns(heads: "Sequence[str]", rows: "Sequence[Sequence[Cell]]") -> None:
    from volvelle.cli.output import terminal
    from volvelle.report.text import aligned

    width, colored = terminal()
    print("\n".join(aligned(heads, rows, width=width, gap=3, colored=colored)))


def _about(one: Listed) -> str:
    said = [one.source] if one.source else []
    if kind := one.facts.get("kind"):
        said.append(f"an {kind}" if kind[0] in "aeiou" else f"a {kind}")
    if optimises := one.facts.get("optimises"):
        said.append(f"for {optimises}")
    if unit := one.facts.get("unit"):
        better = one.facts["better"]
        said.append(f"in {unit}" if unit != "1" else "a ratio or a count")
        said += [f"{better} is better"] if better != "neither" else []
    if one.facts.get("written"):
        said.append("can be written")
    return "; ".join(said)


def _key(parameter: Parameter) -> str:
    return f"{parameter.name}={_plain(parameter)}"


def _plain(parameter: Parameter) -> str:
    """The default as one would write it."""
    value = parameter.default
    if value is None:
        return "-"
    if parameter.type == "duration":
        return f"{value:g}s"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_one(one: Listed) -> None:
    from volvelle.report.text import Styled

    print(f"{one.name}: {one.summary}")
    if about := _about(one):
        print(about)
    if not one.parameters:
        return
    print()
    _print_columns(
        ("parameter", "default", "values", "meaning"),
        [
            [[Styled(text)] for text in (key.name, _plain(key), key.type, key.description)]
            for key in one.parameters
        ],
    )
    first = one.parameters[0]
    value = _plain(first)
    if first.default is None:
        value = _EXAMPLES.get(first.type, first.type.partition(" | ")[0])
    print(f"\nWritten: {one.name}:{first.name}={value}")


_EXAMPLES = {"duration": "10m", "float": "1", "int": "1", "bool": "true"}


def _print_csv(found: "list[Listed]") -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("name", "summary", "source", "parameters"))
    for one in found:
        keys = " ".join(_key(parameter) for parameter in one.parameters)
        writer.writerow((one.name, one.summary, one.source, keys))
