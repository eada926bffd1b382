"""Our own table of jobs as Parquet: the columns of `own`, in batches (the extra ``parquet``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from volvelle.model.extras import install
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import TraceFormat, formats
from volvelle.workload.readers.columns import Columns, jobs_of
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.own import OwnOptions, mapped
from volvelle.workload.readers.own_jobs import own_jobs
from volvelle.workload.readers.rows import ColumnNames
from volvelle.workload.readers.states import states_of
from volvelle.workload.readers.text import Sample

MAGIC = b"PAR1"
_BATCH_ROWS = 1024


@formats.register
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
        blocks = mapped(_blocks(path, ledger), options, ledger)
        return jobs_of(blocks, partial(own_jobs, ledger), ledger, states_of)


def import_parquet() -> Any:
    """The module ``pyarrow.parquet``. Raises `Problem` where the extra is not installed."""
    try:
        import pyarrow.parquet  # noqa: PLC0415 - optional and heavy
    except ImportError:
        raise Problem(
            "Parquet needs the package pyarrow", mend=f"install it: {install('parquet')}"
        ) from None
    return pyarrow.parquet


def _blocks(path: Path, ledger: Ledger) -> Iterator[Columns]:
    ledger.file = path.name
    parquet = import_parquet()
    with _damage_named(path):
        table = parquet.ParquetFile(path)
    with table:
        header = ColumnNames(table.schema_arrow.names, path.name)
        line = 2
        for rows, columns in _batches(table, path):
            ledger.row(rows)
            yield Columns(header, range(line, line + rows), columns, {})
            line += rows


def _batches(table: Any, path: Path) -> Iterator[tuple[int, list[list[str]]]]:
    """One batch after another: its number of rows, and its columns as they would be written."""
    with _damage_named(path):
        for batch in table.iter_batches(_BATCH_ROWS):
            columns = [[_text(cell) for cell in column.to_pylist()] for column in batch.columns]
            yield batch.num_rows, columns


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises at a damaged file, which is of many kinds, into a `Problem`."""
    try:
        yield
    except Exception as error:
        raise Problem(f"{path.name} is no sound Parquet file: {error}") from None


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, date) else str(value)
