"""SenseTime Helios ``cluster_log.csv`` (Hu et al., SC'21): four Slurm clusters in 2020.

Times are local, without a zone; ``duration`` is in seconds. CPU-only jobs (``gpu_num`` 0, half of
the rows) and jobs that never started are dropped.
"""

from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import RowFormat, formats, required_text, rigid_job
from volvelle.workload.readers.ledger import Ledger, Unfit
from volvelle.workload.readers.rows import Row, known_timestamp


@formats.register
class Helios(RowFormat):
    """One row a rigid job."""

    name = "helios"
    title = "SenseTime Helios cluster_log.csv (Hu et al., SC'21)"
    required = ("job_id", "user", "vc", "gpu_num", "cpu_num", "state", "submit_time", "duration")
    headings = (("id", "job_id"),)
    main_table = ("cluster_log.csv*",)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job in the pool of its virtual cluster."""
        gpus = row.gpus("gpu_num")
        if gpus == 0:
            raise Unfit("no GPUs", "gpu_num", row.text("gpu_num"))
        if "start_time" in row.header and row.absent("start_time"):
            raise Unfit("never ran", "start_time", row.text("start_time"))
        spec = JobSpec(
            id=required_text(row, "job_id"),
            submit_time=row.timestamp("submit_time"),
            gpus=gpus,
            cpus=row.number("cpu_num", 0.0),
            user=row.label("user"),
            pool=row.label("vc"),
        )
        started = known_timestamp(row.text("start_time"))
        return rigid_job(spec, row.seconds("duration"), started)
