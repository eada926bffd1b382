"""Reading a trace: the format is guessed from the content or named, the result is a `Workload`.

Everything a person can get wrong ends in a `Problem`; everything that is wrong in the trace ends in
the workload's `ImportReport`, or in a `Problem` too where ``strict``.
"""

import difflib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from volvelle.core.mistakes import mistakes_of
from volvelle.core.written import WrittenPart
from volvelle.model.job import Job
from volvelle.model.problems import Problem, nearest
from volvelle.model.units import MINUTE
from volvelle.workload.readers import Ledger, Sample, TraceFormat, known_formats
from volvelle.workload.readers import formats as catalogue
from volvelle.workload.readers.clusters import is_cluster_table
from volvelle.workload.readers.json_lines import json_cells
from volvelle.workload.readers.own import COLUMNS
from volvelle.workload.readers.suggesting import (
    import_hint,
    line_hint,
    rivals,
    suggested_dates,
    suggested_names,
    unused,
    written_map,
)
from volvelle.workload.readers.text import SAMPLE_BYTES, is_number, open_binary
from volvelle.workload.workload import ImportReport, Workload, earlier

MAPPED = ("volvelle", "parquet")
"""The formats whose columns can be mapped."""


_NEAR_1970, _THIS_CENTURY = 1e8, 946684800.0
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")

_ALSO = {"slurm": "sacct", "k8s": "kubernetes", "kueue": "kubernetes", "csv": "volvelle"}
"""Names by which formats are looked for."""

_SACCT = (
    "sacct -a -X -P -o JobIDRaw,JobName,User,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,State,ReqTRES,AllocTRES,NNodes"
)
"""The command that writes a table with all that the reader of sacct knows."""


def read_trace(
    path: Path | str,
    format: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    dates: str | None = None,
    strict: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    formats: Mapping[str, TraceFormat] | None = None,
) -> Workload:
    """The jobs of the trace at ``path``, a file or a folder of tables, the first submitted at 0 s.

    columns: from our column names to the file's (see `readers.own`). dates: the form of its times, as for
    ``strptime``. options: the format's own. progress: called now and then with the number of rows read.
    formats: to choose among; by default all that are known on this machine. Raises `Problem`.
    """
    path = Path(path)
    formats = known_formats() if formats is None else formats
    chosen = None if format is None else named_format(format, formats)
    path = _main_table(path, [chosen] if chosen else list(formats.values()))
    sample = Sample.of(path)
    if chosen is None:
        chosen = _guessed(sample, formats, columns)
    if sample.binary and chosen.name != "parquet":
        raise Problem(f"{path.name} is no text file", mend="give a CSV, JSON, .gz or Parquet file")
    given = dict(options or {})
    for option, key, value in (("--map", "columns", columns), ("--dates", "dates", dates)):
        if value and chosen.name not in MAPPED:
            raise Problem(
                f"{option} does not apply to {path.name}: it is read as {chosen.name!r}",
                mend=f"leave {option} out, or say --format volvelle",
            )
        if value:
            given[key] = value
    report = ImportReport(path.name, chosen.name, columns=dict(columns or {}), dates=dates or "")
    ledger = Ledger(report, strict=strict, progress=progress)
    ledger.headings = dict(chosen.headings)
    with mistakes_of(f"trace format {chosen.name!r}", f"it read {path.name}"):
        jobs = list(chosen.read(path, ledger, chosen.options(given)))
    if not jobs:
        raise Problem(
            f"{path.name} ({chosen.name}) has no jobs: {report}{_first_examples(report)}",
            mend=(import_hint(report) if chosen.name in MAPPED else "")
            or ("correct the cells named here" if report.rows else "it needs a row for each job"),
        )
    if dates:
        _check_ends(jobs, path.name, dates)
    if "duration" in report.columns and "work" not in report.columns:
        report.contradicted = sum(map(_contradicted, jobs))
    _rebase(jobs, report)
    return Workload(jobs, path.name.removesuffix(".gz").partition(".")[0], report)


