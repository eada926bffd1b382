"""Mistakes in a user's own part: an error that names the file and line, in place of a traceback."""

import inspect
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from volvelle.model.problems import Problem, nearest

_NOT_THEIRS = (
    Path(__file__).parents[1],
    Path(np.__file__).parent,
    Path(sysconfig.get_path("stdlib")),
)
"""Folders whose code no part of a user's own is in."""
_OURS = "volvelle."
_KERNEL_PLACE = re.compile(r'(?:File "|Raised from )(.+?)(?:", line | \()(\d+)')
"""A place as Numba writes it, the innermost first."""


def mistake_in(part: str, error: Exception, asked: str) -> Problem | None:
    """The `Problem` of a user's own ``part`` that raised ``error`` when it was ``asked``.

    None where the error came from code of ours: it keeps its traceback, and has a note.
    """
    frames = [
        frame for frame in extract_tb(error.__traceback__) if _is_theirs(Path(frame.filename))
    ]
    if not frames:
        error.add_note(f"({part}: {asked})")
        return None
    place = f"{frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}"
    meant = ""
    if isinstance(error, AttributeError) and error.name:
        known = [name for name in dir(error.obj) if not name.startswith("_")]
        meant = nearest(error.name, known)
        if not meant and type(error.obj).__module__.startswith(_OURS):
            meant = f" (it has {', '.join(known)})"
    return Problem(f"{part} failed in {place}: {type(error).__name__}: {error}{meant}", mend=asked)


def _is_theirs(file: Path, *other: Path) -> bool:
    return not any(file.is_relative_to(folder) for folder in (*_NOT_THEIRS, *other))


def place_in_kernel(error: Exception) -> tuple[str, str]:
    """The place in a user's own kernel that Numba cannot compile, and why not; "" where it is in ours."""
    numba = find_spec("numba")
    other = [Path(numba.origin).parent] if numba and numba.origin else []
    for file, line in _KERNEL_PLACE.findall(str(error)):
        if _is_theirs(path := Path(file).resolve(), *other):
            said = [each.strip(" \n>.") for each in str(error).splitlines()]
            first, *more = [each for each in said if each and not each.startswith("Failed in ")]
            why = f"{first} {more[0]}" if first.endswith(":") else first.partition(". Raised")[0]
            return f"{path}, line {line}", why
    return "", ""


@contextmanager
def mistakes_of(part: str, asked: str) -> Iterator[None]:
    """Code within belongs to a user's own ``part``: its errors are raised as of `mistake_in`."""
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        if mistake := mistake_in(part, error, asked):
            raise mistake from error
        raise


def check_methods(part: str, own: Any) -> None:
    """Raise `Problem` where a user's class lacks a method, or has one that ours cannot call."""
    if own.__module__.startswith(_OURS):
        return  # mypy knows
    if inspect.isabstract(own):
        lacking = sorted(own.__abstractmethods__)
        raise _wrong_method(part, f"lacks {', '.join(lacking)}", own, getattr(own, lacking[0]))
    for name, method in vars(own).items():
        asked = next((vars(base)[name] for base in own.__mro__[1:] if name in vars(base)), None)
        if not (inspect.isfunction(method) and inspect.isfunction(asked)):
            continue
        if not asked.__module__.startswith(_OURS):
            continue  # a method of pydantic's, or of the user's own base
        needed = [
            each
            for each in inspect.signature(asked).parameters.values()
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        named = {each.name: None for each in needed if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(method).bind(*[None] * (len(needed) - len(named)), **named)
        except TypeError:
            written = f"{name}{_parameters(method)}"
            raise _wrong_method(part, f"has {written}", method, asked) from None


def _wrong_method(part: str, wrong: str, code: Any, asked: Any) -> Problem:
    try:
        place = f"{inspect.getsourcefile(code)}, line {inspect.getsourcelines(code)[1]}"
    except (OSError, TypeError):
        place = code.__qualname__  # of a notebook or a prompt
    return Problem(
        f"{part} in {place} {wrong}", mend=f"define {asked.__name__}{_parameters(asked)}"
    )


def _parameters(method: Any) -> str:
    """``(self, job, view)``: without annotations."""
    signature = inspect.signature(method)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
