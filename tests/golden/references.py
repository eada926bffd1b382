"""Per-job results of the public reference simulators, and their jobs as workloads.

The files lie beside the repository, under ``../shared/golden``, each set with a README that says
what its simulator does; the test of each set says with which of our parts it is compared.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import Table
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.pcs.reader import read_speedups
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

FloatColumn = NDArray[np.float64]
Row = dict[str, str]

RELATIVE_ERROR = 1e-6
_FLOAT_DUST = 1e-9  # seconds; where a reference says zero


def rows(path: Path) -> list[Row]:
    """The rows of a CSV file, by column name."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(
    workload: Workload,
    policy: str,
    cluster: Cluster,
    *,
    tick: float | None = None,
    until: float | None = None,
    predict: bool = False,
) -> Outcomes:
    """What becomes of the jobs: GPUs are only counted, durations known, starts and stops free."""
    composition = WrittenComposition(policy, placement="none", estimator="oracle")
    setting = Setting(
        cluster=cluster,
        composition=composition,
        tick=tick,
        until=until,
        predict=predict,
    )
    return simulate(workload, setting).outcomes


@dataclass(frozen=True)
class Reference:
    """A file of results with a row for each job, which is named in the column ``id``."""

    ids: list[str]
    columns: dict[str, FloatColumn]

    @classmethod
    def read(cls, path: Path, id: str) -> "Reference":
        """Every other column as numbers; NaN where a cell is empty."""
        table = rows(path)
        columns = {
            name: np.array([float(row[name] or "nan") for row in table])
            for name in table[0]
            if name != id
        }
        return cls([row[id] for row in table], columns)

    def differences(self, outcomes: Outcomes, /, **ours: ArrayLike) -> list[str]:
        """Where columns of ours differ from those of the file, in words; nothing where none does.

        ``ours`` are columns of ``outcomes`` by the file's name for them. Numbers agree where they are
        within `RELATIVE_ERROR` of the file's.
        """
        row_of = {spec.id: row for row, spec in enumerate(outcomes.specs)}
        order = [row_of[id] for id in self.ids]
        found: list[str] = []
        for name, column in ours.items():
            mine, theirs = np.asarray(column, dtype=np.float64)[order], self.columns[name]
            same = np.isclose(mine, theirs, rtol=RELATIVE_ERROR, atol=_FLOAT_DUST, equal_nan=True)
            found.extend(
                f"{name} of job {self.ids[row]}: {mine[row]!r}, not {theirs[row]!r}"
                for row in np.flatnonzero(~same)
            )
        return found


def _workload(table: Iterable[Row], job: Callable[[Row], Job]) -> Workload:
    return Workload.of(job(row) for row in table)


def _gang(id: str, submit_time: str, gpus: str, seconds: float) -> Job:
    spec = JobSpec(id=id, submit_time=float(submit_time), gpus=float(gpus))
    return Job(spec, Truth(work=seconds * spec.gpus))


def tiresias_workload(folder: Path, trace: str) -> Workload:
    """The Tiresias simulator's jobs: gangs with a duration."""
    return _workload(
        rows(folder / f"{trace}_job.csv"),
        lambda row: _gang(
            row["job_id"], row["submit_time"], row["num_gpu"], float(row["duration"])
        ),
    )


def blox_workload(folder: Path, stream: str) -> Workload:
    """The Blox simulator's jobs: gangs with a number of iterations, those after the tracked ones too."""
    return _workload(
        rows(folder / f"blox_{stream}_jobs.csv"),
        lambda row: _gang(
            row["job_id"],
            row["arrival_s"],
            row["num_gpus"],
            float(row["iter_time_s"]) * float(row["total_iterations"]),
        ),
    )


def afs_workload(folder: Path, *, elastic: bool) -> Workload:
    """The AFS simulator's jobs: iterations, and measured seconds for each on 1, 2, ... GPUs.

    An elastic job runs on 1 GPU to the most its model can use, another on those it requests.
    """
    seconds: dict[str, list[float]] = {}
    for row in rows(folder / "afs_models.csv"):
        seconds.setdefault(row["model"], []).append(float(row["seconds_per_iteration"]))
    models = {model: Table(tuple(1.0 / each for each in all)) for model, all in seconds.items()}

    def job(row: Row) -> Job:
        spec = JobSpec(
            id=row["job_id"],
            submit_time=float(row["arrival_s"]),
            gpus=float(row["req_gpus"]),
            min_gpus=1.0 if elastic else None,
            max_gpus=float(row["max_gpus"]) if elastic else None,
        )
        return Job(spec, Truth(work=float(row["iters"]), throughput=models[row["model"]]))

    return _workload(rows(folder / "afs_tiresias240_jobs.csv"), job)


def pcs_workload(folder: Path, case: str) -> Workload:
    """The PCS simulator's jobs: 1-GPU seconds of work, elastic from 1 GPU to ``max_gpus``."""
    speedups = read_speedups(folder / "speedup_tables.csv")

    def job(row: Row) -> Job:
        most = float(row["max_gpus"])
        spec = JobSpec(
            id=row["app_id"],
            submit_time=float(row["submit_s"]),
            gpus=most,
            min_gpus=1.0,
            max_gpus=most,
        )
        return Job(spec, Truth(work=float(row["service_gpu_s"]), throughput=speedups[row["model"]]))

    return _workload(rows(folder / f"{case}__jobs.csv"), job)


def pollux_workload(shared: Path, tmp_path: Path, number: int, load: str = "1.0") -> Workload:
    """The Pollux simulator's jobs, as its own file of a workload is read, at the times of that file."""
    columns = ("name", "submit_s", "application", "num_replicas", "batch_size")
    table = [
        row
        for row in rows(shared / "golden/pollux/pollux_all_jobs.csv")
        if (row["load"], row["workload"]) == (load, str(number))
    ]
    lines = [",".join(row[column] for column in columns) for row in table]
    trace = tmp_path / f"workload-{number}.csv"
    trace.write_text("\n".join(["name,time,application,num_replicas,batch_size", *lines]))
    options = {
        "applications": shared / "data/pollux/applications",
        "elastic": True,
        "simulator": True,
    }
    first = min(float(row["submit_s"]) for row in table)
    moved = [
        replace(job, spec=replace(job.spec, submit_time=job.spec.submit_time + first))
        for job in read_trace(trace, options=options)
    ]
    return Workload(moved)
