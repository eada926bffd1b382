"""Reading workloads with a word on how it goes."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volvelle.model.cluster import Cluster
    from volvelle.simulate.experiment import Experiment, WorkloadKey
    from volvelle.simulate.sources import Source
    from volvelle.workload.workload import Workload


def read_workloads(experiment: "Experiment", cluster: "Cluster") -> "dict[WorkloadKey, Source]":
    """The experiment's workloads; rows that were dropped or repaired are remarked on."""
    from volvelle.cli.output import progress

    with progress("reading", "rows") as update:
        sources = experiment.sources(cluster, lambda rows: update(rows, None))
    remark_on_import(next(iter(sources.values())).workload)
    return sources


def read_file(trace: Path, format: str | None, columns: list[str] | None, strict: bool) -> "Source":
    """The workload of a trace; rows that were dropped or repaired are remarked on."""
    from volvelle.cli.output import progress
    from volvelle.simulate.sources import read_source
    from volvelle.workload.readers.mapping import parse_map

    with progress("reading", "rows") as update:
        source = read_source(
            trace,
            format,
            parse_map(columns) if columns else {},
            strict=strict,
            read=lambda rows: update(rows, None),
        )
    remark_on_import(source.workload)
    return source


def remark_on_import(workload: "Workload") -> None:
    """Say what became of a trace's rows, if anything did, with an example of each reason."""
    from volvelle.cli.output import remark

    report = workload.report
    if report is None or not (report.dropped or report.repaired):
        return
    remark(f"note: {report.source} ({report.format}): {report}")
    for reason, places in report.examples.items():
        if places:
            remark(f"      {reason}: for example {places[0]}")


def remark_on_record(workload: "Workload", cluster: "Cluster") -> None:
    """Say where what the trace recorded is not to be had, or not of a cluster of this size."""
    from volvelle.cli.output import remark
    from volvelle.simulate.recorded import most_recorded_gpus, recorded_jobs

    known = recorded_jobs(workload)
    if not known:
        return
    if known < len(workload):
        remark(
            f"note: the trace says of {known:,} of its {len(workload):,} jobs when they started: "
            "what it recorded is no row of its own"
        )
    elif (most := most_recorded_gpus(workload)) > cluster.gpus:
        remark(
            f"note: the trace's jobs held up to {most:,.0f} GPUs at once, the cluster has "
            f"{cluster.gpus:,}: what was recorded is of a larger one"
        )
