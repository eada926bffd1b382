"""Other people's column names on ours: ``gpus=num_gpu``, ``duration=runtime:min``, ``gpus=1``.

A unit or a number after the last colon multiplies, a time zone there is that of times without one; a column
whose own name has that colon is taken first. A number that names no column is the value of all rows.
Mappings of published tables are kept as profiles, files in ``workload/profiles``; one's own is named by its
path.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from volvelle.model.problems import Problem, nearest
from volvelle.model.toml import read_toml
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.dates import DateForm, zone_named
from volvelle.workload.readers.rows import ColumnNames

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

TIMES = ("submit_time", "start_time", "end_time")
"""Our columns that are points in time."""
DATED = (*TIMES, "deadline")
"""Our columns that may hold dates."""

_PROFILES = Path(__file__).parent.parent / "profiles"
_NUMBER = re.compile(r"\d+(\.\d+)?")

TWO_PARTS = re.compile(r"\s*(\d+):([0-5]?\d)\s*")
"""A cell like ``1:30``: minutes and seconds, or by the unit ``h`` hours and minutes."""


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
    header: ColumnNames,
    columns: Mapping[str, str],
    known: Iterable[str],
    dates: DateForm | None = None,
) -> tuple[ColumnNames, Callable[[Columns], Columns], list[str]]:
    """``header`` under our names, what puts its rows under it, and what is wrong with ``columns``.

    dates: how points in time are written; none: numbers of seconds or ISO times.
    """
    known = tuple(known)
    mapped = ColumnNames(header.names, header.file)
    made: list[tuple[int, Callable[[str], str]]] = []  # more columns, behind those of the file
    wrong: list[str] = []
    for ours, theirs in columns.items():
        said = _wrong_pair(header, ours, theirs, known)
        if said:
            wrong.append(f"--map {shlex.quote(f'{ours}={theirs}')}: {said}")
            continue
        position, make = _located(header, theirs)
        mapped.index[ours] = position
        if make is not None:
            mapped.index[ours] = header.width + len(made)
            made.append((position, make))
    for ours in DATED:
        if dates is not None and (at := mapped.index.get(ours, header.width)) < header.width:
            mapped.index[ours] = header.width + len(made)
            made.append((at, dates.read))

    def under(rows: Columns) -> Columns:
        return rows.under(mapped, made)

    return mapped, under, wrong


def _wrong_pair(header: ColumnNames, ours: str, theirs: str, known: Sequence[str]) -> str:
    """A clause on a pair that cannot be applied; "" for the others."""
    if ours not in known:
        return f"there is no column {ours!r} of ours{nearest(ours, known)}"
    name, _, unit = theirs.rpartition(":")
    if theirs in header or _NUMBER.fullmatch(theirs):
        return ""
    if name not in header and not _NUMBER.fullmatch(name):
        name = name or theirs
        return f"{header.file} has no column {name!r}{nearest(name, header.names)}"
    if unit in UNITS or (_NUMBER.fullmatch(unit) and float(unit) > 0.0):
        return ""
    if ours in DATED and zone_named(unit):
        return ""
    zone = " or a time zone, as Europe/Berlin" if ours in DATED else ""
    return f"unknown unit {unit!r}{nearest(unit, UNITS)}, units are {', '.join(UNITS)}, or a number{zone}"


def _times(factor: float, text: str) -> str:
    """The product to nine decimals (1.1 h are 3960 s), of hours like ``1:30`` too; other text as it is."""
    if factor == UNITS["h"] and (parts := TWO_PARTS.fullmatch(text)):
        return repr((int(parts[1]) + int(parts[2]) / 60.0) * factor)
    try:
        return repr(round(float(text) * factor, 9))
    except ValueError:
        return text


def _located(header: ColumnNames, theirs: str) -> tuple[int, Callable[[str], str] | None]:
    """The position of a column, and what is made of its cells where they do not stay as they are."""
    if theirs in header:
        return header.index[theirs], None
    name, colon, unit = theirs.rpartition(":")
    if not colon:
        return 0, lambda _: theirs
    if name in header and zone_named(unit):
        return header.index[name], None
    factor = UNITS.get(unit) or float(unit)
    if name in header:
        return header.index[name], partial(_times, factor)
    return 0, lambda _: _times(factor, name)
