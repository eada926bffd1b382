"""Answers of a live server as records: the models of its API, with moments as datetimes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from html import escape
from itertools import accumulate
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from volvelle.dashboard.columns import JOB_COLUMNS
from volvelle.live.status.view import SINCE_EPOCH
from volvelle.model.problems import Problem
from volvelle.notebook.arrow import Columnar, import_arrow
from volvelle.report.table import Column, Table, to_html

_PLAIN = {int: "int64", float: "float64", bool: "bool_"}
_FIRST = {name: at for at, name in enumerate(JOB_COLUMNS)}
"""The columns that stand first, as in the queue of the dashboard."""
_WIDTH = 120
"""Characters of a table as text; columns beyond are named below it."""


class Record:
    """An answer whose fields are attributes; times are datetimes of the local time zone.

    Shown are the fields that say something.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The fields are those of the API's model."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, datetime):
                object.__setattr__(self, name, value.astimezone())

    def _said(self) -> Iterator[tuple[str, str]]:
        for one in fields(self):  # type: ignore[arg-type]  # of the classes below
            value = getattr(self, one.name)
            default = one.default if one.default_factory is MISSING else one.default_factory()
            if value != default:
                yield one.name, _text(value)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in self._said())})"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._said()
        )
        return f"<table>{rows}</table>"


def record_of(model: type, answered: Any) -> Record:
    """The server's answer, as the record of ``model``. Raises `Problem` where it is none."""
    try:
        found: Record = msgspec.convert(answered, record_kind(model), strict=False)
    except msgspec.ValidationError as error:
        raise Problem(
            f"the server's answer is not understood: {error}",
            mend="use the version of Volvelle that the server has",
        ) from None
    return found


@cache
def record_kind(model: type) -> type[Record]:
    """A class of the fields of ``model``, a dataclass, with datetimes for its moments."""
    hints = get_type_hints(model, include_extras=True)
    changed = [
        (one.name, kind, field(default=one.default, default_factory=one.default_factory))
        for one in fields(model)
        if (kind := _readable(hints[one.name])) != hints[one.name]
    ]
    name = model.__name__.removesuffix("View").removesuffix("Status")
    namespace = {"__doc__": model.__doc__}
    bases = (Record, model)
    return make_dataclass(name, changed, bases=bases, namespace=namespace, frozen=True, repr=False)


def _readable(hint: Any) -> Any:
    """A type with datetimes for moments, and records for models."""
    if isinstance(hint, type) and is_dataclass(hint):
        return record_kind(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return datetime if SINCE_EPOCH in parts else hint
    if origin in (Union, UnionType):
        return Union[tuple(map(_readable, parts))]  # noqa: UP007 - the parts are computed
    return origin[tuple(map(_readable, parts))] if origin is tuple else hint


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        today = value.date() == datetime.now(value.tzinfo).date()
        return f"{value:%H:%M:%S}" if today else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return str(value)


@dataclass(frozen=True, repr=False)
class Rows(Columnar):
    """The server's answer: a record for each job or node, of the class ``kind``."""

    rows: tuple[Record, ...]
    kind: type[Record]

    @classmethod
    def of(cls, model: type, answered: Sequence[Any]) -> "Rows":
        """The records of ``model``. Raises `Problem`."""
        return cls(tuple(record_of(model, one) for one in answered), record_kind(model))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Each value that is plain, by its name; lists as text."""
        return {name: [_cell(getattr(row, name)) for row in self.rows] for name in self._types}

    @property
    def _types(self) -> dict[str, Any]:
        """The plain fields with their types, and what is derived from fields."""
        derived = {
            name: _readable(get_type_hints(one.fget, include_extras=True)["return"])
            for each in self.kind.__mro__
            for name, one in vars(each).items()
            if isinstance(one, property)
        }
        named = {
            name: _without_none(kind)
            for name, kind in (get_type_hints(self.kind) | derived).items()
        }
        return {
            name: kind
            for name, kind in sorted(named.items(), key=lambda one: _FIRST.get(one[0], len(_FIRST)))
            if get_origin(kind) is not dict and not is_dataclass(kind)
        }

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of one batch, with the types of the fields. Raises `Problem` without pyarrow."""
        arrow = import_arrow("use columns()")
        cells = self.columns()
        columns = {
            name: arrow.array(cells[name], _arrow_type(arrow, kind))
            for name, kind in self._types.items()
        }
        stream: object = arrow.table(columns).__arrow_c_stream__(requested_schema)
        return stream

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> Record:
        return self.rows[at]

    def table(self) -> Table:
        """The columns in which something is said; the first, numbers or names, always."""
        shown = {
            name: ["" if cell is None else _text(cell) for cell in cells]
            for at, (name, cells) in enumerate(self.columns().items())
            if at == 0 or any(cells)
        }
        heads = tuple(Column(name, name.replace("_", " ")) for name in shown)
        return Table("", heads, tuple(zip(*shown.values(), strict=True)))

    def __repr__(self) -> str:
        if not self.rows:
            return "<nothing>"
        table, widths = self.table(), []
        for column, *cells in zip(table.columns, *table.rows, strict=True):
            widths.append(2 + max(len(column.title), *map(len, map(str, cells))))
        fit = sum(total < _WIDTH for total in accumulate(widths))
        shown = replace(table, columns=table.columns[:fit], rows=tuple(r[:fit] for r in table.rows))
        more = ", ".join(column.key for column in table.columns[fit:])
        return f"{shown}\n({more} too)" if more else str(shown)

    def _repr_html_(self) -> str:
        return to_html(self.table())


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    left = tuple(part for part in get_args(hint) if part is not NoneType)
    return Union[left]  # noqa: UP007 - the parts are computed


def _cell(value: Any) -> Any:
    """A value as data frames hold it: a list as its text."""
    return _text(value) if isinstance(value, (tuple, Enum)) else value


def _arrow_type(arrow: Any, kind: Any) -> Any:
    if kind is datetime:
        return arrow.timestamp("us", tz="UTC")
    return getattr(arrow, _PLAIN.get(kind, "string"))()
