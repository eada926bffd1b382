"""``volvelle trace``: what is in a trace, the same trace in another format, new ones and public ones."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volvelle.report.table import Table
    from volvelle.workload.describe import Description
    from volvelle.workload.proposing import SeenType
    from volvelle.workload.workload import Workload

app = typer.Typer(help="Describe, convert, generate and fetch traces.", no_args_is_help=True)

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="The trace's file or folder.")]
WrittenFormat = Annotated[
    str | None,
    typer.Option("--to", metavar="FORMAT", help="Format to write, if the name does not say."),
]


@options.reading
def describe(
    trace: TraceFile,
    cluster: options.Cluster = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write a page with pictures there.")
    ] = None,
    force: options.Force = False,
    png: options.Png = False,
    output: options.Output = Form.TABLE,
    **reading: Any,
) -> None:
    """Say what is in a trace: rows kept and dropped, load, sizes, durations.

    volvelle trace describe october.txt --cluster 120x8
    """
    from volvelle.cli.reading import read_file
    from volvelle.cli.results import REPORT, free_folder
    from volvelle.notebook.facts import cluster_line
    from volvelle.report.whole import whole_report
    from volvelle.simulate.experiment import Experiment
    from volvelle.workload.describe import describe
    from volvelle.workload.proposing import seen_types

    if out is not None:
        free_folder(out, REPORT, force=force)
    there = Experiment(cluster=cluster).read_cluster() if cluster else None
    source = read_file(trace, reading, counts=output is not Form.TABLE)
    description = describe(source.workload, there.gpus if there else None)
    types = () if there else seen_types(source.workload)
    _show_description(description, source.workload, types, output)
    if out is not None:
        from volvelle.report.describe_report import write_describe_report

        facts = {"Trace": str(trace), "Rows": str(source.workload.report)}
        if there:
            facts["Cluster"] = cluster_line(there)
        with whole_report(out):
            page = write_describe_report(
                description, out, title=f"Trace {source.workload.name}", facts=facts, png=png
            )
        if output is Form.TABLE:
            print(f"Pictures: {page}")


@options.reading
def convert(
    trace: TraceFile,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: options.Force = False,
    to_format: WrittenFormat = None,
    **reading: Any,
) -> None:
    """Write a trace in another format: .csv, .csv.gz, .parquet or .swf.

    volvelle trace convert october.txt october.parquet
    """
    from volvelle.cli.reading import read_file
    from volvelle.cli.results import free_file

    free_file(to, force=force)
    source = read_file(trace, reading)
    _write(source.workload, to, to_format)


@options.reading
def generate(
    generator: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME[:KEY=VALUE,...]", help="The generator; see: volvelle list generators."
        ),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Resemble this trace instead.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write.")] = None,
    force: options.Force = False,
    seed: options.Seed = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="How many jobs.")] = None,
    length: Annotated[str | None, typer.Option(metavar="TIME", help="How long, as in 14d.")] = None,
    load: Annotated[float | None, typer.Option(help="Work submitted over capacity.")] = None,
    cluster: options.Cluster = None,
    was: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="With --like: the cluster the trace ran on."),
    ] = None,
    to_format: WrittenFormat = None,
    **reading: Any,
) -> None:
    """Generate a trace from a published mix, or one that resembles a trace of yours.

    volvelle trace generate gavel:jobs=5000,load=0.9 --out gavel.csv --seed 1

    volvelle trace generate --like october.csv --length 90d --out quarter.csv
    """
    from volvelle.cli.reading import read_file
    from volvelle.cli.results import free_file
    from volvelle.model.problems import Problem
    from volvelle.simulate.experiment import Experiment
    from volvelle.simulate.sources import generated
    from volvelle.workload.generators import generators

    if (generator is None) == (like is None):
        raise Problem(
            "a generator or --like TRACE is needed, one of them",
            mend="see: volvelle list generators",
            usage=True,
        )
    size = {"jobs": jobs, "length": length, "load": load}
    if generator is not None:
        generators.make(_with(generator, size))
    if out is None:
        raise Problem("where to write is not said", mend="say --out FILE.csv", usage=True)
    free_file(out, force=force)
    if like is None:
        gpus = Experiment(cluster=cluster).read_cluster().gpus if cluster else None
        workload = generated(_with(str(generator), size), seed or 0, gpus).workload
    else:
        trace = read_file(like, reading).workload
        workload = _resembling(trace, size, cluster, was, seed or 0)
    _write(workload, out, to_format)


@options.reading
def fit(
    trace: TraceFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The TOML file to write.")],
    force: options.Force = False,
    gap: Annotated[
        str, typer.Option(metavar="TIME", help="A user's jobs less apart than this are one batch.")
    ] = "5m",
    patience: Annotated[
        str, typer.Option(metavar="TIME", help="Who comes back later did not wait for the batch.")
    ] = "8h",
    **reading: Any,
) -> None:
    """Learn from a trace how its users submit again when their jobs have ended (closed loops).

    volvelle trace fit october.txt --out users.toml

    volvelle simulate october.txt --cluster 120x8 --users users.toml
    """
    from volvelle.cli.reading import read_file
    from volvelle.cli.results import free_file
    from volvelle.model.problems import Problem
    from volvelle.model.units import format_duration, parse_duration
    from volvelle.simulate.run_directory import written
    from volvelle.workload.habits import fit_habits

    free_file(out, force=force)
    workload = read_file(trace, reading).workload
    try:
        apart, waits = float(parse_duration(gap)), float(parse_duration(patience))
    except ValueError as error:
        raise Problem(f"--gap or --patience: {error}", usage=True) from None
    habits = fit_habits(workload, batch_gap=apart, patience=waits)
    with written(out) as path:
        path.write_text(habits.written, encoding="utf-8")
    middle = habits.think[len(habits.think) // 2]
    print(
        f"{100 * habits.follows:.0f} % of the batches follow the one before of their user, after "
        f"{format_duration(middle)} in the median; written to {out}"
    )


def fetch(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The trace; without one all are listed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to.  [default: NAME]")
    ] = None,
    force: options.Force = False,
    output: options.Output = Form.TABLE,
) -> None:
    """Download a public trace, show its licence and verify what came.

    volvelle trace fetch philly
    """
    from volvelle.cli.output import progress, remark, show
    from volvelle.cli.results import free_file
    from volvelle.workload import fetching

    if name is None:
        show(_catalogue(), output)
        return
    trace = fetching.published_trace(name)
    folder = out or Path(name)
    remark(f"{name}: {trace.title}")
    remark(f"licence: {trace.licence} ({trace.page})")
    for file in trace.files:
        if file.bytes:
            remark(f"{file.downloaded}: {file.bytes:,} bytes")
        path = free_file(folder / file.name, force=force)
        with progress(f"fetching {file.downloaded}", "bytes") as update:
            sha256 = fetching.fetch(file, folder, update)
        known = "as its publisher says" if file.sha256 else f"kept in {folder / fetching.PINS}"
        remark(f"{path}: SHA-256 {sha256}, {known}")
    what = folder if len(trace.files) > 1 else folder / trace.files[0].name
    print(f"Next: volvelle trace describe {what} --format {trace.reader}")


COMMANDS = (describe, convert, generate, fit, fetch)


def _catalogue() -> "Table":
    from volvelle.report.table import Column, Table
    from volvelle.workload.fetching import published_traces

    columns = [Column(key, key) for key in ("trace", "what it is", "licence", "hash")]
    return Table(
        "",
        tuple(columns),
        tuple(
            (
                name,
                one.title,
                one.licence,
                "known" if all(f.sha256 for f in one.files) else "of the first",
            )
            for name, one in published_traces().items()
        ),
    )


def _with(written: str, parameters: dict[str, Any]) -> str:
    """A generator as it is written, with more parameters."""
    more = ",".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    if not more:
        return written
    return f"{written}{',' if ':' in written else ':'}{more}"


def _resembling(
    trace: "Workload", size: dict[str, Any], cluster: str | None, was: str | None, seed: int
) -> "Workload":
    import numpy as np

    from volvelle.cli.output import remark
    from volvelle.model.problems import Problem
    from volvelle.model.units import parse_duration
    from volvelle.simulate.experiment import Experiment
    from volvelle.workload.fitting import like

    new, old = (
        Experiment(cluster=text).read_cluster().gpus if text else None for text in (cluster, was)
    )
    try:
        length = None if size["length"] is None else parse_duration(size["length"])
    except ValueError as error:
        raise Problem(f"--length: {error}", usage=True) from None
    fitted = like(
        trace,
        jobs=size["jobs"],
        length_seconds=length,
        load=size["load"],
        gpus=new,
        cluster_gpus=old,
    )
    if fitted.left_out:
        remark(f"note: {fitted.left_out:,} jobs of the trace do not fit the cluster: left out")
    return fitted.generate(np.random.default_rng(seed))


def _write(workload: "Workload", path: Path, format: str | None) -> None:
    """Write a trace and say so; what could not be written whole is removed."""
    from volvelle.cli.formatting import counted
    from volvelle.cli.output import remark
    from volvelle.model.problems import Problem
    from volvelle.workload.writing import write_trace

    try:
        write_trace(workload, path, format)
    except Problem:
        if path.is_file():
            path.unlink()
        raise
    remark(f"{counted(len(workload), 'job')} written to {path}")


def _show_description(
    description: "Description",
    workload: "Workload",
    types: "Sequence[SeenType]",
    output: Form,
) -> None:
    from msgspec import to_builtins

    from volvelle.cli.figures import description_facts, quantiles
    from volvelle.cli.output import show

    if output is Form.JSON:
        document = description.as_json()
        document["import"] = to_builtins(workload.report)
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
        return
    if output is Form.TABLE:
        for line in description_facts(description, workload, types):
            print(line)
        print()
    show(quantiles(description), output)
