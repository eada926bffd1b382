"""Results for data frames: columns handed over by Arrow's C stream interface, which all of them read.

``pandas.DataFrame.from_arrow(result)``, ``polars.DataFrame(result)`` and DuckDB's ``FROM result`` take what
has ``__arrow_c_stream__``. The streams themselves are made by pyarrow (the extra ``notebook``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from volvelle.model.extras import install
from volvelle.model.problems import Problem


class HasArrow(Protocol):
    """A table of somebody else's: a data frame of pandas or Polars, a table of Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Its rows, in batches."""


class Columnar:
    """A result with named columns, that data frames take as they are."""

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Each column by its name, all of the same length; what is unknown is None or NaN."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of one batch. Raises `Problem` where pyarrow is not installed."""
        table = import_arrow("use columns()").table(dict(self.columns()))
        stream: object = table.__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self) -> Any:
        """A data frame of pandas. Raises `Problem` where pandas or pyarrow is not installed."""
        arrow = import_arrow("use columns()")
        try:
            return arrow.table(self).to_pandas()
        except ImportError:
            raise Problem(
                "pandas is not installed", mend="install it: pip install pandas, or use columns()"
            ) from None


def import_arrow(instead: str) -> Any:
    """The module ``pyarrow``. Raises `Problem` where it is not installed. ``instead``: what else to do."""
    try:
        import pyarrow.compute  # noqa: PLC0415 - optional and heavy
        import pyarrow.csv  # noqa: PLC0415
    except ImportError:
        raise Problem(
            "data frames come and go by Arrow, and pyarrow is not installed",
            mend=f"install it: {install('notebook')}, or {instead}",
        ) from None
    return pyarrow


def write_csv(frame: HasArrow, path: Path) -> None:
    """Write a data frame as a CSV file: durations in seconds, categories and views as their values.

    Raises `Problem` where pyarrow is not installed.
    """
    arrow = import_arrow("write the table to a file")
    table = arrow.table(frame)
    columns = [_plain(arrow, column) for column in table.columns]
    arrow.csv.write_csv(arrow.table(columns, names=table.column_names), path)


def _plain(arrow: Any, column: Any) -> Any:
    """A column as a type that CSV files can hold."""
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        return _plain(arrow, column.cast(kind.value_type))
    if types.is_duration(kind):
        microseconds = column.cast(arrow.duration("us"), safe=False).cast(arrow.int64())
        return arrow.compute.divide(microseconds.cast(arrow.float64()), 1e6)
    return column.cast(arrow.string()) if types.is_string_view(kind) else column


def columns_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass of columns."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def axes_of(ax: Any) -> Any:
    """``ax``, or those of a new figure of Matplotlib. Raises `Problem` where that is not installed."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot  # noqa: PLC0415 - optional and heavy
    except ImportError:
        raise Problem(
            "plot draws with Matplotlib, which is not installed",
            mend=f"install it: {install('notebook')}, or look at picture()",
        ) from None
    return pyplot.subplots()[1]
