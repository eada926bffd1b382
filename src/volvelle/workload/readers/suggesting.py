"""Options with which a table may be read: ``--map`` by its columns' names, ``--dates`` by its times."""

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from volvelle.model.units import parse_duration
from volvelle.workload.readers.mapping import DATED, TIMES
from volvelle.workload.readers.rows import ABSENT
from volvelle.workload.readers.words import COLUMN_NAMES, joined, words_of
from volvelle.workload.workload import ImportReport

_UNIT_SUFFIXES = {
    "ms": "ms", "millis": "ms", "min": "min", "mins": "min", "minutes": "min", "h": "h",
    "hr": "h", "hrs": "h", "hours": "h", "days": "d", "s": "", "sec": "", "secs": "", "seconds": "",
    "milli": "milli", "minuten": "min", "minutos": "min", "stunden": "h", "std": "h", "heures": "h",
    "horas": "h", "tage": "d", "jours": "d", "dias": "d", "sekunden": "", "secondes": "", "segundos": "",
}  # fmt: skip

UNIT_WORDS = {
    "ms": "milliseconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
    "milli": "thousandths",
}
"""Units of names, in words."""

_HOURS_MINUTES = re.compile(
    r"\b(?:hh?|hrs?|hours?|std|stunden):(?:mm?|mins?|minutes?|minuten)\b(?!:)", re.IGNORECASE
)
_NEAR, _SURE = 0.75, 0.9  # likeness from which a name is taken, and from which another fits too
_DATE = re.compile(
    r"\b(?P<first>\d{1,2})(?P<mark>[/.-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})"
    r"(?:(?P<gap>[ T])(?P<hour>\d{1,2}):\d\d(?P<seconds>:\d\d)?(?P<half> ?[AaPp][Mm])?)?\b"
)
_WORDY = re.compile(
    r"\b(?:(?P<year>\d{4})/\d{1,2}/\d{1,2}|\d{1,2}(?P<gap>[ -])(?P<month>[A-Z][a-z]{2,8})(?P=gap)\d{4}|"
    r"(?P<first>[A-Z][a-z]{2,8}) \d{1,2}(?P<comma>,?) \d{4})"
    r"(?:(?P<apart>,? |T)\d{1,2}:\d\d(?P<seconds>:\d\d)?(?P<half> ?[AaPp][Mm])?)?\b"
)
"""Dates with the year first, or the name of a month."""
_MONTHS, _DAYS = 12, 31
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}\b")
_OF_DAY = re.compile(r"'\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?'")
_TYPED = re.compile(
    r"(?P<count>\d+)(?: *[x×*] *| +)(?P<name>[A-Za-z][\w .-]*)|"
    r"(?P<first>[A-Za-z][\w .-]*?) *[:x×*] *(?P<last>\d+)"
)
_MODEL = re.compile(
    r"\b(?:A10G?|A[136]0|A40|[AV]100|A800|H20|[HB][12]00|H800|G[BH]200|K80|L4|L40S?|P4|P40|P100|T4|"
    r"[RG]TX ?\d+|MI\d{3}X?)\b",
    re.IGNORECASE,
)
"""A model of GPUs."""
_GPU = frozenset(("gpu", "gpus", "accelerator", "accelerators"))
_COUNTING = _GPU | {
    "req", "reqs", "request", "requests", "requested", "num", "number", "n", "no", "of", "count", "total",
    "tot", "alloc", "allocated", "asked", "needed", "wanted", "reserved", "used",
}  # fmt: skip
"""Words of a column that counts GPUs."""
_WAITS = frozenset(("wait", "waited", "waiting"))
_ENDS = frozenset(COLUMN_NAMES["end_time"])
_LARGE, _UNREADABLE = "impossibly large ", "unreadable "


