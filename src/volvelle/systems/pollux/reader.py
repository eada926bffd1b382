"""Pollux' workload CSV (Qiao et al., OSDI'21, artifact): applications with GPUs and batch size.

The trace gives no durations: they follow from measured tables of the applications, which the option
``applications`` names (a folder with one folder for each application; default: the folder
``applications`` beside the trace). In a simulated world the jobs train as was measured, epoch by epoch
(`volvelle.model.training`), at the batch size of the trace or, under a policy that tunes it, at the one
with the best goodput. The job that estimators and baselines see is simpler: work is the iterations at the
trace's batch size until the last epoch, the rate is one over the measured time of an iteration on GPUs
packed onto nodes of ``node_gpus``.

With ``elastic`` a job runs on 1 GPU up to its batch size over the least local batch measured (and at most
64, beyond which nothing was measured); otherwise it is rigid. ``ncf`` always is, with a fixed batch
size, as in the artifact. ``simulator`` repeats two ways of the artifact's simulator, for comparisons job
by job: epochs end on whole seconds, and a job that tells of its progress counts the epoch it is in as
done.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Table
from volvelle.model.training import MOST_GPUS, MOST_NODES, Application, Training
from volvelle.systems.pollux.applications import read_application
from volvelle.workload.readers.base import ReaderOptions, RowFormat, formats, required_text
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row

RIGID = ("ncf",)
"""Applications with a fixed number of GPUs and batch size (the artifact's settings)."""


class PolluxOptions(ReaderOptions):
    """``applications``: the folder of measured tables; ``node_gpus``: GPUs of a node, at most 4;
    ``elastic``: jobs may run on other numbers of GPUs; ``simulator``: as the artifact's simulator.
    """

    applications: Path | None = None
    node_gpus: Annotated[int, Field(ge=1, le=4)] = 4
    elastic: bool = False
    simulator: bool = False


@formats.register
class PolluxTrace(RowFormat):
    """One row a job with the GPUs and the batch size its user chose."""

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
        measured = cache(lambda name: MeasuredSpeeds(read_application(known[name]), options))
        rows = self.rows(path, ledger)
        return each_job(rows, lambda row: self.job(row, ledger, measured), ledger)

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``; ``options`` gives an application's measurements by its name."""
        gpus, batch_size = row.gpus("num_replicas"), row.number("batch_size")
        if gpus < 1:
            raise Unfit("no GPUs", "num_replicas", gpus)
        if not gpus.is_integer():
            raise Broken("a share of a GPU", "num_replicas", gpus)
        name = required_text(row, "application")
        try:
            measured: MeasuredSpeeds = options(name)
            training = measured.training(int(batch_size))
            most = measured.most_gpus(int(gpus), training)
            truth = measured.truth(int(most), int(batch_size))
        except LookupError:
            raise Broken(
                "no measurements", "application", f"{name}, batch size {batch_size:g}"
            ) from None
        spec = JobSpec(
            id=required_text(row, "name"),
            submit_time=row.seconds("time"),
            gpus=gpus,
            min_gpus=1.0 if most > gpus else None,
            max_gpus=most if most > gpus else None,
            name=f"{name} (batch size {batch_size:g})",
        )
        return Job(spec, truth, training)


class MeasuredSpeeds:
    """An application's jobs. Raises LookupError where something was not measured."""

    def __init__(self, application: Application, options: PolluxOptions) -> None:
        self._application = application
        self._options = options
        self.training = cache(self._training)
        self.truth = cache(self._truth)

    def most_gpus(self, gpus: int, training: Training) -> float:
        """The most GPUs a job that asks for ``gpus`` can use."""
        if gpus > min(MOST_GPUS, MOST_NODES * self._options.node_gpus):
            raise LookupError(gpus)
        if not self._options.elastic or not training.tunable:
            return float(gpus)
        reach = training.batch_size // self._application.least_local
        return float(max(gpus, min(reach, MOST_NODES * self._options.node_gpus)))

    def _training(self, batch_size: int) -> Training:
        sizes = self._application.batch_sizes.astype(int).tolist()
        try:
            iterations = self._application.iterations[sizes.index(batch_size)]
        except ValueError:
            raise LookupError(batch_size) from None
        return Training(
            self._application,
            batch_size,
            _running_counts(iterations) if self._options.simulator else _begun(iterations),
            tunable=self._application.name not in RIGID,
            whole_seconds=self._options.simulator,
        )

    def _truth(self, most_gpus: int, batch_size: int) -> Truth:
        rates = (self._rate(gpus, batch_size) for gpus in range(1, most_gpus + 1))
        work = float(self.training(batch_size).declared[-1])
        return Truth(work=work, throughput=Table(tuple(rates)))

    def _rate(self, gpus: int, batch_size: int) -> float:
        """Iterations of the whole batch per second, packed."""
        full, rest = divmod(gpus, self._options.node_gpus)
        counts = (rest,) * (rest > 0) + (self._options.node_gpus,) * full
        how = self._application.passes(batch_size, gpus)
        return 1.0 / self._application.iteration_seconds(counts, how)


def _begun(iterations: FloatColumn) -> FloatColumn:
    """Iterations after 0, 1, ... epochs."""
    return np.concatenate([[0.0], iterations])


def _running_counts(iterations: FloatColumn) -> FloatColumn:
    """The same where the epoch a job is in counts as done; in the last one an iteration is left."""
    if len(iterations) == 1:
        return _begun(iterations)
    done: FloatColumn = np.append(iterations, iterations[-1]) - iterations[0]
    done[-2] -= 1.0
    return done
