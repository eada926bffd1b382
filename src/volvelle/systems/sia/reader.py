"""Sia's workload CSV (SOSP'23, artifact): Pollux' with applications measured on several GPU types.

The option ``applications`` names the folder of measured tables, one folder for each application, with
``placements-TYPE.csv`` and ``scalability-TYPE.csv`` for each type; ``types`` are those and the GPUs of a
node, as in ``aws:4/rtx:8/dgx-ext:8``. Work is in iterations at the batch size of the trace until the last
epoch, which stays as it is; rates are those on GPUs packed onto nodes. A job asks for ``num_replicas``; with
``elastic`` it runs on 1 GPU up to its batch size over the least local batch measured.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import field_validator

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, PerType, Table
from volvelle.model.training import MOST_GPUS, Application
from volvelle.systems.pollux.applications import read_application
from volvelle.systems.pollux.reader import RIGID
from volvelle.workload.readers.base import ReaderOptions, RowFormat, formats, required_text
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import Sample

_TABLES = "applications"


class SiaOptions(ReaderOptions):
    """``applications``: the folder of measured tables; ``types``: GPU types and the GPUs of their nodes;
    ``elastic``: jobs may run on other numbers of GPUs.
    """

    applications: Path | None = None
    types: str = "aws:4/rtx:8/dgx-ext:8"
    elastic: bool = False

    @field_validator("types")
    @classmethod
    def _are_types(cls, written: str) -> str:
        for one in written.split("/"):
            name, _, gpus = one.rpartition(":")
            if not name or not gpus.isdecimal() or not 0 < int(gpus) <= 9:
                raise ValueError(
                    "write TYPE:GPUS of a node, 1 to 9, several with /, as in aws:4/rtx:8"
                )
        return written

    @property
    def nodes(self) -> dict[str, int]:
        """GPUs of a node, by type."""
        pairs = (one.rpartition(":") for one in self.types.split("/"))
        return {name: int(gpus) for name, _, gpus in pairs}


@formats.register
class SiaTrace(RowFormat):
    """One row a job with the GPUs and the batch size its user chose."""

    name = "sia"
    title = "Sia workload CSV (Jayaram Subramanya et al., SOSP'23)"
    options_type = SiaOptions
    required = ("name", "time", "application", "num_replicas", "batch_size")

    def matches(self, sample: Sample) -> float:
        """Surer than Pollux, whose table it is too, where tables of several types lie beside it."""
        beside = (sample.path.parent / _TABLES).glob("*/placements-*.csv")
        return super().matches(sample) + 0.01 if any(beside) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row, with the measured rates of its application on each type."""
        folder = options.applications or path.parent / _TABLES
        if not folder.is_dir():
            raise Problem(
                f"{path.name}: a Sia workload gives no durations",
                mend="name the folder of measured application tables with the option applications=FOLDER",
            )

        @cache
        def measured(name: str) -> dict[str, Application]:
            there = folder / name
            return {
                kind: read_application(there, kind)
                for kind in options.nodes
                if (there / f"placements-{kind}.csv").is_file()
            }

        rows = self.rows(path, ledger)
        return each_job(rows, lambda row: self.job(row, ledger, (measured, options)), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``; ``options``: an application's measurements by its name, and the options."""
        measured, chosen = options
        gpus, batch_size = row.gpus("num_replicas"), int(row.number("batch_size"))
        name = required_text(row, "application")
        if gpus < 1:
            raise Unfit("no GPUs", "num_replicas", gpus)
        on: dict[str, Application] = measured(name)
        sizes: list[int] = next((one.batch_sizes.astype(int).tolist() for one in on.values()), [])
        if batch_size not in sizes:
            what = f"{name}, batch size {batch_size}"
            raise Broken("no measurements", "application", what)
        most = int(gpus)
        if chosen.elastic and name not in RIGID:
            most = max(most, *(batch_size // one.least_local for one in on.values()))
        most = min(most, MOST_GPUS)
        types: dict[str, AnyThroughput] = {
            kind: Table(
                tuple(
                    _rate(one, batch_size, count, chosen.nodes[kind])
                    for count in range(1, most + 1)
                )
            )
            for kind, one in on.items()
        }
        spec = JobSpec(
            id=required_text(row, "name"),
            submit_time=row.seconds("time"),
            gpus=gpus,
            min_gpus=1.0 if most > gpus else None,
            max_gpus=float(most) if most > gpus else None,
            name=f"{name} (batch size {batch_size})",
        )
        work = float(next(iter(on.values())).iterations[sizes.index(batch_size)][-1])
        return Job(spec, Truth(work=work, throughput=PerType(types)))


def _rate(application: Application, batch_size: int, gpus: int, node: int) -> float:
    """Iterations of the whole batch a second, packed onto nodes."""
    full, rest = divmod(gpus, node)
    counts = (rest,) * (rest > 0) + (node,) * full
    return 1.0 / application.iteration_seconds(counts, application.passes(batch_size, gpus))
