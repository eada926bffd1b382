"""Amounts and times as Kubernetes writes them."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache

from volvelle.model.problems import Problem

FlavorResource = tuple[str, str]
"""A flavour and a resource."""

Amounts = dict[FlavorResource, int]
"""Amounts in thousandths of the resource's unit."""

Quantity = str | int | float
"""An amount as Kubernetes writes it: ``500m``, ``2``, ``16Gi``, ``1e3``."""

_EXPONENTS = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i)|([numkMGTPE]?))")


@cache
def amount(resource: str, written: Quantity) -> int:
    """Thousandths of a resource's unit, rounded up.

    Raises `Problem` for what is no quantity.
    """
    found = _QUANTITY.fullmatch(str(written))
    if found is None:
        raise Problem(
            f"{str(written)!r} is no quantity of {resource}", mend="write 2, 500m, 16Gi or 1e3"
        )
    digits, exponent, binary, decimal = found.groups()
    value = Fraction(digits + (exponent or ""))
    value *= (
        1024 ** " KMGTPE".index(binary[0])
        if binary
        else Fraction(1000) ** _EXPONENTS[decimal or ""]
    )
    return math.ceil(value * 1000)


def is_gpu(resource: str) -> bool:
    """Whether a resource of Kubernetes is GPUs: ``nvidia.com/gpu``, ``amd.com/gpu``."""
    return resource.rpartition("/")[2].startswith("gpu")


def seconds(written: str | None) -> float:
    """A moment as seconds since 1970; 0 where there is none. Raises `Problem`."""
    if not written:
        return 0.0
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        raise Problem(f"{written!r} is no time", mend="write 2026-11-23T15:53:40Z") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The sum by resource."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
