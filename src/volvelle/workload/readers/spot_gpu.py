"""Alibaba spot-GPU 2026 ``job_info_df.csv``: typed GPUs, high-priority (HP) and spot jobs.

A job is ``worker_num`` workers of ``gpu_request`` GPUs and ``cpu_request`` CPUs each. HP jobs may
not be preempted. The organization becomes user and pool. Times are seconds; durations may exceed
the trace.
"""

from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import RowFormat, formats, required_text, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import ABSENT, Row

_PREEMPTIBLE = {"hp": False, "spot": True}


@formats.register
class SpotGpu(RowFormat):
    """One row a gang of equal workers."""

    name = "spot-gpu"
    title = "Alibaba spot-GPU 2026 job_info_df.csv"
    required = ("job_name", "organization", "gpu_model", "gpu_request", "worker_num", "job_type")
    main_table = ("job_info_df.csv*",)
    headings = (("id", "job_name"), ("gpus", "gpu_request"))

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job, preemptible where it is a spot job."""
        preemptible = _PREEMPTIBLE.get(row.text("job_type").lower())
        if preemptible is None:
            raise Broken("unreadable job_type", "job_type", row.text("job_type"))
        workers, model = row.number("worker_num"), row.label("gpu_model")
        organization = row.label("organization")
        spec = JobSpec(
            id=required_text(row, "job_name"),
            submit_time=row.timestamp("submit_time"),
            gpus=row.gpus("gpu_request") * workers,
            gpu_types=() if model.lower() in ABSENT else (model,),
            cpus=row.number("cpu_request", 0.0) * workers,
            user=organization,
            pool=organization,
            preemptible=preemptible,
        )
        return rigid_job(spec, row.seconds("duration"))
