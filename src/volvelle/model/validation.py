"""Fields that pydantic reads, and its errors in our words.

Apart from `volvelle.model.units` and `volvelle.model.problems`: commands that ask a server do without
pydantic, and are quicker so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError

from volvelle.durations import parse_duration
from volvelle.model.problems import nearest

Seconds = Annotated[float, BeforeValidator(parse_duration)]
"""A field for durations: accepts what `parse_duration` does, holds seconds."""

_LONGEST = 120
"""Characters of a wrong value that a message shows, before it says what is wrong."""

_WORDS = {
    "Input should be": "it has to be",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table",
    "a valid list": "a list",
}
"""Words of pydantic's messages, and ours."""

UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""How pydantic calls a key that a model, or a dataclass, does not have."""


def describe_validation(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing wrong in ``error``, in one line, with the nearest known key."""
    return describe_error(telling(error.errors(include_url=False)), known_keys(model))


def telling(errors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one of pydantic's errors to tell: an unknown key is often why another is missing."""
    return next((one for one in errors if one["type"] in UNKNOWN), errors[0])


def describe_error(first: Mapping[str, Any], known: Iterable[str]) -> str:
    """One of pydantic's errors in one line, with the nearest of the ``known`` keys."""
    where = _place(first["loc"])
    if first["type"] in UNKNOWN:
        word = str(first["loc"][-1])  # which may be a key elsewhere in the file
        return f"unknown key {where!r}{nearest(word, (key for key in known if key != word))}"
    if first["type"] == "missing":
        return f"key {where!r} is missing"
    message = in_our_words(first["msg"])
    if not where:  # a check that spans several keys speaks for itself
        return message
    given = repr(first.get("input"))
    if len(given) > _LONGEST:
        given = f"{given[:_LONGEST]}..."
    meant = ""
    if first["type"] in ("enum", "literal_error"):
        meant = nearest(str(first.get("input")), re.findall(r"'([^']*)'", first["ctx"]["expected"]))
    return f"key {where!r} is {given}: {message[0].lower()}{message[1:]}{meant}"


def _place(parts: Iterable[str | int]) -> str:
    """A place in a document as in ``nodes[0].gpus``."""
    said = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return said.removeprefix(".")


def in_our_words(message: str) -> str:
    """A message of pydantic's."""
    message = message.removeprefix("Value error, ")
    if message.startswith("Input should be"):
        message = re.split(", unable to parse|, got a number| or (?:instance|object)", message)[0]
        for theirs, ours in _WORDS.items():
            message = message.replace(theirs, ours)
    return message


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
