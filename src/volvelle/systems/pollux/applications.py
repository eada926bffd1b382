"""Folders of measured applications, in the form of Pollux' simulator (Qiao et al., OSDI'21, artifact).

A folder for each application holds ``placements.csv`` (placement, local_bsz, step_time, sync_time),
``scalability.csv`` (num_nodes, num_replicas, local_bsz, step_time, sync_time), and for each batch size
that was trained ``validation-<batch>.csv`` with a row an epoch (progress, iteration, grad_sqr, grad_var).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from volvelle.model.problems import Problem
from volvelle.model.training import Application, StepTimes
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import csv_rows
from volvelle.workload.workload import ImportReport

LOCAL_BATCH_LIMITS = {"yolov3": 8}
"""Largest batches of a GPU where they are less than was measured (the artifact's application settings)."""


def read_application(folder: Path, gpu_type: str = "") -> Application:
    """The application measured in ``folder``. Raises `Problem` where a table is missing or empty.

    gpu_type: that of the step times, ``placements-TYPE.csv``, where there are several.
    """
    suffix = f"-{gpu_type}" if gpu_type else ""
    placements: dict[str, list[tuple[float, float, float]]] = {}
    times = ("local_bsz", "step_time", "sync_time")
    for row in _rows(folder / f"placements{suffix}.csv"):
        local, step, sync = _measured(row, times)
        placements.setdefault(row.text("placement"), []).append((local, step, sync))
    scalability = [
        _measured(row, ("num_nodes", "num_replicas", *times))
        for row in _rows(folder / f"scalability{suffix}.csv")
    ]
    validations = sorted(
        (int(file.stem.removeprefix("validation-")), file)
        for file in folder.glob("validation-*.csv")
    )
    if not placements or not validations:
        missing = "validation-<batch>.csv" if placements else "placements.csv"
        raise Problem(
            f"{folder}: no measurements in {missing}",
            mend="name a folder that holds one folder of tables for each application",
        )
    trained = [
        np.array(
            [
                _measured(row, ("progress", "iteration", "grad_sqr", "grad_var"))
                for row in _rows(file)
            ]
        )
        for _, file in validations
    ]
    epochs = min(map(len, trained))
    tables = np.stack([table[:epochs] for table in trained])
    steps = StepTimes(placements, scalability)
    local_batches = steps.local_batches
    return Application(
        name=folder.name,
        steps=steps,
        batch_sizes=np.array([batch_size for batch_size, _ in validations], dtype=np.float64),
        progress=tables[:, :, 0].min(axis=0),
        iterations=tables[:, :, 1],
        grad_sqr=tables[:, :, 2],
        grad_var=tables[:, :, 3],
        least_local=int(local_batches[0]),
        most_local=LOCAL_BATCH_LIMITS.get(folder.name) or int(local_batches[-1]),
    )


def _rows(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise Problem(f"there is no file {path}", mend="name a folder of complete tables")
    return csv_rows(path, Ledger(ImportReport(str(path)), strict=True))


def _measured(row: Row, names: tuple[str, ...]) -> list[float]:
    """Numbers of any size: a gradient's variance may be huge."""
    try:
        return [float(row.text(name)) for name in names]
    except ValueError:
        raise Problem(
            f"{row.header.file} line {row.line}: {', '.join(names)} are to be numbers",
            mend="correct the table",
        ) from None