def named_format(name: str, formats: Mapping[str, TraceFormat] | None = None) -> TraceFormat:
    """The format called ``name``, or in the file ``path/to/file.py[:name]``.

    Raises `Problem` naming the nearest one.
    """
    formats = known_formats() if formats is None else formats
    if WrittenPart.read(name).in_a_file:
        return catalogue.written(name)()
    if name in formats:
        return formats[name]
    also = difflib.get_close_matches(name.lower(), _ALSO, 1, cutoff=0.75)
    meant = _ALSO[also[0]] if also else name
    near = f" (did you mean {meant!r}?)" if meant in formats else nearest(name, formats)
    raise Problem(
        f"unknown trace format {name!r}{near}",
        mend=f"formats are {', '.join(formats)}",
        usage=True,
    )


def _surest(sample: Sample, formats: Mapping[str, TraceFormat]) -> TraceFormat | None:
    scores = {name: trace_format.matches(sample) for name, trace_format in formats.items()}
    best = max(scores, key=lambda name: scores[name])
    return formats[best] if scores[best] > 0 else None


def _guessed(
    sample: Sample, formats: Mapping[str, TraceFormat], columns: Mapping[str, str] | None
) -> TraceFormat:
    if columns:
        return formats["parquet" if sample.head.startswith(b"PAR1") else "volvelle"]
    found = _surest(sample, formats)
    if found is not None:
        return found
    name = sample.path.name
    if sample.path.suffix.lower() in _SPREADSHEETS:
        raise Problem(f"{name} is a spreadsheet", mend="save its table as CSV, and give that")
    if is_cluster_table(sample):
        raise Problem(
            f"{name} is a table of nodes, not of jobs",
            mend=f"give it as the cluster, beside the trace of the jobs: --cluster {sample.path}",
        )
    if sample.path.suffix.lower() == ".toml":
        raise Problem(
            f"{name} is a TOML file, not a table of jobs",
            mend=f"if it describes an experiment: --config {sample.path}; a cluster: --cluster {sample.path}",
        )
    if sample.path.suffix.lower() == ".py":
        raise Problem(
            f"{name} is a Python file, not a table of jobs",
            mend=f"if it has a policy: --policy {sample.path}; a generator: --generate {sample.path}",
        )
    if sample.binary:
        raise Problem(f"{name} is no text file", mend="give a CSV, JSON, .gz or Parquet file")
    words = set(sample.lines[0].lower().replace("|", " ").split())
    if (
        words & {"jobid", "jobidraw"}
        and words & {"state", "partition"}
        and "," not in sample.lines[0]
    ):
        raise Problem(
            f"{name} is Slurm's, without -P or the columns that say when jobs came and what they asked for",
            mend=f"make it with: {_SACCT}",
        )
    if re.match(r"\s*<(!doctype|html|\?xml|head|style)", sample.lines[0], re.IGNORECASE):
        raise Problem(
            f"{name} is a web page, not a table of jobs",
            mend="give the file that it was made from, or that it links to",
        )
    if sample.lines[0].startswith("apiVersion:"):
        raise Problem(f"{name} is YAML", mend="make it with: kubectl get jobs -A -o json")
    if sample.lines[0].startswith("{") and b'"job_id"' in sample.head and b'"tres"' in sample.head:
        raise Problem(f"{name} is JSON of Slurm's", mend=f"make it with: {_SACCT}")
    if above := sample.lines_above:
        raise Problem(
            f"{name} has {above} lines above the names of its columns, {sample.lines[above][:60]!r}",
            mend="take these away, so that the names are its first line",
        )
    if sample.lines[0].lstrip()[:1] in ("{", "["):
        _check_whole(sample)
    cells = json_cells(sample) or sample.cells
    if any(map(is_number, cells)):
        raise Problem(
            f"{name} has a number among the names of its columns, {sample.lines[0][:60]!r}",
            mend="write a line with names, as submit_time,gpus,duration, above the first job",
        )
    if len(cells) > 1:
        dates = suggested_dates(_many_lines(sample.path))
        names = suggested_names(cells)
        line = written_map(names)
        hints = f"{rivals(cells)}{line_hint(names)}"
        left = f" (not used below: {', '.join(no)})" if (no := unused(cells, COLUMNS)) else ""
        complete = " ".join(filter(None, (line, dates.partition(", or ")[0])))
        raise Problem(
            f"{name}: no known trace format has these columns: {', '.join(cells)}{left}",
            mend=f"say which is which: {' '.join(filter(None, (line, dates)))}{hints}",
            options="" if "=?" in line else complete,
        )
    raise Problem(
        f"{name}: no known trace format looks like this: {sample.lines[0][:60]!r}",
        mend=f"name its format: {', '.join(formats)}",
    )


