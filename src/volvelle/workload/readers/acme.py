"""Shanghai AI Laboratory's Acme (Hu et al., NSDI'24): the clusters Seren and Kalos in 2023.

``type`` is the kind of work (pretraining, evaluation ...) and becomes the job's name, the queue its pool.
Jobs without GPUs and jobs that never started are dropped. Kalos has more columns, which are not needed.
"""

from collections.abc import Sequence

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import ColumnFormat, formats, rigid_jobs
from volvelle.workload.readers.columns import Columns, rows_of
from volvelle.workload.readers.ledger import Unfit


@formats.register
class Acme(ColumnFormat):
    """One row a rigid job."""

    name = "acme"
    title = "Acme, Seren and Kalos (Hu et al., NSDI'24)"
    required = (
        "job_id",
        "user",
        "node_num",
        "gpu_num",
        "cpu_num",
        "type",
        "state",
        "submit_time",
        "duration",
        "gpu_time",
    )
    main_table = ("trace_seren.csv*", "trace_kalos.csv*")
    headings = (("id", "job_id"),)

    def jobs(self, columns: Columns) -> Sequence[Job | None]:
        """Rigid jobs of ``duration`` seconds."""
        gpus = columns.gpus("gpu_num")
        for row, (width, none) in enumerate(zip(gpus, columns.absent("start_time"), strict=True)):
            if width == 0.0:
                columns.note(row, Unfit("no GPUs", "gpu_num", "0"))
            elif none and "start_time" in columns.header:
                columns.note(row, Unfit("never ran", "start_time"))
        specs = rows_of(
            JobSpec,
            id=columns.required("job_id"),
            submit_time=columns.timestamps("submit_time"),
            gpus=gpus,
            cpus=columns.numbers("cpu_num", 0.0),
            user=columns.labels("user"),
            pool=columns.labels("queue"),
            name=columns.labels("type"),
        )
        return rigid_jobs(columns, specs, columns.seconds("duration"), "start_time", "end_time")
