"""Microsoft Philly ``cluster_job_log`` (Jeon et al., ATC'19): a JSON array of jobs with attempts.

A job's duration is the sum of its attempts' run times, its GPUs the most any attempt held. Jobs
that never ran are dropped. A job whose last attempt has no end was running when the log was
taken: dropped, or ended at the option ``log_end`` and counted as repaired. The virtual cluster
becomes the pool. The array is decoded job by job; a job that is no JSON costs itself only.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from volvelle.model.job import Job, JobSpec
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import ABSENT, MOST_SECONDS, in_range, parse_timestamp
from volvelle.workload.readers.text import Sample, text_lines

_CHUNK_LINES = 4096
_JOB_START = re.compile(r'\{\s*"(?:status|vc|jobid|attempts|submitted_time|user)"')
_BETWEEN = re.compile(r"[\s,\[\]]*")


class PhillyOptions(ReaderOptions):
    """``log_end``: the time (as in the log) at which jobs still running are taken to end."""

    log_end: str | None = None


class JobObject(NamedTuple):
    """A decoded job, and the line it starts on."""

    fields: dict[str, Any]
    line: int


@formats.register
class Philly(TraceFormat):
    """One object a rigid job."""

    name = "philly"
    title = "Microsoft Philly cluster_job_log (Jeon et al., ATC'19)"
    options_type = PhillyOptions
    main_table = ("cluster_job_log*",)

    def matches(self, sample: Sample) -> float:
        """Sure of JSON that speaks of ``jobid`` and ``attempts``."""
        head = "\n".join(sample.lines[:2000])
        if head.lstrip()[:1] not in ("[", "{"):
            return 0.0
        return 0.95 if '"jobid"' in head and '"attempts"' in head else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each object of the array."""
        log_end = None if options.log_end is None else _seconds(options.log_end, "log_end")
        objects = json_objects(path, ledger)
        return each_job(objects, lambda found: _job(found, ledger, log_end), ledger)


def json_objects(path: Path, ledger: Ledger) -> Iterator[JobObject]:
    """The jobs of a JSON array (or of JSON lines), one after the other, in bounded memory."""
    ledger.file = path.name
    decoder = json.JSONDecoder()
    chunks = _chunks(text_lines(path, ledger))
    buffer, position, line, more = "", 0, 1, True
    while True:
        start = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]
        line += buffer.count("\n", position, start)
        position = start
        try:
            found, end = decoder.raw_decode(buffer, position)
        except json.JSONDecodeError as error:
            following = _JOB_START.search(buffer, position + 1)
            if following is None and more:
                text = next(chunks, None)
                more = text is not None
                buffer, position = buffer[position:] + (text or ""), 0
                continue
            if following is None and not buffer[position:].strip():
                return
            ledger.row()
            place = line + buffer.count("\n", position, error.pos)
            ledger.broken(Broken("no JSON", value=error.msg), place)
            if following is None:
                return
            end = following.start()
        else:
            ledger.row()
            if isinstance(found, dict):
                yield JobObject(found, line)
            else:
                ledger.broken(Broken("no job object", value=found), line)
        line += buffer.count("\n", position, end)
        position = end


def _chunks(lines: Iterator[str]) -> Iterator[str]:
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) == _CHUNK_LINES:
            yield "".join(held)
            held.clear()
    yield "".join(held)


def _job(found: JobObject, ledger: Ledger, log_end: float | None) -> Job:
    fields = found.fields
    attempts = fields.get("attempts") or []
    if not isinstance(attempts, list) or not all(isinstance(item, dict) for item in attempts):
        raise Broken("unreadable attempts", "attempts", attempts)
    number = str(fields.get("jobid") or "")
    if not number:
        raise Broken("missing jobid", "jobid")
    submitted = _seconds(fields.get("submitted_time"), "submitted_time")
    gpus = max((_gpus(attempt) for attempt in attempts), default=0)
    duration = sum(_run_seconds(attempt, log_end, found.line, ledger) for attempt in attempts)
    if duration == 0:
        raise Unfit("never ran", "attempts", len(attempts))
    spec = JobSpec(
        id=number,
        submit_time=submitted,
        gpus=float(gpus),
        user=str(fields.get("user") or ""),
        pool=str(fields.get("vc") or ""),
    )
    starts, ends = (
        [_seconds(each[column], column) for each in attempts if not _absent(each.get(column))]
        for column in ("start_time", "end_time")
    )
    return rigid_job(spec, duration, min(starts), max([*ends, min(starts) + duration]))


def _gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail") or []
    try:
        return sum(len(node["gpus"]) for node in detail)
    except (TypeError, KeyError):
        raise Broken("unreadable detail", "detail", detail) from None


def _run_seconds(
    attempt: dict[str, Any], log_end: float | None, line: int, ledger: Ledger
) -> float:
    """Seconds an attempt ran; 0 where it did not start."""
    if _absent(attempt.get("start_time")):
        return 0.0
    started = _seconds(attempt["start_time"], "start_time")
    if not _absent(attempt.get("end_time")):
        ended = _seconds(attempt["end_time"], "end_time")
    elif log_end is not None:
        ended = log_end
        ledger.assumed("still running: ended at log_end", line, "end_time")
    else:
        raise Unfit("still running at the end of the log", "end_time")
    if ended < started:
        raise Broken("ends before it starts", "end_time", attempt.get("end_time"))
    return ended - started


def _absent(value: object) -> bool:
    return value is None or str(value).strip().lower() in ABSENT


def _seconds(value: object, column: str) -> float:
    if _absent(value):
        raise Broken(f"missing {column}", column, value or "")
    text = str(value).removesuffix(" PST").removesuffix(" PDT")
    try:
        return in_range(parse_timestamp(text), column, text, MOST_SECONDS)
    except (ValueError, OverflowError):
        raise Broken(f"unreadable {column}", column, value) from None