def _check_whole(sample: Sample) -> None:
    """Raise `Problem` for JSON that breaks off."""
    with open_binary(sample.path) as stream:
        text = stream.read().decode("utf-8", "replace").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            line = text.count("\n") + 1
            raise Problem(
                f"{sample.path.name} is JSON that breaks off at line {line}",
                mend="write it again, to its end",
            ) from None
    except RecursionError:
        return


def _many_lines(path: Path) -> list[str]:
    """Some ten thousand rows: enough that some day of theirs is no month."""
    with open_binary(path) as stream:
        return stream.read(16 * SAMPLE_BYTES).decode("utf-8", "replace").splitlines()[1:]


def _main_table(path: Path, formats: list[TraceFormat]) -> Path:
    """The file to read: ``path``, or in a folder the main table of a format."""
    if not path.is_dir():
        return path
    patterns = {pattern for trace_format in formats for pattern in trace_format.main_table}
    found = sorted(file for pattern in patterns for file in path.glob(pattern))
    if len(found) > 1:
        found = [file for file in found if "default" in file.name] or found
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(file.name for file in found)
        raise Problem(f"{path} holds several traces: {names}", mend="name one of them")
    raise Problem(
        f"{path} is a folder without a table that is known: {', '.join(sorted(patterns))}",
        mend="name the trace's file",
    )


def _check_ends(jobs: list[Job], name: str, dates: str) -> None:
    """Raise `Problem` where more than a tenth of the jobs end before they are submitted."""
    wrong = sum(
        one.recorded is not None and one.recorded.end < one.spec.submit_time for one in jobs
    )
    if 10 * wrong > len(jobs):
        raise Problem(
            f"{name}: read by --dates {shlex.quote(dates)}, {wrong:,} of {len(jobs):,} jobs end before they "
            "are submitted",
            mend="look at the order of day and month, and at the times that --map names",
        )


def _contradicted(job: Job) -> bool:
    """Whether the duration is another than from start to end, by more than a minute and a tenth."""
    if job.recorded is None:
        return False
    span = job.recorded.end - job.recorded.start
    return abs(job.truth.work / job.spec.gpus - span) > max(MINUTE, 0.1 * span)


def _rebase(jobs: list[Job], report: ImportReport) -> None:
    """Sort by submission and let the first be at 0 s, in place: the jobs are not shared yet.

    A first job near 1970 in a trace of this century is noted.
    """
    jobs.sort(key=lambda job: job.spec.submit_time)
    start = jobs[0].spec.submit_time
    if start < _NEAR_1970 and jobs[-1].spec.submit_time > _THIS_CENTURY:
        reason = "submitted near 1970, and the last job is of this century"
        report.assumed.append(reason)
        report.examples[reason] = [f"{report.source}, job {jobs[0].spec.id!r}: {start:g}"]
    if start == 0.0:
        return
    for job in jobs:
        msgspec.structs.force_setattr(job.spec, "submit_time", job.spec.submit_time - start)
        msgspec.structs.force_setattr(job, "recorded", earlier(job.recorded, start))


def _first_examples(report: ImportReport) -> str:
    examples = [places[0] for places in report.examples.values()][:2]
    return f" (first: {'; '.join(examples)})" if examples else ""
