"""The message for a wrong input: the thing, the place and the mend.

`Problem` is the only exception a person is meant to read; the command line prints it without a
traceback and exits with status 1 (2 where the command itself was misused).
"""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class Problem(Exception):  # noqa: N818 - it is what its name says, in the user's words
    """An error in what the user gave, with how to mend it. ``usage`` marks a misused command.

    options: all that the command lacks, to be pasted behind it; empty where that is not known.
    """

    def __init__(
        self, message: str, *, mend: str = "", usage: bool = False, options: str = ""
    ) -> None:
        super().__init__(message)
        self.mend = mend
        self.options = options
        self.usage = usage

    def __str__(self) -> str:
        """The message, then the mend."""
        message = str(self.args[0])
        return f"{message}. {self.mend[0].upper()}{self.mend[1:]}." if self.mend else f"{message}."


def together(problems: Sequence[Problem]) -> Problem:
    """Several problems as one, their mends behind them."""
    if len(problems) == 1:
        return problems[0]
    mends = dict.fromkeys(each.mend for each in problems if each.mend)
    lacking = [each.options for each in problems]
    return Problem(
        "; ".join(str(each.args[0]) for each in problems),
        mend=". ".join(mend[0].upper() + mend[1:] for mend in mends),
        usage=any(each.usage for each in problems),
        options=" ".join(lacking) if all(lacking) else "",
    )


_ALSO_CALLED = {
    "k8s": ("kubernetes", "kueue"),
    "fcfs": ("fifo",),
    "backfill": ("easy",),
    "fair": ("max-min",),
    "fair-share": ("max-min",),
    "completion-time": ("jct",),
    "waiting": ("responsiveness",),
    "wait-time": ("responsiveness",),
}
"""Names by which things are looked for, in lower case, and our own."""


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """``" (did you mean 'tiresias'?)"`` for the known name nearest to ``word``, or nothing like it.

    Case does not count, nor whether ``-`` or ``_`` joins words.
    """
    names = {_folded(name): name for name in known}
    meant = _folded(word)
    close = [name for name in _ALSO_CALLED.get(meant, ()) if name in names]
    same = [name for name in names if name == meant]
    longer = [
        name for name in names if names[name].lower().startswith(f"{meant}-")
    ]  # a100-80gb is an a100
    close = close or same or longer or difflib.get_close_matches(meant, names, n=3, cutoff=likeness)
    close.sort(
        key=lambda name: sorted(name) != sorted(meant)
    )  # letters that changed places come first
    return f" (did you mean {names[close[0]]!r}?)" if close else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")


def cannot_write(path: Path, error: OSError) -> Problem:
    """The problem of a file that cannot be written."""
    return Problem(
        f"cannot write {path}: {error.strerror or error}",
        mend="free some space or choose another folder with --out",
    )
