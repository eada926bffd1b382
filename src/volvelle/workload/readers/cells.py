"""Cells of our own table of jobs: how the value of each kind of attribute is read and written.

The kind is the type of the field in `JobSpec` or `Truth`, and the unit of a number. Lists are joined by
``;``, a reward step is ``4h:10`` (deadline since submission, value). Types without a form of their own are
JSON.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from volvelle.model.job import Dependency, JobClass, Reward, wrong_steps
from volvelle.model.job_schema import GPUS, SECONDS, JobField
from volvelle.model.node import read_labels
from volvelle.model.problems import Problem
from volvelle.model.units import parse_duration
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Broken
from volvelle.workload.readers.rows import (
    MOST,
    MOST_GPUS,
    MOST_SECONDS,
    in_range,
    read_duration,
    read_number,
    read_numbers,
)

Cell = str | float | bool | None
"""A cell to be written; None and "" are written as nothing."""

_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class Codec(NamedTuple):
    """How a kind of value is read from a cell, raising `Broken`, and written; ``form``: that in words."""

    read: Callable[[str], Any]
    write: Callable[[Any], Cell]
    form: str = ""


def read_column(columns: Columns, field: JobField) -> Sequence[Any]:
    """The values of ``field``, its default where there are none; what is wrong is noted."""
    if field.type is str:
        return columns.labels(field.column)
    if field.type is float and field.default is not None:
        return columns.numbers(field.column, field.default, _most(field))
    return columns.optional(field.column, codec_of(field).read, field.default)


def written_cells(field: JobField, values: Sequence[Any]) -> list[Cell]:
    """The cells with ``values``, None where they are the default."""
    write, default = codec_of(field).write, field.default
    return [None if value is default or value == default else write(value) for value in values]


def meaning_of(field: JobField) -> str:
    """The kind and unit of a column's values."""
    return f"{field.about.meaning}{codec_of(field).form}{field.about.cell}"


def codec_of(field: JobField) -> Codec:
    """How cells of ``field`` are read and written."""
    return _CODECS.get(field.type, _json)(field)


def text_of(cell: Cell) -> str:
    """``cell`` as text that is read back as the same value, to the last bit."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 1e15
        return str(int(cell)) if whole else repr(cell)
    return str(cell)


def _most(field: JobField) -> float:
    return MOST_GPUS if field.about.unit == GPUS else MOST


def _whole(text: str, field: JobField) -> int:
    """A whole number, from 0 on where a request of it may not be less."""
    try:
        number = float(text)
        if field.about.bounds.get("ge", 0) >= 0:
            number = in_range(number, field.column, text, MOST_GPUS)
        if number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise Broken(f"unreadable {field.column}", field.column, text)


def _yes(text: str, column: str) -> bool:
    answer = _YES.get(text.lower())
    if answer is None:
        raise Broken(f"unreadable {column}", column, text)
    return answer


def _labels(text: str, column: str) -> tuple[str, ...]:
    try:
        return read_labels([text])
    except Problem:
        raise Broken(f"unreadable {column}", column, text) from None


def _alternatives(text: str, column: str) -> tuple[str, ...]:
    kinds = text.replace(";", "|").replace(",", "|").split("|")
    return tuple(kind.strip() for kind in kinds if kind.strip())


def _decoded(text: str, field: JobField) -> Any:
    try:
        return msgspec.json.decode(text, type=field.type)
    except (msgspec.DecodeError, ValueError):
        raise Broken(f"unreadable {field.column}", field.column, text) from None


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _class(text: str) -> JobClass:
    try:
        return JobClass(text.lower())
    except ValueError:
        raise Broken("unreadable class", "class", text) from None


def _steps(text: str) -> tuple[Reward, ...]:
    rewards = tuple(map(_step, text.split(";")))
    if wrong := wrong_steps([(one.deadline_seconds, one.value) for one in rewards]):
        raise Broken(wrong, "rewards", text)
    return rewards


def _step(text: str) -> Reward:
    deadline, _, value = text.rpartition(":")
    try:
        seconds = in_range(parse_duration(deadline), "rewards", text, MOST_SECONDS)
        return Reward(seconds, float(value))
    except ValueError:
        raise Broken("unreadable rewards", "rewards", text) from None


def _written_steps(steps: tuple[Reward, ...]) -> str:
    return ";".join(f"{text_of(one.deadline_seconds)}:{text_of(one.value)}" for one in steps)


def _after(text: str) -> tuple[Dependency, ...]:
    return tuple(_dependency(one.strip()) for one in text.split(";") if one.strip())


def _dependency(text: str) -> Dependency:
    """A job's id, and behind it how that has to end and the think time, where they are said."""
    name, _, last = text.rpartition(":")
    if last in ("any", "success") and name:
        return Dependency(name, any_end=last == "any")
    name, _, end = name.rpartition(":")
    if end in ("any", "success") and name:
        try:
            seconds = in_range(parse_duration(last), "after", text, MOST_SECONDS)
        except ValueError:
            raise Broken("unreadable after", "after", text) from None
        return Dependency(name, any_end=end == "any", think_seconds=seconds)
    return Dependency(text)


def _written_dependency(one: Dependency) -> str:
    end = "any" if one.any_end else "success"
    if one.think_seconds:
        return f"{one.job}:{end}:{text_of(one.think_seconds)}"
    return f"{one.job}:any" if one.any_end else one.job


def _number(field: JobField) -> Codec:
    column = field.column
    if field.about.unit == SECONDS:
        return Codec(partial(read_duration, column=column), float)
    return Codec(partial(read_number, column=column, most=_most(field)), float)


def _texts(field: JobField) -> Codec:
    separator = field.about.separator
    read = _labels if separator == "," else _alternatives
    return Codec(partial(read, column=field.column), separator.join)


def _json(field: JobField) -> Codec:
    return Codec(partial(_decoded, field=field), _encoded, ", JSON")


_CODECS: dict[Any, Callable[[JobField], Codec]] = {
    float: _number,
    int: lambda field: Codec(partial(_whole, field=field), int, "; a whole number"),
    bool: lambda field: Codec(partial(_yes, column=field.column), bool, " (yes or no)"),
    str: lambda _: Codec(str, str),
    tuple[str, ...]: _texts,
    tuple[float, ...]: lambda field: Codec(
        partial(read_numbers, column=field.column, separator=";"),
        lambda numbers: ";".join(map(text_of, numbers)),
        ", joined by ;",
    ),
    JobClass: lambda _: Codec(_class, lambda kind: kind.value),
    tuple[Reward, ...]: lambda _: Codec(_steps, _written_steps),
    tuple[Dependency, ...]: lambda _: Codec(
        _after, lambda after: ";".join(map(_written_dependency, after))
    ),
}
"""By type; other types are JSON."""
