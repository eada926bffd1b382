"""Where jobs come from, a trace or a generator, and what ``run.json`` says of it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from volvelle.core.written import WrittenPart
from volvelle.model.problems import Problem
from volvelle.model.units import HOUR
from volvelle.workload.workload import Workload

Read = Callable[[int], None]
"""Called now and then with the number of rows read."""


@dataclass(frozen=True)
class Source:
    """A workload with what it was read or made from, for ``run.json``."""

    workload: Workload
    origin: dict[str, Any]


def read_source(
    trace: Path,
    format: str | None,
    columns: Mapping[str, str],
    *,
    dates: str | None = None,
    strict: bool,
    read: Read | None = None,
) -> Source:
    """The workload of a trace; ``format`` may have options, ``swf:procs_as=gpu``, or be a file, ``lab.py``.

    dates: how its times are written, for ``strptime``. Raises `Problem`.
    """
    from volvelle.workload.reading import read_trace  # noqa: PLC0415 - a module for each format

    if not trace.exists():
        _refuse_generator(str(trace))
    name: str | None = None
    options: dict[str, str] = {}
    if format is not None:
        try:
            name, options = split_written(format)
        except ValueError as error:
            raise Problem(f"--format {format}: {error}", usage=True) from None
    workload = read_trace(
        trace,
        name,
        columns=columns or None,
        dates=dates,
        strict=strict,
        options=options,
        progress=read,
    )
    origin: dict[str, Any] = {"trace": str(trace)}
    if trace.is_file():
        with trace.open("rb") as file:
            origin["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    if workload.report is not None:
        origin["format"] = workload.report.format
        origin["rows"] = str(workload.report)
    if options:
        origin["options"] = options
    if columns:
        origin["map"] = dict(columns)
    if dates:
        origin["dates"] = dates
    return Source(workload, origin)


def _refuse_generator(written: str) -> None:
    """Raise `Problem` where the path of a trace is the name of a generator."""
    from volvelle.workload.generators import generators  # noqa: PLC0415

    if written.partition(":")[0] in generators.names():
        raise Problem(
            f"there is no file {written}, it is a generator",
            mend=f"say --generate {written}",
            usage=True,
        )


def generated(
    written: str, seed: int, gpus: int | None = None, jobs_per_hour: float | None = None
) -> Source:
    """The workload of a generator. Raises `Problem`.

    ``gpus`` are the cluster's, for which the load is meant where the generator names no other number.
    ``jobs_per_hour`` sets the rate of submission in place of the generator's own.
    """
    from volvelle.workload.generators import generators  # noqa: PLC0415

    try:
        name, parameters = split_written(written)
    except ValueError as error:
        raise Problem(f"--generate {written}: {error}", usage=True) from None
    family = generators.written(name)
    if gpus is not None and "gpus" in family.model_fields:
        parameters.setdefault("gpus", str(gpus))
    if jobs_per_hour is not None:
        if "jobs_per_hour" not in family.model_fields:
            raise Problem(
                f"generator {name!r} has no rate of submission that could be {jobs_per_hour:g} an hour",
                mend="leave out --jobs-per-hour, or choose a generator with a jobs_per_hour",
                usage=True,
            )
        parameters["jobs_per_hour"] = repr(jobs_per_hour)
    generator = generators.build(family, parameters)
    workload = generator.generate(np.random.default_rng(seed))
    origin: dict[str, Any] = {
        "generator": family.name,
        "parameters": generator.model_dump(mode="json"),
        "seed": seed,
    }
    if jobs_per_hour is not None:
        origin["jobs_per_hour"] = jobs_per_hour
    return Source(workload, origin)


def resubmitted(source: Source, jobs_per_hour: float, seed: int) -> Source:
    """The same jobs in the same order, submitted anew as a Poisson process of this rate.

    This is how Blox varies the load of its Philly trace (EuroSys'24, section 4).
    """
    from volvelle.workload.generators.arrivals import Poisson  # noqa: PLC0415 - as above

    jobs = source.workload.jobs
    times = Poisson().times(np.random.default_rng(seed), len(jobs), HOUR / jobs_per_hour)
    moved = [
        msgspec.structs.replace(
            job, spec=msgspec.structs.replace(job.spec, submit_time=time), recorded=None
        )
        for job, time in zip(jobs, times.tolist(), strict=True)
    ]
    workload = Workload(moved, source.workload.name, source.workload.report)
    return replace(
        source,
        workload=workload,
        origin=source.origin | {"jobs_per_hour": jobs_per_hour, "seed": seed},
    )


def split_pairs(text: str) -> dict[str, str]:
    """``key=value,key=value`` as a mapping. Raises ValueError."""
    pairs = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"cannot read {pair!r}, write key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def split_written(text: str) -> tuple[str, dict[str, str]]:
    """``name:key=value,...``, or a file in place of the name, as name and parameters. Raises ValueError."""
    found = WrittenPart.read(text)
    return found.part, split_pairs(found.rest)
