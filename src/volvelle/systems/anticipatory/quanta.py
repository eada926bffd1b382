"""Quanta: stretches of time that begin now, each longer than the one before, as they are written."""

from functools import cache
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from volvelle.durations import parse_duration

DEFAULT = "5m/1h/12h"
"""The paper's (anticipatory scheduling, section 5.4)."""


@cache
def read_quanta(text: str) -> tuple[float, ...]:
    """Seconds, ascending. Raises ValueError."""
    found = tuple(parse_duration(part) for part in text.split("/"))
    if found[0] <= 0.0 or any(a >= b for a, b in pairwise(found)):
        raise ValueError(f"{text!r}: each quantum is longer than the one before, as in {DEFAULT}")
    return found


def _checked(text: str) -> str:
    read_quanta(text)
    return text


Quanta = Annotated[str, BeforeValidator(str), AfterValidator(_checked)]
"""Of a part: durations with strokes between them."""
