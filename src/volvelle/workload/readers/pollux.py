"""Pollux' workload CSV (Qiao et al., OSDI'21, artifact): applications with GPUs and batch size.

The trace gives no durations: they follow from measured tables of the six applications, which the
option ``applications`` names (a folder with one folder for each application; default: the folder
``applications`` beside the trace). Work is the iterations at the job's batch size until its last
epoch (``validation-<batch>.csv``); the rate is one over the measured step time on GPUs packed
onto nodes of ``node_gpus`` (``placements.csv``, beyond them ``scalability.csv``), with gradients
accumulated where a GPU cannot hold its share of the batch. What Pollux itself changes, batch size
and GPUs, is for its own policy.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Table
from volvelle.workload.readers.base import ReaderOptions, RowFormat, required_text
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import csv_rows
from volvelle.workload.workload import ImportReport

LOCAL_BATCH_LIMITS = {"yolov3": 8}
"""What a GPU holds where that is less than was measured (the artifact's application settings)."""


class PolluxOptions(ReaderOptions):
    """``applications``: the folder of measured tables; ``node_gpus``: GPUs of a node, at most 4."""

    applications: Path | None = None
    node_gpus: Annotated[int, Field(ge=1, le=4)] = 4


class Pollux(RowFormat):
    """One row a rigid job of fixed batch size."""

    name = "pollux"
    title = "Pollux workload CSV (Qiao et al., OSDI'21)"
    options_type = PolluxOptions
    required = ("name", "time", "application", "num_replicas", "batch_size")

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row, with the measured rates of its application."""
        folder = options.applications or path.parent / "applications"
        if not folder.is_dir():
            raise Problem(
                f"{path.name}: a Pollux workload gives no durations",
                mend="name the folder of measured application tables with the option "
                "applications=FOLDER",
            )
        known = {entry.name: entry for entry in folder.iterdir() if entry.is_dir()}
        profile = cache(lambda name: Application(known[name], options.node_gpus))
        rows = csv_rows(path, ledger, required=self.required)
        return each_job(rows, lambda row: self.job(row, ledger, profile), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``; ``options`` gives an application's tables by its name."""
        gpus, batch_size = row.gpus("num_replicas"), row.number("batch_size")
        if gpus < 1:
            raise Unfit("no GPUs", "num_replicas", gpus)
        if not gpus.is_integer():
            raise Broken("a share of a GPU", "num_replicas", gpus)
        name = required_text(row, "application")
        try:
            application: Application = options(name)
            truth = application.truth(int(gpus), int(batch_size))
        except LookupError:
            raise Broken(
                "no measurements", "application", f"{name}, batch size {batch_size:g}"
            ) from None
        spec = JobSpec(
            id=required_text(row, "name"),
            submit_time=row.seconds("time"),
            gpus=gpus,
            name=f"{name} (batch size {batch_size:g})",
        )
        return Job(spec, truth)


class Application:
    """Measured tables of one application. Raises LookupError where something was not measured."""

    def __init__(self, folder: Path, node_gpus: int) -> None:
        self._folder = folder
        self._node_gpus = node_gpus
        self._steps: dict[tuple[int, int], dict[float, tuple[float, float]]] = {}
        for row in _rows(folder / "scalability.csv"):
            key = (int(row.number("num_nodes")), int(row.number("num_replicas")))
            self._note(key, row)
        packed = {_packed(gpus, node_gpus): gpus for gpus in range(1, 17)}
        measured: set[int] = set()
        for row in _rows(folder / "placements.csv"):
            gpus = packed.get(row.text("placement"))
            if gpus is not None:
                key = (len(row.text("placement")), gpus)
                if gpus not in measured:
                    self._steps.pop(key, None)
                    measured.add(gpus)
                self._note(key, row)
        self._most_local = LOCAL_BATCH_LIMITS.get(folder.name) or max(
            map(max, self._steps.values())
        )
        self._initial_batch = min(
            int(file.stem.removeprefix("validation-")) for file in folder.glob("validation-*.csv")
        )
        self.truth = cache(self._truth)

    def _note(self, key: tuple[int, int], row: Row) -> None:
        times = (row.number("step_time"), row.number("sync_time"))
        self._steps.setdefault(key, {})[row.number("local_bsz")] = times

    def _truth(self, gpus: int, batch_size: int) -> Truth:
        validation = self._folder / f"validation-{batch_size}.csv"
        if not validation.is_file():
            raise LookupError(validation.name)
        iterations = max(row.number("iteration") for row in _rows(validation))
        self._steps[self._nodes(gpus), gpus]  # the job's own GPUs must have been measured
        rates = (self._rate(share, batch_size) for share in range(1, gpus + 1))
        return Truth(work=iterations, throughput=Table(tuple(rates)))

    def _rate(self, gpus: int, batch_size: int) -> float:
        """Steps of the whole batch per second; counts not measured lie between their neighbours."""
        if (self._nodes(gpus), gpus) in self._steps:
            return 1.0 / self._step_seconds(gpus, batch_size)
        counts = [count for nodes, count in self._steps if nodes == self._nodes(count)]
        below = max(count for count in counts if count < gpus)
        above = min(count for count in counts if count > gpus)
        low, high = self._rate(below, batch_size), self._rate(above, batch_size)
        return low + (high - low) * (gpus - below) / (above - below)

    def _step_seconds(self, gpus: int, batch_size: int) -> float:
        curve = self._steps[self._nodes(gpus), gpus]
        local = batch_size / gpus
        passes = -(-local // self._most_local)
        if gpus == 1 and batch_size > self._initial_batch:
            passes = max(passes, 2)  # without a second pass there is no gradient noise to measure
        step, sync = _between(curve, local / passes)
        return step + (passes - 1) * (step - sync)

    def _nodes(self, gpus: int) -> int:
        return -(-gpus // self._node_gpus)


def _packed(gpus: int, node_gpus: int) -> str:
    """The placement of GPUs on as few nodes as possible, as the tables write it: ``24`` for six."""
    full, rest = divmod(gpus, node_gpus)
    return (str(rest) if rest else "") + str(node_gpus) * full


def _between(curve: dict[float, tuple[float, float]], local: float) -> tuple[float, float]:
    """Step and sync time at a batch share of ``local``: linear between measured ones."""
    known = sorted(curve)
    above = next((size for size in known if size >= local), known[-1])
    below = max((size for size in known if size <= local), default=known[0])
    part = (local - below) / (above - below) if above > below else 0.0
    low, high = curve[below], curve[above]
    return low[0] + part * (high[0] - low[0]), low[1] + part * (high[1] - low[1])


def _rows(path: Path) -> Iterator[Row]:
    return csv_rows(path, Ledger(ImportReport(str(path)), strict=True))
