"""Other people's column names on ours: ``gpus=num_gpu``, ``duration=runtime:min``.

A unit or a number after the last colon multiplies; a column whose own name has that colon is taken first.
Mappings of published tables are kept as profiles, files in ``workload/profiles``; one's own is named by its
path.
Where nothing is mapped yet, `suggested` guesses a ready ``--map`` from names alone.
"""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from volvelle.model.problems import Problem, nearest
from volvelle.model.toml import read_toml
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.rows import ColumnNames, epoch_seconds

UNITS: dict[str, float] = {
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "milli": 1e-3,
    "percent": 1e-2,
    "kb": 1.0 / 1024**2,
    "mb": 1.0 / 1024,
    "gb": 1.0,
}
"""Units of mapped columns: times become seconds, memory GB, ``milli`` and ``percent`` shares."""

_SYNONYMS: dict[str, tuple[str, ...]] = {
    "id": ("id", "job_id", "jobid", "job", "job_name", "app_id", "uuid", "task_id"),
    "submit_time": (
        "submit_time", "submit", "submitted", "submitted_at", "submission_time", "arrival",
        "arrival_time", "created", "created_at", "creation_time", "queued_at", "timestamp", "time",
    ),
    "gpus": (
        "gpus", "gpu", "num_gpu", "num_gpus", "gpu_num", "gpu_count", "n_gpus", "ngpus",
        "gpu_request", "requested_gpus", "num_replicas", "workers", "scale_factor",
    ),
    "duration": (
        "duration", "runtime", "run_time", "elapsed", "elapsed_time", "execution_time", "length",
        "job_duration", "walltime", "seconds", "minutes", "hours",
    ),
    "start_time": ("start_time", "start", "started", "started_at", "begin", "begin_time"),
    "end_time": ("end_time", "end", "ended", "ended_at", "finished", "finished_at", "finish_time"),
}  # fmt: skip
_UNIT_SUFFIXES = {
    "ms": "ms", "millis": "ms", "min": "min", "mins": "min", "minutes": "min", "h": "h",
    "hr": "h", "hrs": "h", "hours": "h", "days": "d", "s": "", "sec": "", "secs": "", "seconds": "",
    "milli": "milli",
}  # fmt: skip
TIMES = ("submit_time", "start_time", "end_time")
"""Our columns that are points in time."""

_PROFILES = Path(__file__).parent.parent / "profiles"
_NEAR, _SURE = 0.75, 0.9  # likeness from which a name is taken, and from which another fits too
_FACTOR = re.compile(r"\d+(\.\d+)?")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def parse_map(entries: Iterable[str]) -> dict[str, str]:
    """``["gpus=num_gpu,duration=runtime:min"]`` as a mapping; ``aurora`` is a profile's. Raises `Problem`."""
    mapping: dict[str, str] = {}
    for entry in ",".join(entries).split(","):
        ours, separator, theirs = entry.partition("=")
        if not separator and ours.strip():
            mapping |= read_profile(ours.strip())
            continue
        if not separator or not ours.strip() or not theirs.strip():
            raise Problem(
                f"cannot read {entry!r} as a column mapping",
                mend="write --map OURS=THEIRS[,...], as in gpus=num_gpu,duration=runtime:min",
                usage=True,
            )
        mapping[ours.strip()] = theirs.strip()
    return mapping


def profiles() -> dict[str, Path]:
    """The mappings of published tables that come with Volvelle, by name."""
    return {path.stem: path for path in sorted(_PROFILES.glob("*.toml"))}


def read_profile(name: str) -> dict[str, str]:
    """The mapping of the profile ``name``, or of a TOML file with a table ``[map]``. Raises `Problem`."""
    known = profiles()
    path = known.get(name) or Path(name)
    if path.suffix != ".toml":
        raise Problem(
            f"cannot read {name!r} as a column mapping{nearest(name, known)}",
            mend="write --map OURS=THEIRS[,...], as in gpus=num_gpu,duration=runtime:min, or a profile: "
            f"{', '.join(known)}, or a .toml file",
            usage=True,
        )
    columns = read_toml(path, "profile").get("map")
    if not isinstance(columns, dict) or not all(isinstance(one, str) for one in columns.values()):
        raise Problem(f"{path}: a profile has a table [map] with column names as text", usage=True)
    return columns


