"""Slurm's notations: records of ``Key=Value``, tables with bars, times, node lists, resources.

Records are read by known keys: between two of these a value may hold blanks and equal signs, as names of
jobs and command lines do. A key that a later version adds is skipped.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

_KEY = re.compile(r"(?:(?<=\s)|^)([A-Z][A-Za-z_:/]*(?:\[\d+\])?)=")
_FREE = frozenset(
    {"JobName", "Comment", "AdminComment", "SystemComment", "Command", "WorkDir", "SubmitLine"}
    | {"StdErr", "StdIn", "StdOut", "Extra", "Reason", "OS", "Container"}
)
"""Keys whose value a person wrote: blanks and equal signs may be part of it."""
_AFTER_FREE = frozenset(
    {
        "UserId",
        "GroupId",
        "SubmitLine",
        "WorkDir",
        "StdErr",
        "StdIn",
        "StdOut",
        "Power",
        "Dependency",
    }
    | {"AdminComment", "SystemComment", "Comment", "TresPerNode", "TresPerJob", "TresPerTask"}
    | {
        "TresPerSocket",
        "CpusPerTres",
        "MemPerTres",
        "TresBind",
        "RealMemory",
        "Extra",
        "NtasksPerTRES",
    }
    | {"TresFreq", "MailUser", "MailType", "Container", "ContainerID", "KillOInInvalidDependent"}
)
"""Keys that end such a value."""
ABSENT = frozenset(("", "(null)", "N/A", "None", "NONE", "n/a", "Unknown", "UNKNOWN"))
_UNLIMITED = frozenset(("UNLIMITED", "INFINITE", "Partition_Limit", "INVALID", "PARTITION_LIMIT"))
_UNITS = {"K": 1.0 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def record(line: str) -> dict[str, str]:
    """The values of one line of ``scontrol -o show``, by key; of a key that is there twice, the first."""
    found: dict[str, str] = {}
    key, begin, free = "", 0, False
    for match in _KEY.finditer(line):
        name = match[1]
        if free and name not in _AFTER_FREE:
            continue
        if key:
            found.setdefault(key, line[begin : match.start()].strip())
        key, begin, free = name, match.end(), name in _FREE
    if key:
        found.setdefault(key, line[begin:].strip())
    return found


def records(text: str, first: str) -> Iterator[dict[str, str]]:
    """Records of lines that begin with the key ``first``."""
    begins = f"{first}="
    return (record(line) for line in text.splitlines() if line.startswith(begins))


def table(text: str) -> Iterator[dict[str, str]]:
    """Rows of a table with bars (``-P``), by the names in its first line."""
    lines = (line for line in text.splitlines() if "|" in line)
    header = next(lines, "").split("|")
    for line in lines:
        yield dict(zip(header, (cell.strip() for cell in line.split("|")), strict=False))


def present(value: str | None) -> str:
    """The value, or nothing where Slurm writes that there is none."""
    return "" if value is None or value in ABSENT else value


@lru_cache(100_000)
def moment(text: str | None) -> float | None:
    """Seconds since 1970 of ``2026-11-23T16:55:52`` (UTC), or ``None`` where there is no time."""
    if not present(text) or text is None or not text[0].isdigit():
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def written(seconds: float) -> str:
    """A moment as Slurm writes it (UTC)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(10_000)
def duration(text: str | None) -> float | None:
    """Seconds of ``1-02:03:04``, ``02:03:04``, ``3:04`` or of a number of minutes; ``None`` without limit."""
    if not present(text) or text is None or text in _UNLIMITED:
        return None
    days, dash, rest = text.rpartition("-")
    try:
        parts = [float(part) for part in rest.split(":")]
        whole = float(days) * 86400 if dash else 0.0
    except ValueError:
        return None
    if dash or len(parts) == 3:
        scales: tuple[float, ...] = (3600.0, 60.0, 1.0)
    else:
        scales = (60.0, 1.0)
    return whole + sum(part * scale for part, scale in zip(parts, scales, strict=False))


