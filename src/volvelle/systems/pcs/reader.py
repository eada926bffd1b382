"""The PCS simulator's CSV (Faisal et al., OSDI'24): elastic jobs with named speed-up tables.

``service`` is work in 1-GPU seconds, ``num_jobs`` the most GPUs the job can use, ``model_name`` a
speed-up table. The tables are not part of the trace: the option ``speedups`` names a CSV with the
columns model, gpus, speedup. A model without a table is taken as linear, and counted; where the trace has no
``model_name`` all jobs are linear, as its simulator takes them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import LINEAR, AnyThroughput, Table
from volvelle.workload.readers.base import ReaderOptions, RowFormat, formats, required_text
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import csv_rows
from volvelle.workload.workload import ImportReport

NO_TABLE = "no speed-up table for the model: linear"


class PcsOptions(ReaderOptions):
    """``speedups``: a CSV with the columns model, gpus, speedup."""

    speedups: Path | None = None


@formats.register
class PcsTrace(RowFormat):
    """One row an elastic job on 1 to ``num_jobs`` GPUs."""

    name = "pcs"
    title = "PCS simulator CSV: elastic jobs (Faisal et al., OSDI'24)"
    options_type = PcsOptions
    required = ("app_id", "submit_time", "service", "num_jobs")
    headings = (("id", "app_id"),)

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row, with the speed-up table of its model."""
        tables = read_speedups(options.speedups) if options.speedups else {}
        rows = self.rows(path, ledger)
        return each_job(rows, lambda row: self.job(row, ledger, tables), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``; ``options`` are the speed-up tables by model."""
        tables: dict[str, AnyThroughput] = options
        model = "LinearModel" if row.absent("model_name") else row.label("model_name")
        most = row.gpus("num_jobs")
        service = row.number("service")
        if most < 1:
            raise Unfit("no GPUs", "num_jobs", most)
        if service <= 0:
            raise Unfit("never ran", "service", service)
        spec = JobSpec(
            id=required_text(row, "app_id"),
            submit_time=row.seconds("submit_time"),
            gpus=most,
            min_gpus=1.0,
            max_gpus=most,
            name=model,
        )
        speedup = tables.get(model)
        if speedup is None:
            speedup = LINEAR
            if most > 1 and model != "LinearModel":
                ledger.assumed(NO_TABLE, row.line, "model_name", model)
        return Job(spec, Truth(work=service, throughput=speedup))


def read_speedups(path: Path) -> dict[str, AnyThroughput]:
    """Speed-up tables by model from a CSV with model, gpus, speedup. Raises `Problem`."""
    strict = Ledger(ImportReport(str(path)), strict=True)
    speedups: dict[str, dict[int, float]] = {}
    for row in csv_rows(path, strict, required=("model", "gpus", "speedup")):
        try:
            points = speedups.setdefault(required_text(row, "model"), {})
            points[int(row.gpus("gpus"))] = row.number("speedup")
        except Broken as bad:
            strict.broken(bad, row.line)
    tables: dict[str, AnyThroughput] = {"LinearModel": LINEAR}
    for model, points in speedups.items():
        points.pop(0, None)
        if sorted(points) != list(range(1, len(points) + 1)):
            raise Problem(
                f"{path.name}: the speed-ups of {model!r} are not given for each of 1, 2, ... GPUs",
                mend="give every number of GPUs one row",
            )
        if model != "LinearModel":
            tables[model] = Table(tuple(points[gpus] for gpus in sorted(points)))
    return tables
