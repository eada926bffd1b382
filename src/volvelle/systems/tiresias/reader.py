"""The Tiresias simulator's CSV (Gu et al., NSDI'19), in seconds."""

from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import RowFormat, formats, required_text, rigid_job
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.rows import Row


@formats.register
class TiresiasTrace(RowFormat):
    """One row a rigid job."""

    name = "tiresias"
    title = "Tiresias simulator CSV (Gu et al., NSDI'19)"
    required = ("job_id", "num_gpu", "submit_time", "duration", "model_name", "interval")
    headings = (("id", "job_id"), ("gpus", "num_gpu"))

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job of ``duration`` seconds."""
        spec = JobSpec(
            id=required_text(row, "job_id"),
            submit_time=row.seconds("submit_time"),
            gpus=row.gpus("num_gpu"),
            name=row.label("model_name"),
        )
        return rigid_job(spec, row.seconds("duration"))
