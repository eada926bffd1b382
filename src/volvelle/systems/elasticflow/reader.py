"""ElasticFlow's trace CSV (Gu et al., ASPLOS'23, artifact): iterations, deadlines, and tables of rates.

The option ``throughputs`` names the folder of measured tables, one a model, ``MODEL.csv`` with iterations a
second by global batch size and GPUs (default: the folder ``throughputs`` beside the trace). Work is in
iterations. A job runs on one GPU up to the number on which it was measured to be fastest, and asks for
``num_gpu``; with ``elastic=false`` it runs on these alone. ``ddl``, seconds since the trace's start, is its
deadline, if it is not ``best_effort``.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from volvelle.model.job import Job, JobClass, JobSpec, Reward, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import through
from volvelle.workload.readers.base import ReaderOptions, RowFormat, formats, required_text
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import csv_rows
from volvelle.workload.workload import ImportReport


class MeasuredOptions(ReaderOptions):
    """``throughputs``: the folder of measured tables; ``elastic``: jobs run on other numbers of GPUs."""

    throughputs: Path | None = None
    elastic: bool = True


@formats.register
class MeasuredTrace(RowFormat):
    """One row a job with its model, batch size, iterations and deadline."""

    name = "elasticflow-measured"
    title = "ElasticFlow simulator CSV with measured rates (Gu et al., ASPLOS'23)"
    options_type = MeasuredOptions
    required = (
        "job_id",
        "submit_time",
        "iteration",
        "model_name",
        "ddl",
        "batch_size",
        "num_gpu",
    )

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row, with the measured rates of its model."""
        folder = options.throughputs or path.parent / "throughputs"
        if not folder.is_dir():
            raise Problem(
                f"{path.name}: an ElasticFlow trace gives no rates",
                mend=f"name the folder of measured tables: --format {self.name}:throughputs=FOLDER",
            )
        tables = cache(lambda model: _table(folder / f"{model}.csv"))
        rows = self.rows(path, ledger)
        return each_job(rows, lambda row: self.job(row, ledger, (tables, options.elastic)), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``; ``options`` are the tables by model, and whether it is elastic."""
        tables, elastic = options
        model, batch_size = required_text(row, "model_name"), int(row.number("batch_size"))
        measured: dict[int, float] = tables(model).get(batch_size, {})
        if not measured:
            raise Broken("no measurements", "model_name", f"{model}, batch size {batch_size}")
        gpus, work = row.gpus("num_gpu"), row.number("iteration")
        if gpus < 1 or work <= 0:
            raise Unfit("no GPUs, or no iterations", "num_gpu", gpus)
        submitted = row.seconds("submit_time")
        rewards: tuple[Reward, ...] = ()
        if row.text("best_effort") != "1":
            if (within := row.seconds("ddl") - submitted) <= 0:
                raise Broken("deadline in the past", "ddl", row.text("ddl"))
            rewards = (Reward(within, 1.0),)
        fastest = max(measured, key=lambda count: (measured[count], -count))
        spec = JobSpec(
            id=required_text(row, "job_id"),
            submit_time=submitted,
            gpus=gpus,
            min_gpus=1.0 if elastic else None,
            max_gpus=max(gpus, float(fastest)) if elastic else None,
            name=f"{model} (batch size {batch_size})",
            job_class=JobClass.STRICT if rewards else JobClass.BEST_EFFORT,
            rewards=rewards,
        )
        return Job(spec, Truth(work=work, throughput=through(measured, int(gpus))))


def _table(path: Path) -> dict[int, dict[int, float]]:
    """Iterations a second by batch size and GPUs; what was not measured, or is 0, is left out."""
    if not path.is_file():
        return {}
    found: dict[int, dict[int, float]] = {}
    ledger = Ledger(ImportReport(str(path)), strict=True)
    for row in csv_rows(path, ledger, required=("global_batch_size",)):
        rates = {name: row.text(name) for name in row.header.names if name.isdigit()}
        found[int(row.number("global_batch_size"))] = {
            int(name): float(rate) for name, rate in rates.items() if rate and float(rate) > 0
        }
    return found
