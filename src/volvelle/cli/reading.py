"""Reading workloads with a word on how it goes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volvelle.model.cluster import Cluster
    from volvelle.simulate.experiment import Experiment, WorkloadKey
    from volvelle.simulate.sources import Source
    from volvelle.workload.workload import ImportReport, Workload


def read_workloads(experiment: "Experiment", cluster: "Cluster") -> "dict[WorkloadKey, Source]":
    """The experiment's workloads; rows that were dropped or repaired are remarked on."""
    from volvelle.cli.output import progress, remark
    from volvelle.simulate.experiment import PLACED_ANYWAY

    with progress("reading", "rows") as update:
        sources = experiment.sources(cluster, lambda rows: update(rows, None))
    first = next(iter(sources.values())).workload
    remark_on_import(first)
    remark_on_cluster(first, cluster)
    if experiment.places_anyway(cluster):
        remark(
            f"note: nodes of this cluster change: jobs are placed by --placement {PLACED_ANYWAY}"
        )
    return sources


def read_file(trace: Path, given: "Mapping[str, Any]", *, counts: bool = True) -> "Source":
    """The workload of a trace; rows that were dropped or repaired are remarked on.

    given: by the options of `volvelle.cli.options.reading`. counts: with how many there are of each, which a
    description says itself.
    """
    from volvelle.cli.output import progress
    from volvelle.simulate.sources import read_source
    from volvelle.workload.readers.mapping import parse_map

    with progress("reading", "rows") as update:
        source = read_source(
            trace,
            given["format"],
            parse_map(given["map"]) if given["map"] else {},
            dates=given["dates"],
            strict=bool(given["strict"]),
            read=lambda rows: update(rows, None),
        )
    remark_on_import(source.workload, counts=counts)
    return source


def remark_on_import(workload: "Workload", *, counts: bool = True) -> None:
    """Say what became of a trace's rows, if anything did, with an example of each reason."""
    from volvelle.cli.output import remark
    from volvelle.workload.readers.suggesting import import_hint
    from volvelle.workload.reading import MAPPED

    report = workload.report
    if report is None:
        return
    if report.contradiction:
        remark(f"note: {report.contradiction}")
    if not remarkable(report):
        return
    remark(f"note: {report.source} ({report.format}):{f' {report}' if counts else ''}")
    for reason, places in report.examples.items():
        if places:
            remark(f"      {reason}: for example {places[0]}")
    if report.format in MAPPED and (hint := import_hint(report)):
        remark(f"      {hint}")


def remarkable(report: "ImportReport") -> bool:
    """Whether a note on the import has anything to say, with the rows' counts."""
    return bool(report.dropped or report.repaired or report.odd or report.assumed)


def remark_on_cluster(workload: "Workload", cluster: "Cluster") -> None:
    """Say of which GPU types more is submitted than there is, or that it is far more in all."""
    from volvelle.cli.formatting import counted
    from volvelle.cli.output import remark
    from volvelle.report.table import format_number
    from volvelle.workload.proposing import MANY, OVERLOAD, seen_types, too_much_wanted

    seen = seen_types(workload)
    load = sum(one.load for one in seen)
    if len(workload) >= MANY and load > OVERLOAD * cluster.gpus:
        remark(
            f"note: work for {format_number(load)} GPUs on average is submitted and the cluster has "
            f"{cluster.gpus:,}: while jobs come, waits grow under any policy"
        )
        return
    if not any(cluster.gpu_types):
        return
    for wanted, gpus in too_much_wanted(seen, cluster):
        remark(
            f"note: {counted(wanted.jobs, 'job')} {'asks' if wanted.jobs == 1 else 'ask'} for "
            f"{wanted.gpu_type}: work for "
            f"{format_number(wanted.load)} of them on average, the cluster has {gpus:,}"
        )


def remark_on_record(workload: "Workload", cluster: "Cluster") -> None:
    """Say where what the trace recorded is not to be had, or not of a cluster of this size."""
    from volvelle.cli.output import remark
    from volvelle.simulate.recorded import fits_record, recorded_jobs
    from volvelle.workload.proposing import most_recorded_gpus

    known = recorded_jobs(workload)
    if not known:
        return
    if known < len(workload):
        remark(
            "note: no row shows what the trace recorded: it says of "
            f"{known:,} of its {len(workload):,} jobs when they started"
        )
    elif not fits_record(workload, cluster):
        remark(
            "note: no row shows what the trace recorded: its jobs held up to "
            f"{most_recorded_gpus(workload.jobs):,.0f} GPUs at once, the cluster has {cluster.gpus:,}"
        )
