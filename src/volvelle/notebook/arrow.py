"""Results for data frames: columns handed over by Arrow's C stream interface, which all of them read.

``pandas.DataFrame.from_arrow(result)``, ``polars.DataFrame(result)`` and DuckDB's ``FROM result`` take what
has ``__arrow_c_stream__``. The streams themselves are made by pyarrow (the extra ``notebook``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from volvelle.model.problems import Problem


class Columnar:
    """A result with named columns, that data frames take as they are."""

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Each column by its name, all of the same length; what is unknown is None or NaN."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of one batch. Raises `Problem` where pyarrow is not installed."""
        try:
            import pyarrow  # noqa: PLC0415 - optional and heavy
        except ImportError:
            raise Problem(
                "results go to data frames by Arrow, and pyarrow is not installed",
                mend="install it: pip install 'volvelle[notebook]', or use columns()",
            ) from None
        return pyarrow.table(dict(self.columns())).__arrow_c_stream__(requested_schema)


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
            mend="install it: pip install 'volvelle[notebook]', or look at picture()",
        ) from None
    return pyplot.subplots()[1]
