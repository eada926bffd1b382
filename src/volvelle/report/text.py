"""Aligned columns of text for terminals and pipes."""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

_CODES = {"bold": "1", "dim": "2", "italic": "3", "best": "1;32"}


class Styled(NamedTuple):
    """A text, and how it is set off where the terminal can: bold, dim, italic, best or not at all."""

    text: str
    style: str = ""


Cell = Sequence[Styled]
"""The texts of a cell, one under the other."""


def aligned(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    right: Sequence[bool] = (),
    width: int,
    gap: int = 2,
    edge: int = 0,
    colored: bool = False,
    title: str = "",
) -> list[str]:
    """The lines of a table of at most ``width`` characters, where its longest texts are wrapped.

    right: of each column, whether it is set to the right. gap, edge: blanks between columns and
    before the first. colored: styles become escape sequences.
    """
    lines = [[[Styled(head, "bold")] for head in heads], *rows]
    room = width - 2 * edge - gap * (len(heads) - 1)
    widths = _fitted(
        [max(_width(text.text) for row in lines for text in row[at]) for at in range(len(heads))],
        room,
    )
    sides = [*right, *[False] * (len(heads) - len(right))]
    shown: list[str] = []
    if title:
        whole = sum(widths) + gap * (len(heads) - 1) + 2 * edge
        shown.append(_styled(" " * ((whole - _width(title)) // 2) + title, "italic", colored))
    for row in lines:
        wrapped = [list(_wrapped(cell, wide)) for cell, wide in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=Styled("")):
            cells = [
                _padded(part, wide, to_right, colored)
                for part, wide, to_right in zip(parts, widths, sides, strict=True)
            ]
            shown.append((" " * edge + (" " * gap).join(cells)).rstrip())
    return shown


def _fitted(widths: list[int], room: int) -> list[int]:
    """The widths, of which the widest give way until they fit together."""
    widths = list(widths)
    for _ in range(sum(widths) - room):
        widest = widths.index(max(widths))
        widths[widest] = max(1, widths[widest] - 1)
    return widths


def _wrapped(cell: Cell, width: int) -> Iterator[Styled]:
    for text, style in cell:
        if _width(text) <= width:
            yield Styled(text, style)
        else:
            for line in textwrap.wrap(text, width, break_on_hyphens=False):
                yield Styled(line, style)


def _padded(part: Styled, width: int, to_right: bool, colored: bool) -> str:
    blanks = " " * (width - _width(part.text))
    text = _styled(part.text, part.style, colored)
    return blanks + text if to_right else text + blanks


def _styled(text: str, style: str, colored: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colored and style and text else text


def _width(text: str) -> int:
    """The columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)
