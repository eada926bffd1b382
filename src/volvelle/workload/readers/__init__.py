"""Readers of traces: one small module for each format, all with the same result.

`formats` finds them by name; `volvelle.workload.reading.read_trace` picks one. A format of another package
subclasses `TraceFormat` (or `RowFormat`, or `ColumnFormat`) and is an entry point of the group
``volvelle.traces``, or a single file that registers it, named on the command line.
"""

from volvelle.workload.readers.base import (
    ColumnFormat,
    ReaderOptions,
    RowFormat,
    TraceFormat,
    formats,
)
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import Sample

__all__ = [
    "Broken",
    "ColumnFormat",
    "Columns",
    "Ledger",
    "ReaderOptions",
    "Row",
    "RowFormat",
    "Sample",
    "TraceFormat",
    "Unfit",
    "formats",
    "known_formats",
]


def known_formats() -> dict[str, TraceFormat]:
    """Every format known on this machine, by name."""
    return {name: one() for name, one in formats.all().items()}