def mapped_header(
    header: ColumnNames, columns: Mapping[str, str], known: Iterable[str], dates: str = ""
) -> tuple[ColumnNames, Callable[[Columns], Columns]]:
    """``header`` under our names, and what puts its rows under it. Raises `Problem`.

    dates: how points in time are written, for ``strptime``; empty: numbers of seconds or ISO times.
    """
    known = tuple(known)
    mapped = ColumnNames(header.names, header.file)
    made: list[tuple[int, Callable[[str], str]]] = []  # more columns, behind those of the file
    for ours, theirs in columns.items():
        if ours not in known:
            raise Problem(
                f"--map {ours}={theirs}: there is no column {ours!r} of ours{nearest(ours, known)}",
                mend=f"ours are {', '.join(known)}",
            )
        position, factor = _located(header, ours, theirs)
        mapped.index[ours] = position
        if factor is not None:
            mapped.index[ours] = header.width + len(made)
            made.append((position, partial(_times, factor)))
    for ours in TIMES if dates else ():
        if (at := mapped.index.get(ours, header.width)) < header.width:
            mapped.index[ours] = header.width + len(made)
            made.append((at, partial(_moment, dates)))

    def under(rows: Columns) -> Columns:
        return rows.under(mapped, made)

    return mapped, under


def _times(factor: float, text: str) -> str:
    """The product as text; what is no number is left for its column to complain about."""
    try:
        return repr(float(text) * factor)
    except ValueError:
        return text


def _moment(dates: str, text: str) -> str:
    """Seconds since 1970 as text; what is no such date is left for its column to complain about."""
    try:
        return repr(epoch_seconds(datetime.strptime(text.strip(), dates)))
    except ValueError:
        return text


def _located(header: ColumnNames, ours: str, theirs: str) -> tuple[int, float | None]:
    if theirs in header:
        return header.index[theirs], None
    name, separator, unit = theirs.rpartition(":")
    if separator and name in header:
        if unit in UNITS:
            return header.index[name], UNITS[unit]
        if _FACTOR.fullmatch(unit) and float(unit) > 0.0:
            return header.index[name], float(unit)
        raise Problem(
            f"--map {ours}={theirs}: unknown unit {unit!r}{nearest(unit, UNITS)}",
            mend=f"units are {', '.join(UNITS)}, or a number",
        )
    raise Problem(
        f"--map {ours}={theirs}: {header.file} has no column {name or theirs!r}"
        f"{nearest(name or theirs, header.names)}; its columns are {', '.join(header.names)}"
    )


def suggested(names: Sequence[str]) -> str:
    """A ``--map`` line for a file with the columns ``names``; ``?`` where no name is near."""
    found = _paired(names)
    if "duration" in found or not {"start_time", "end_time"} <= found.keys():
        found = {
            ours: name for ours, name in found.items() if ours not in ("start_time", "end_time")
        }
        found.setdefault("duration", "?")
    parts = []
    for ours in _SYNONYMS:
        name = found.get(ours, "?" if ours in ("submit_time", "gpus") else ours)
        if name != ours:
            unit = _unit_of(name)
            parts.append(f"{ours}={name}" + (f":{unit}" if unit else ""))
    line = ",".join(parts)
    return "--map " + (line if "?" in line and " " not in line else shlex.quote(line))


def rivals(names: Sequence[str]) -> str:
    """A hint where several columns fit a required one of ours; empty where none does."""
    found = _paired(names)
    others = {
        ours: [
            name
            for name in names
            if name not in found.values() and _likeness(name, _SYNONYMS[ours]) >= _SURE
        ]
        for ours in found
    }
    said = [
        f"{ours} may also be {' or '.join(fitting)}" for ours, fitting in others.items() if fitting
    ]
    return f" ({'; '.join(said)})" if said else ""


def _paired(names: Sequence[str]) -> dict[str, str]:
    """Our columns and the names nearest to them, the surest pair first, each name once."""
    pairs = sorted(
        (
            (_likeness(name, synonyms), -place, ours, name)
            for place, (ours, synonyms) in enumerate(_SYNONYMS.items())
            for name in names
        ),
        reverse=True,
    )
    found: dict[str, str] = {}
    for score, _, ours, name in pairs:
        if score >= _NEAR and ours not in found and name not in found.values():
            found[ours] = name
    return found


def _likeness(name: str, synonyms: Sequence[str]) -> float:
    """From 0 to 1, the name's unit suffix left aside; earlier synonyms win where two are as near."""
    plain = _plain(name)
    return max(
        difflib.SequenceMatcher(None, plain, known).ratio() - 1e-3 * place
        for place, known in enumerate(synonyms)
    )


def _plain(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    if len(words) > 1 and words[-1] in _UNIT_SUFFIXES:
        words.pop()
    return "_".join(words)


def _unit_of(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    alone = len(words) == 1 and len(words[0]) < 4  # h or s alone is a name, not a unit
    return "" if not words or alone else _UNIT_SUFFIXES.get(words[-1], "")
