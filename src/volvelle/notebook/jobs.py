"""`volvelle.read` and `volvelle.generate`: jobs to be simulated."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem
from volvelle.notebook.arguments import in_python, python_of
from volvelle.notebook.arrow import Columnar, HasArrow, write_csv
from volvelle.simulate.experiment import Experiment
from volvelle.simulate.sources import Source, generated, read_source
from volvelle.workload.describe import Description, describe
from volvelle.workload.proposing import proposed_cluster, seen_types
from volvelle.workload.readers.mapping import parse_map
from volvelle.workload.workload import ImportReport, Workload
from volvelle.workload.writing import columns_of


@dataclass(frozen=True, repr=False)
class Jobs(Columnar):
    """Jobs of a trace or of a generator. ``source`` says where they come from."""

    source: Source

    @property
    def workload(self) -> Workload:
        """The jobs themselves."""
        return self.source.workload

    @property
    def report(self) -> ImportReport | None:
        """The reader's account of the trace's rows; None for generated jobs."""
        return self.workload.report

    @property
    def proposed_cluster(self) -> str:
        """A cluster like the one they ran on, as in ``6x8:a100,2x8:h100``; "" where types do not say."""
        return proposed_cluster(seen_types(self.workload)).removeprefix("--cluster ")

    @in_python
    def describe(self, *, cluster: Cluster | Path | str | None = None) -> Description:
        """A description of the jobs: load, widths, durations. ``cluster``: against which the load is told."""
        return describe(self.workload, None if cluster is None else cluster_of(cluster).gpus)

    def of_any_type(self) -> "Jobs":
        """The same jobs, that run on any GPU type (``--ignore-types``)."""
        origin = self.source.origin | {"ignore_types": True}
        return Jobs(Source(self.workload.of_any_type(), origin))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns of our own trace format, without the ones that say nothing."""
        return columns_of(self.workload)

    def __len__(self) -> int:
        return len(self.workload)

    def __repr__(self) -> str:
        name, report, said = self.workload.name, self.report, ""
        if report is not None:
            said = f", {report}" if report.dropped or report.repaired or report.odd else ""
            more = (report.contradiction, *map(python_of, report.assumed))
            said += "".join(f"; {each}" for each in more if each)
        return f"<{len(self):,} jobs of {name}{said}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>"


@in_python
def read(
    trace: Path | str | HasArrow,
    *,
    format: str | None = None,
    map: Mapping[str, str] | str | None = None,
    dates: str | None = None,
    strict: bool = False,
) -> Jobs:
    """The jobs of a trace, as ``volvelle trace describe`` reads it: a path, or a data frame of its rows.

    format: guessed unless it is said, with options as in ``swf:procs_as=gpu``. map: our column names on the
    file's, as in ``{"gpus": "num_gpu", "duration": "runtime:min"}``, or a profile of
    them. dates: how times are written, as in ``%m/%d/%Y %H:%M``. strict: stop at the first row that cannot
    be read. Raises `Problem`.
    """
    columns = parse_map([map]) if isinstance(map, str) else map or {}
    if isinstance(trace, (Path, str)):
        return Jobs(read_source(Path(trace), format, columns, dates=dates, strict=strict))
    if not hasattr(trace, "__arrow_c_stream__"):
        raise Problem(
            f"jobs cannot be read from a {type(trace).__name__}",
            mend="collect it first: frame.collect()"
            if hasattr(trace, "collect")
            else "give the path of a trace, or a data frame: pandas (2.2 and newer), Polars, Arrow, DuckDB",
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / _FRAME  # in which every format is looked for, as in a file
        write_csv(trace, path)
        with _naming_rows():
            source = read_source(path, format, columns, dates=dates, strict=strict)
    if (report := source.workload.report) is not None:
        report.source = "the data frame"
        for places in report.examples.values():
            places[:] = [_of_frame(place) for place in places]
    return Jobs(Source(source.workload, source.origin | {"trace": "a data frame"}))


_FRAME = "data frame.csv"


def _of_frame(said: str) -> str:
    """The text about a data frame's file, said of the frame itself: its first row is row 1."""
    said = re.sub(
        f"{_FRAME} line (\\d+)", lambda found: f"row {int(found[1]) - 1} of the data frame", said
    )
    return said.replace(_FRAME, "the data frame")


@contextmanager
def _naming_rows() -> Iterator[None]:
    """Problems name rows of the data frame."""
    try:
        yield
    except Problem as problem:
        problem.args = (_of_frame(str(problem.args[0])),)
        raise


@in_python
def generate(generator: str, *, seed: int = 0, cluster: Cluster | Path | str | None = None) -> Jobs:
    """The jobs of a generator, as in ``demo`` or ``gavel:jobs=500,jobs_per_hour=2``.

    cluster: for which the load is meant, where the generator is not told. Raises `Problem`.
    """
    return Jobs(generated(generator, seed, None if cluster is None else cluster_of(cluster).gpus))


def cluster_of(written: Cluster | Path | str | None, jobs: Jobs | None = None) -> Cluster:
    """A cluster, or what ``--cluster`` takes; without one, that of ``jobs`` is proposed. Raises `Problem`."""
    if written is None:
        line = (jobs.proposed_cluster if jobs is not None else "") or "8x8"
        raise Problem("no cluster is given", mend=f"say cluster={line!r}, or a cluster of your own")
    if isinstance(written, Cluster):
        return written
    if not isinstance(written, (Path, str, dict)):
        raise Problem(
            f"{written!r} is no cluster",
            mend='a cluster is written "8x8" (nodes x GPUs), or it is the path of a file, or a Cluster',
        )
    text = str(written) if isinstance(written, Path) else written
    return Experiment(cluster=text).read_cluster()


def jobs_of(jobs: "Jobs | Path | str | HasArrow") -> Jobs:
    """Jobs, or those of a trace or a data frame. Raises `Problem`."""
    return jobs if isinstance(jobs, Jobs) else read(jobs)
