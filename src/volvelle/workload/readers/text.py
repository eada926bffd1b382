"""Text files as traces come: plain or gzip, UTF-8 or Windows-1252, with rows that are sometimes damaged.

Lines and rows are read in blocks; of a file nothing else is held.
"""

import csv
import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from volvelle.model.problems import Problem, nearest
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import ColumnNames, Row

SAMPLE_BYTES = 65536
BLOCK_LINES = 128
"""Lines read at once: few enough for a processor's caches, enough to make little of each block."""

_TOP_LINES = 50
_NOT_UTF8 = "not UTF-8: read as Windows-1252"
DELIMITERS = ",;\t|"


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """The bytes of ``path``, unpacked where it is gzip. Raises `Problem` where it cannot."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield raw
    except FileNotFoundError:
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        siblings = [one.name for one in beside if get_close_matches(path.stem, [one.stem])]
        raise Problem(
            f"there is no file {path}{nearest(path.name, siblings)}", mend="check the path"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Problem(
            f"{path.name} is damaged: it cannot be unpacked to its end ({error})",
            mend="fetch it again, or unpack what is there with gzip -dc and read that",
        ) from None
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror or error}") from None


def text_lines(path: Path, ledger: Ledger) -> Iterator[str]:
    """The lines of ``path`` with their ends; those that are not UTF-8 are counted."""
    for lines in _line_blocks(path, ledger):
        yield from lines


def _line_blocks(path: Path, ledger: Ledger) -> Iterator[list[str]]:
    with open_binary(path) as stream:
        text: TextIO = io.TextIOWrapper(
            stream, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        first = 1
        while block := list(islice(text, BLOCK_LINES)):
            if not "".join(block).isascii():
                yield from _cleaned_blocks(block, first, ledger)
            else:
                yield block
            first += len(block)


def _cleaned_blocks(block: list[str], first: int, ledger: Ledger) -> Iterator[list[str]]:
    """The block, all of it UTF-8; lines before one that is reported come first."""
    lines: list[str] = []
    for number, line in enumerate(block, first):
        cleaned = line
        if not line.isascii():
            cleaned = _decoded(line.encode("utf-8", "surrogateescape"))
        if cleaned != line:
            if lines and ledger.would_tell(_NOT_UTF8):
                yield lines
                lines = []
            ledger.mended(Broken(_NOT_UTF8, value=cleaned.strip()), number)
        lines.append(cleaned)
    yield lines


def _decoded(text: bytes) -> str:
    """The text of a line: UTF-8, or else as spreadsheets write it."""
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace")


@dataclass(frozen=True)
class Sample:
    """The beginning of a trace, by which its format is guessed."""

    path: Path
    head: bytes
    lines: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, path: Path) -> "Sample":
        """Read the beginning of ``path``. Raises `Problem` where it is missing or empty."""
        with open_binary(path) as stream:
            head = stream.read(SAMPLE_BYTES)
        if not head.strip():
            raise Problem(
                f"{path.name} is empty", mend="give a table with a header and a row for each job"
            )
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise Problem(
                f"{path.name} is UTF-16", mend="save it as UTF-8: iconv -f utf-16 -t utf-8"
            )
        if head.startswith(b"version https://git-lfs"):
            raise Problem(
                f"{path.name} is a Git LFS pointer, not the trace itself", mend="run git lfs pull"
            )
        whole = head if len(head) < SAMPLE_BYTES else head[: head.rfind(b"\n") + 1] or head
        lines = _decoded(whole).splitlines()
        return cls(path, head, tuple(line for line in lines if line.strip()))

    @property
    def delimiter(self) -> str:
        """The character that most often separates the cells of the first line."""
        first = self.lines[0]
        return max(DELIMITERS, key=first.count)

    @property
    def names(self) -> tuple[str, ...]:
        """The cells of the first line, as they stand."""
        cells = next(csv.reader([self.lines[0]], delimiter=self.delimiter), [])
        return tuple(cell.strip() for cell in cells)

    @property
    def cells(self) -> dict[str, list[str]]:
        """The cells of the lines after the first, by the names in that."""
        rows = list(csv.reader(self.lines[1:], delimiter=self.delimiter))
        names = enumerate(self.names)
        return {name: [row[at] for row in rows if at < len(row)] for at, name in names}

    @property
    def lines_above(self) -> int:
        """Lines with fewer cells than most have, as a title, above one of names that has as many."""
        top = self.lines[:_TOP_LINES]
        delimiter = max(DELIMITERS, key="".join(top).count)
        rows = list(csv.reader(top, delimiter=delimiter))
        counts = [len(row) for row in rows]
        usual = max(counts, key=counts.count)
        first = counts.index(usual)
        named = counts[0] < usual and not any(map(is_number, rows[first]))
        return first if named else 0

    @property
    def header(self) -> frozenset[str]:
        """The cells of the first line in lower case."""
        return frozenset(name.lower() for name in self.names)

    @property
    def binary(self) -> bool:
        """Whether this is no text at all."""
        return b"\0" in self.head


def csv_rows(
    path: Path,
    ledger: Ledger,
    *,
    required: Sequence[str] = (),
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    quoted: bool = True,
    counted: bool = True,
) -> Iterator[Row]:
    """The rows of a delimited file as `Row`; ``names`` heads a file whose first line is data.

    A row with too few or too many cells is broken. A quote that is never closed swallows the lines
    after it: only its own line is given up, the others are read again one by one.
    """
    ledger.file = path.name
    header = ColumnNames(names, path.name) if names is not None else None
    for line, cells in chain.from_iterable(_blocks(path, ledger, delimiter, quoted)):
        if header is None:
            header = _header(cells, path, required)
            continue
        if counted:
            ledger.row()
        if len(cells) == header.width:
            yield Row(header, cells, line)
        else:
            ledger.broken(_of_another_width(cells, header, delimiter), line)


def csv_columns(
    path: Path,
    ledger: Ledger,
    *,
    required: Sequence[str] = (),
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[Columns]:
    """The rows of a delimited file as columns, a hundred or so at a time; otherwise as `csv_rows`."""
    ledger.file = path.name
    header: ColumnNames | None = None
    for block in _blocks(path, ledger, delimiter, quoted):
        if header is None:
            header = _header(block.pop(0)[1], path, required)
        ledger.row(len(block))
        rows = [(line, cells) for line, cells in block if len(cells) == header.width]
        columns = Columns.of_rows(header, rows)
        if len(rows) < len(block):
            for line, cells in block:
                if len(cells) != header.width:
                    columns.wrong[line] = _of_another_width(cells, header, delimiter)
        yield columns


def _header(cells: list[str], path: Path, required: Sequence[str]) -> ColumnNames:
    header = ColumnNames([cell.strip() for cell in cells], path.name)
    header.require(required)
    return header


def _of_another_width(cells: list[str], header: ColumnNames, delimiter: str) -> Broken:
    kind = "too few cells" if len(cells) < header.width else "too many cells"
    return Broken(kind, value=delimiter.join(cells))


_Block = list[tuple[int, list[str]]]
"""Rows that are not blank: line numbers and cells."""


def _blocks(path: Path, ledger: Ledger, delimiter: str, quoted: bool) -> Iterator[_Block]:
    """All rows, those of `BLOCK_LINES` lines at a time."""
    blocks = _line_blocks(path, ledger)
    first, width = 1, 0
    for lines in blocks:
        try:
            if quoted and '"' in "".join(lines):
                raise csv.Error
            rows = list(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))
        except csv.Error:  # cells that may hold lines or are too long: from here on row by row
            yield from _row_by_row(chain([lines], blocks), first, width, delimiter, quoted)
            return
        block = [(line, cells) for line, cells in enumerate(rows, first) if _has_text(cells)]
        if block:
            width = width or len(block[0][1])
            yield block
        first += len(lines)


def _has_text(cells: list[str]) -> bool:
    return len(cells) > 1 or (len(cells) == 1 and bool(cells[0].strip()))


def _row_by_row(
    blocks: Iterable[list[str]], first: int, width: int, delimiter: str, quoted: bool
) -> Iterator[_Block]:
    """Rows that may go over several lines; ``width`` cells are expected, or as many as come first."""
    waiting: deque[str] = deque()
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for block in blocks:
            waiting.extend(block)
            while waiting:
                taken.append(waiting.popleft())
                yield taken[-1]

    reader = (
        csv.reader(noted(), delimiter=delimiter)
        if quoted
        else csv.reader(noted(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    )
    line, rows = first, list[tuple[int, list[str]]]()
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            cells = ["a cell that is too long"]
        width = width or len(cells)
        if len(taken) > 1 and (len(cells) != width or _quote_left_open(taken)):
            rows += _one_by_one(taken, line, delimiter)
        elif _has_text(cells):
            rows.append((line, cells))
        line += len(taken)
        taken.clear()
        if rows and not waiting:
            yield rows
            rows = []
    if rows:
        yield rows


def _quote_left_open(lines: list[str]) -> bool:
    return sum(line.count('"') for line in lines) % 2 == 1


def _one_by_one(lines: list[str], first: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, first):
        if line.strip():
            yield number, next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))


def is_number(text: str) -> bool:
    """Whether ``text`` is a number as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
