"""Our own table of jobs as Parquet: the columns of `own`, in batches (the extra ``parquet``)."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import TraceFormat
from volvelle.workload.readers.ledger import Ledger, each_job
from volvelle.workload.readers.own import OwnOptions, mapped_rows, own_job
from volvelle.workload.readers.rows import Header, Row
from volvelle.workload.readers.text import Sample

MAGIC = b"PAR1"


class Parquet(TraceFormat):
    """One row a job; takes ``--map`` like our CSV."""

    name = "parquet"
    title = "Volvelle's own table as Parquet (needs the extra 'parquet')"
    options_type = OwnOptions

    def matches(self, sample: Sample) -> float:
        """Sure of Parquet's first four bytes."""
        return 1.0 if sample.head.startswith(MAGIC) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row."""
        return each_job(mapped_rows(_rows(path, ledger), options.columns), own_job, ledger)


def import_parquet() -> Any:
    """The module ``pyarrow.parquet``. Raises `Problem` where the extra is not installed."""
    try:
        import pyarrow.parquet  # noqa: PLC0415 - optional and heavy
    except ImportError:
        raise Problem(
            "Parquet needs the package pyarrow", mend="install it: pip install 'volvelle[parquet]'"
        ) from None
    return pyarrow.parquet


def _rows(path: Path, ledger: Ledger) -> Iterator[Row]:
    ledger.file = path.name
    parquet = import_parquet()
    try:
        table = parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises its own kinds, none of them public
        raise Problem(f"{path.name} is no Parquet file: {error}") from None
    with table:
        header = Header(table.schema_arrow.names, path.name)
        line = 1
        for batch in table.iter_batches():
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                line += 1
                ledger.row()
                yield Row(header, [_text(value) for value in values], line)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, date) else str(value)