def whole(text: str | None) -> int | None:
    """A whole number, also as ``N(13)`` or ``10(4)`` (limit and what is used); ``None`` for none."""
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else None


def number(text: str | None, default: float = 0.0) -> float:
    """The number at the beginning, or ``default``."""
    found = re.match(r"-?\d+(?:\.\d+)?", text or "")
    return float(found[0]) if found else default


def memory(text: str | None) -> float | None:
    """MB of ``8000M``, ``1.50G`` or a plain number."""
    found = re.match(r"(\d+(?:\.\d+)?)([KMGTP]?)", text or "")
    return float(found[1]) * _UNITS[found[2] or "M"] if found else None


@lru_cache(100_000)
def tres(text: str | None) -> Mapping[str, float]:
    """Amounts of ``cpu=8,mem=8000M,gres/gpu:a100=1``; of ``gres/gpu=10(4)`` the limit, of ``N(4)`` none.

    GPUs as jobs ask for them, ``gres/gpu:a100:1`` and ``gres:gpu:1``, are read as well.
    """
    found: dict[str, float] = {}
    for entry in filter(None, present(text).split(",")):
        name, equals, amount = entry.partition("=")
        if not equals:
            name, amount = _gres(entry)
        if name == "mem":
            value = memory(amount)
        else:
            value = float(match[0]) if (match := re.match(r"\d+(?:\.\d+)?", amount)) else None
        if value is not None:
            found[name] = found.get(name, 0.0) + value
    return found


def _gres(entry: str) -> tuple[str, str]:
    """Name and amount of ``gres/gpu:a100:1``, ``gres:gpu:2``, ``gpu:1`` or ``gpu``."""
    name, *rest = (
        re.sub(r"\([^)]*\)", "", entry).removeprefix("gres/").removeprefix("gres:").split(":")
    )
    amount = rest.pop() if rest and rest[-1].isdecimal() else "1"
    return ":".join((f"gres/{name}", *rest)), amount


def counted(text: str | None) -> Mapping[str, float]:
    """Licences of ``sim:3,mat:2`` or ``sim@server:1``; without a number one."""
    parts = (entry.rpartition(":") for entry in filter(None, present(text).split(",")))
    return {(name or amount): number(amount, 1.0) if name else 1.0 for name, _, amount in parts}


@lru_cache(20_000)
def hosts(text: str | None) -> tuple[str, ...]:
    """Names of ``a[1-3,07],h1,r[1-2]n[1-4]``."""
    found: list[str] = []
    for entry in _entries(present(text)):
        found += _expanded(entry)
    return tuple(found)


def _entries(text: str) -> Iterator[str]:
    """The parts between commas outside of brackets."""
    return (entry for entry in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text) if entry)


def _expanded(entry: str) -> list[str]:
    head, bracket, rest = entry.partition("[")
    if not bracket:
        return [entry]
    inner, _, tail = rest.partition("]")
    tails = _expanded(tail) if tail else [""]
    names: list[str] = []
    for part in inner.split(","):
        low, dash, high = part.partition("-")
        if not dash:
            names.append(head + low)
        elif low.isdecimal() and high.isdecimal():
            names += [f"{head}{at:0{len(low)}d}" for at in range(int(low), int(high) + 1)]
    return [name + tail for name in names for tail in tails]


def words(text: str | None) -> frozenset[str]:
    """The words of a list with commas."""
    return frozenset(word.strip() for word in present(text).split(",") if word.strip())


def tasks(text: str) -> tuple[int, ...]:
    """Numbers of ``0-7:2,9%3``; an ellipsis, where Slurm cut the list, ends it."""
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        bounds, _, step = part.partition(":")
        low, _, high = bounds.partition("-")
        if low.isdecimal() and (high or low).isdecimal():
            found += range(int(low), int(high or low) + 1, int(step or 1))
    return tuple(found)
