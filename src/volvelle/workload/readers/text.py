"""Text files as traces come: plain or gzip, mostly UTF-8, with rows that are sometimes damaged.

Lines and rows are streamed; nothing of a file is held but the row in hand.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from volvelle.model.problems import Problem, nearest
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import Header, Row

SAMPLE_BYTES = 65536
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
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
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
    """The lines of ``path`` with their ends; bytes that are not UTF-8 are replaced and counted."""
    with open_binary(path) as stream:
        text: TextIO = io.TextIOWrapper(
            stream, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        for number, line in enumerate(text, 1):
            yield line if line.isascii() else _cleaned(line, number, ledger)


def _cleaned(line: str, number: int, ledger: Ledger) -> str:
    raw = line.encode("utf-8", "surrogateescape")
    cleaned = raw.decode("utf-8", "replace")
    if cleaned != line:
        ledger.mended(Broken("not UTF-8: characters replaced", value=cleaned.strip()), number)
    return cleaned


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
            raise Problem(f"{path.name} is empty")
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise Problem(
                f"{path.name} is UTF-16", mend="save it as UTF-8: iconv -f utf-16 -t utf-8"
            )
        if head.startswith(b"version https://git-lfs"):
            raise Problem(
                f"{path.name} is a Git LFS pointer, not the trace itself", mend="run git lfs pull"
            )
        whole = head if len(head) < SAMPLE_BYTES else head[: head.rfind(b"\n") + 1] or head
        lines = whole.decode("utf-8-sig", "replace").splitlines()
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
    header = Header(names, path.name) if names is not None else None
    for line, cells in _cells(path, ledger, delimiter, quoted):
        if header is None:
            header = Header([cell.strip() for cell in cells], path.name)
            header.require(required)
            continue
        if counted:
            ledger.row()
        if len(cells) == header.width:
            yield Row(header, cells, line)
        else:
            kind = "too few cells" if len(cells) < header.width else "too many cells"
            ledger.broken(Broken(kind, value=delimiter.join(cells)), line)


def _cells(
    path: Path, ledger: Ledger, delimiter: str, quoted: bool
) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of the rows that are not blank."""
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in text_lines(path, ledger):
            taken.append(line)
            yield line

    reader = (
        csv.reader(noted(), delimiter=delimiter)
        if quoted
        else csv.reader(noted(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    )
    line, width = 1, 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = ["a cell that is too long"]
        width = width or len(cells)
        if len(taken) > 1 and (len(cells) != width or _quote_left_open(taken)):
            yield from _one_by_one(taken, line, delimiter)
        elif cells and (len(cells) > 1 or cells[0].strip()):
            yield line, cells
        line += len(taken)
        taken.clear()


def _quote_left_open(lines: list[str]) -> bool:
    return sum(line.count('"') for line in lines) % 2 == 1


def _one_by_one(lines: list[str], first: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, first):
        if line.strip():
            yield number, next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))
