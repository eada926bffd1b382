"""Readers of traces: one small module for each format, all with the same result.

`our_formats` holds ours by name; `volvelle.workload.reading.read_trace` picks one. A format of another
package subclasses `TraceFormat` (or `RowFormat`, or `ColumnFormat`) and is an entry point of the group
``volvelle.traces``.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from volvelle.core.registry import modules_of_systems
from volvelle.workload.readers.acme import Acme
from volvelle.workload.readers.base import ColumnFormat, ReaderOptions, RowFormat, TraceFormat
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.elasticflow import ElasticFlow
from volvelle.workload.readers.helios import Helios
from volvelle.workload.readers.journal import JournalTrace
from volvelle.workload.readers.kubernetes import Kubernetes
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.openb import Openb
from volvelle.workload.readers.own import Own
from volvelle.workload.readers.pai import Pai
from volvelle.workload.readers.parquet import Parquet
from volvelle.workload.readers.philly import Philly
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.sacct import Sacct
from volvelle.workload.readers.slurm_database import SlurmDatabase
from volvelle.workload.readers.spot_gpu import SpotGpu
from volvelle.workload.readers.swf import Swf
from volvelle.workload.readers.text import Sample

_OWN: tuple[TraceFormat, ...] = (
    Own(),
    Parquet(),
    Sacct(),
    SlurmDatabase(),
    Swf(),
    Philly(),
    Helios(),
    Acme(),
    ElasticFlow(),
    Pai(),
    Openb(),
    SpotGpu(),
    Kubernetes(),
    JournalTrace(),
)


@cache
def our_formats() -> dict[str, TraceFormat]:
    """Every format that comes with Volvelle, by name: those of traces, then of the published systems."""
    found = list(_OWN)
    for name, home in modules_of_systems("formats").items():
        for one in vars(import_module(home)).values():
            if (
                isinstance(one, type)
                and issubclass(one, TraceFormat)
                and name == getattr(one, "name", "")
            ):
                found.append(one())
    return {one.name: one for one in found}


def known_formats() -> dict[str, TraceFormat]:
    """Every format known on this machine: ours, then those of installed packages."""
    plugged_in = (entry.load()() for entry in entry_points(group="volvelle.traces"))
    return {**our_formats(), **{one.name: one for one in plugged_in}}


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
    "known_formats",
    "our_formats",
]
