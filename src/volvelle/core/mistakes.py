"""Mistakes in a user's own part: an error that names the file and line, in place of a traceback."""

import sysconfig
from pathlib import Path
from traceback import extract_tb

import numpy as np

from volvelle.model.problems import Problem, nearest

_NOT_THEIRS = (
    Path(__file__).parents[1],
    Path(np.__file__).parent,
    Path(sysconfig.get_path("stdlib")),
)
"""Folders whose code no part of a user's own is in."""


def mistake_in(part: str, error: Exception, asked: str) -> Problem | None:
    """The `Problem` of a user's own ``part`` that raised ``error`` when it was ``asked``.

    None where the error came from code of ours: it keeps its traceback, and has a note.
    """
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if not any(Path(frame.filename).is_relative_to(folder) for folder in _NOT_THEIRS)
    ]
    if not frames:
        error.add_note(f"({part}: {asked})")
        return None
    place = f"{frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}"
    meant = ""
    if isinstance(error, AttributeError) and error.name:
        meant = nearest(error.name, dir(error.obj))
    return Problem(f"{part} failed in {place}: {type(error).__name__}: {error}{meant}", mend=asked)
