"""Alibaba openb 2023 pods (Weng et al., USENIX ATC'23): fractional GPUs.

A pod asks for ``num_gpu`` GPUs, each to ``gpu_milli`` thousandths, of one of the models in
``gpu_spec`` (joined by ``|``; empty: any). It runs from ``scheduled_time`` to ``deletion_time``;
pods that were never scheduled are dropped. The quality-of-service class becomes the pool.
"""

from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import RowFormat, formats, required_text, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.rows import Row

_MILLI = 1000.0
_MIB_PER_GB = 1024.0


@formats.register
class Openb(RowFormat):
    """One row a pod."""

    name = "openb"
    title = "Alibaba openb 2023 pods with fractional GPUs (Weng et al., ATC'23)"
    required = ("name", "cpu_milli", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
    main_table = ("openb_pod_list*.csv*",)
    headings = (("id", "name"), ("duration", "deletion_time"))

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """A rigid job on a whole or fractional number of GPUs."""
        gpus = row.gpus("num_gpu") * row.number("gpu_milli") / _MILLI
        if gpus == 0:
            raise Unfit("no GPUs", "num_gpu", row.text("num_gpu"))
        if "scheduled_time" in row.header and row.absent("scheduled_time"):
            raise Unfit("never scheduled", "scheduled_time")
        created = row.seconds("creation_time")
        started = row.seconds("scheduled_time") if "scheduled_time" in row.header else created
        ended = row.seconds("deletion_time")
        if ended < started:
            raise Broken("ends before it starts", "deletion_time", row.text("deletion_time"))
        spec = JobSpec(
            id=required_text(row, "name"),
            submit_time=created,
            gpus=gpus,
            gpu_types=tuple(kind for kind in row.text("gpu_spec").split("|") if kind),
            cpus=row.number("cpu_milli", 0.0) / _MILLI,
            memory_gb=row.number("memory_mib", 0.0) / _MIB_PER_GB,
            pool=row.label("qos"),
        )
        recorded = started if "scheduled_time" in row.header else None
        return rigid_job(spec, ended - started, recorded)
