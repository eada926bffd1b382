"""What is said when the input is wrong: the thing, the place and the mend.

`Problem` is the only exception a person is meant to read; the command line prints it without a
traceback and exits with status 1 (2 where the command itself was misused).
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError


class Problem(Exception):  # noqa: N818 - it is what its name says, in the user's words
    """An error in what the user gave, with how to mend it. ``usage`` marks a misused command."""

    def __init__(self, message: str, *, mend: str = "", usage: bool = False) -> None:
        super().__init__(message)
        self.mend = mend
        self.usage = usage

    def __str__(self) -> str:
        """The message, then the mend."""
        message = str(self.args[0])
        return f"{message}. {self.mend[0].upper()}{self.mend[1:]}." if self.mend else f"{message}."


def nearest(word: str, known: Iterable[str]) -> str:
    """``" (did you mean 'tiresias'?)"`` for the known name nearest to ``word``, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def describe_validation(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing wrong in ``error``, in one line, with the nearest known key."""
    return describe_error(telling(error.errors(include_url=False)), known_keys(model))


def telling(errors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one of pydantic's errors to tell: an unknown key is often why another is missing."""
    return next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])


def describe_error(first: Mapping[str, Any], known: Iterable[str]) -> str:
    """One of pydantic's errors in one line, with the nearest of the ``known`` keys."""
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {where!r}{nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        return f"key {where!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    if not where:  # a check that spans several keys speaks for itself
        return str(message)
    return f"key {where!r} is {first.get('input')!r}: {message[0].lower()}{message[1:]}"


def known_keys(model: type[BaseModel]) -> set[str]:
    """The field names of a model and of the models inside it."""
    names: set[str] = set()
    pending: list[Any] = [model]
    seen: set[Any] = set()
    while pending:
        kind = pending.pop()
        if kind in seen:
            continue
        seen.add(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names.update(kind.model_fields)
            pending.extend(field.annotation for field in kind.model_fields.values())
        else:
            pending.extend(getattr(kind, "__args__", ()))
    return names