def suggested_names(cells: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Our columns and names that ``cells``, by name, has for them; ``?`` where no name is near.

    A column of GPUs in whose cells count and type stand together, as in ``2x A100``, is the number of GPUs.
    The only column of dates that has no name of ours is the submission; without any, the start stands for it.
    """
    found = _paired({name: cells[name] for name in cells if not _names_types(name, cells[name])})
    others = [name for name in cells if name not in found.values() and not _ends(name)]
    dated = [name for name in others if _has_dates(cells[name])]
    for name in cells:
        filled = [cell for cell in cells[name] if cell.strip()]
        of_types = _names_types(name, filled) or all(map(_MODEL.search, filled))
        if filled and of_types and name not in found.values():
            found.setdefault("gpu_type", name)
    if not {"start_time", "end_time"} <= found.keys():
        found.pop("end_time", None)
        if "duration" not in found:
            found.pop("start_time", None)
        found.setdefault("duration", "?")
    elif not _has_lengths(cells.get(found.get("duration", ""), ())):
        found.pop("duration", None)  # start and end say it
    if "gpus" not in found:
        of_gpus = [
            name
            for name in cells
            if _GPU & {*words_of(name)} and not _names_types(name, cells[name])
        ]
        of_both = [name for name in of_gpus if any(map(count_and_type, cells[name]))]
        of_both += [name for name in cells if _counts_models(cells[name])]
        of_gpus = [name for name in of_gpus if name != found.get("gpu_type")]
        counts = [name for name in of_gpus if _COUNTING.issuperset(words_of(name))]
        gpus = of_both[0] if of_both else counts[0] if len(counts) == 1 else "?"
        found = {ours: name for ours, name in found.items() if name != gpus or name == "?"}
        found["gpus"] = gpus
    if "submit_time" not in found:
        one = dated[0] if len(dated) == 1 else "?"
        found["submit_time"] = one if dated else found.get("start_time", "?")
    return {ours: found[ours] for ours in COLUMN_NAMES if ours in found}


def unused(cells: Mapping[str, Sequence[str]], ours: Iterable[str]) -> list[str]:
    """Names that neither a suggestion nor the table's reader, which knows ``ours``, makes use of."""
    used = {*suggested_names(cells).values(), *ours}
    return [name for name in cells if name not in used]


def written_map(found: Mapping[str, str]) -> str:
    """The ``--map`` line of names, with the units in them; names that are ours already are left out."""
    parts = []
    for ours, name in found.items():
        if name and name != ours:
            unit = "" if ours in TIMES and _HOURS_MINUTES.search(name) else unit_of(name)
            parts.append(f"{ours}={name}" + (f":{unit}" if unit else ""))
    line = ",".join(parts)
    if not line:
        return ""
    return "--map " + (line if "?" in line and " " not in line else shlex.quote(line))


def count_and_type(cell: str) -> tuple[str, str] | None:
    """The type, "" for any, and the count of a cell that has both; None for other cells."""
    if (found := _TYPED.fullmatch(cell.strip())) is None:
        return None
    name = found["name"] or found["first"]
    return "" if name.lower() in ("gpu", "gpus") else name, found["count"] or found["last"]


def rivals(cells: Mapping[str, Sequence[str]]) -> str:
    """A hint where several columns fit a required one of ours; empty where none does."""
    found = _paired(cells)
    others = {
        ours: [
            name
            for name, column in cells.items()
            if name not in found.values() and _likeness(name, ours, column) >= _SURE
        ]
        for ours in found
    }
    said = [
        f"{ours} may also be {' or '.join(fitting)}" for ours, fitting in others.items() if fitting
    ]
    return f" ({'; '.join(said)})" if said else ""


def _paired(cells: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Our columns and the names nearest to them, the surest pair first, each name once."""
    pairs = sorted(
        (
            (_likeness(name, ours, column), -place, ours, name)
            for place, ours in enumerate(COLUMN_NAMES)
            for name, column in cells.items()
        ),
        reverse=True,
    )
    found: dict[str, str] = {}
    for score, _, ours, name in pairs:
        if score >= _NEAR and ours not in found and name not in found.values():
            found[ours] = name
    return found


def _names_types(name: str, cells: Sequence[str]) -> bool:
    """Whether a column of GPUs has names like ``A100`` in its cells, and no counts."""
    filled = [cell for cell in map(str.strip, cells) if cell]
    of_gpus = _GPU & {*words_of(name)} and _likeness(name, "gpus") >= _NEAR
    return bool(filled and of_gpus) and not any(
        _is_count(cell) or count_and_type(cell) for cell in filled
    )


def _is_count(cell: str) -> bool:
    return cell.strip().replace(".", "", 1).isdecimal()


def _counts_models(cells: Sequence[str]) -> bool:
    """Whether all cells are like ``2x A100``, whatever the name of their column."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and all(count_and_type(cell) and _MODEL.search(cell) for cell in filled)


def _has_dates(cells: Sequence[str]) -> bool:
    """Whether all cells that are filled have a date."""
    filled = [cell for cell in cells if cell.strip()]
    forms = (_DATE, _WORDY, _ISO)
    return bool(filled) and all(any(form.match(cell) for form in forms) for cell in filled)


def _has_lengths(cells: Sequence[str]) -> bool:
    """Whether all cells that are filled are lengths of time."""
    try:
        for cell in cells:
            if cell.strip().lower() not in ABSENT:
                parse_duration(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _ends(name: str) -> bool:
    """Whether a name is that of an end: no submission, whatever its cells are."""
    return not _ENDS.isdisjoint(words_of(name))


def _likeness(name: str, ours: str, cells: Sequence[str] = ()) -> float:
    """From 0 to 1, a unit that ``ours`` may have left aside; earlier synonyms win where two are as near.

    A column whose ``cells`` are numbers is no type of GPUs.
    """
    if ours == "gpu_type" and any(map(_is_count, cells)):
        return 0.0
    if ours in TIMES and _WAITS & {*words_of(name)}:
        return 0.0  # Queue Wait is no moment
    if ours == "submit_time" and _ends(name):
        return 0.0
    plain = _plain(name, ours)
    return max(
        difflib.SequenceMatcher(None, plain, known).ratio() - 1e-3 * place
        for place, known in enumerate(COLUMN_NAMES[ours])
    )


def _plain(name: str, ours: str) -> str:
    words = words_of(name)
    if (
        len(words) > 1
        and words[-1] in _UNIT_SUFFIXES
        and (words[-1] == "milli") == (ours == "gpus")
    ):
        words.pop()  # GPU Hours are no GPUs
    return joined(words) or "_".join(words) or name


def unit_of(name: str) -> str:
    """The unit in which a column of this name counts time, as in `UNITS`; "" for seconds and none.

    Hours where the name ends in ``(h:mm)`` or alike.
    """
    if _HOURS_MINUTES.search(name):
        return "h"
    words = words_of(name)
    alone = len(words) == 1 and len(words[0]) < 4  # h or s alone is a name, not a unit
    return "" if not words or alone else _UNIT_SUFFIXES.get(words[-1], "")


def line_hint(found: Mapping[str, str]) -> str:
    """A hint behind a suggested line in which the number of GPUs is open, or the start is the submission."""
    said = []
    if found["gpus"] == "?":
        said.append("gpus may be a number, gpus=1, or so many on each node, gpus=NODES:8")
    if found["submit_time"] == found.get("start_time"):
        said.append("the start stands for the submission, which no column is")
    return f" ({'; '.join(said)})" if said else ""


def suggested_dates(texts: Iterable[str]) -> str:
    """A ``--dates`` option for times like 11/24/2026 14:05 in ``texts``; empty where none is among them.

    Points between the numbers mean the day first; else the order of most dates with a number above 12 counts,
    and where none has one the month comes first.
    """
    texts = list(texts)
    found = [match for text in texts for match in _DATE.finditer(text) if _in_some_order(match)]
    if not found:
        wordy = next(filter(None, map(_WORDY.search, texts)), None)
        return "" if wordy is None else f"--dates {shlex.quote(_wordy_form(wordy))}"
    one = found[0]
    mark, half = one["mark"], one["half"] or ""
    first, second = (sum(int(match[at]) > _MONTHS for match in found) for at in ("first", "second"))
    day_first = mark == "." or first > second
    parts = ["%d", "%m"] if day_first else ["%m", "%d"]
    form = mark.join([*parts, "%Y" if len(one["year"]) == 4 else "%y"])
    if one["hour"]:
        form += f"{one['gap']}{'%I' if half else '%H'}:%M" + (":%S" if one["seconds"] else "")
        form += half[:-2] + ("%p" if half else "")
    sure = day_first or second > first
    other = "" if sure else ", or with %d before %m where the day comes first"
    return f"--dates {shlex.quote(form)}{other}"


def _in_some_order(date: re.Match[str]) -> bool:
    """Whether a date that `_DATE` found has a day and a month, whichever comes first."""
    smaller, larger = sorted((int(date["first"]), int(date["second"])))
    return 1 <= smaller <= _MONTHS and larger <= _DAYS


def _wordy_form(date: re.Match[str]) -> str:
    """The form of a date that `_WORDY` found."""
    if date["year"]:
        form = "%Y/%m/%d"
    else:
        name = "%b" if len(date["month"] or date["first"]) == 3 else "%B"
        gap = date["gap"]
        form = f"%d{gap}{name}{gap}%Y" if gap else f"{name} %d{date['comma']} %Y"
    if not date["apart"]:
        return form
    half = date["half"] or ""
    clock = f"{'%I' if half else '%H'}:%M{':%S' if date['seconds'] else ''}"
    return f"{form}{date['apart']}{clock}" + (f"{half[:-2]}%p" if half else "")


def import_hint(report: ImportReport) -> str:
    """An option with which more rows of a table may be read, as a sentence; empty where none is known."""
    column = next((r.removeprefix(_LARGE) for r in report.dropped if r.startswith(_LARGE)), "")
    if column:  # most often it is in milliseconds, and so are other times
        mapped = dict(report.columns)
        for ours in {column, *(mapped.keys() & TIMES if column in TIMES else ())}:
            mapped[ours] = f"{mapped.get(ours, ours).partition(':')[0]}:ms"
        written = ",".join(f"{ours}={theirs}" for ours, theirs in mapped.items())
        return f"if it is in milliseconds, say so: --map {shlex.quote(written)}"
    unread = [_UNREADABLE + one for one in DATED]
    times = [place for reason in unread for place in report.examples.get(reason, ())]
    dates = suggested_dates(times)
    few = sum(report.dropped[reason] for reason in unread) < report.kept
    if not times or (few and (report.dates or not dates)):
        return ""  # a few are mistakes, not another form
    if all(map(_OF_DAY.search, times)):
        return "put the date and the time of day into one column"
    dates = dates or "--dates FORMAT, as in --dates '%b %d %Y %I:%M%p'"
    return f"say how {'these' if few else 'its'} times are written: {dates}"
