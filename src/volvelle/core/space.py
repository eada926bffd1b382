"""The search space of a policy: its own declaration, made for the jobs it is to serve."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from volvelle.core.registry import LEAST

Point = tuple[float, ...]
"""A value for each dimension of a space."""


class Dimension(NamedTuple):
    """A number between ``low`` and ``high``; ``log``: ratios matter, not differences."""

    name: str
    low: float
    high: float
    meaning: str
    log: bool = False

    def at(self, share: float) -> float:
        """The value at ``share`` (0 to 1) of the way from low to high."""
        if self.log:
            value = self.low * math.exp(share * math.log(self.high / self.low))
        else:
            value = self.low + share * (self.high - self.low)
        value = min(max(value, self.low), self.high)
        return value if abs(value) >= LEAST else 0.0

    def share(self, value: float) -> float:
        """Where ``value`` lies; `at` is its inverse."""
        if self.high <= self.low:
            return 0.0
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def _no_facts(point: Point) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Space:
    """The dimensions, and what a point in them means.

    write: the policy's parameters there, as they are written. starts: points worth trying first.
    facts: what follows from a point and deserves to be read, as plain JSON values.
    finer: around parameters as they are written, parameters of this space or of such a finer one: the space
    in which each number that they stand for is free. They are its first start; others are places beside them
    that small steps do not lead to. None: there is none.
    """

    dimensions: tuple[Dimension, ...]
    write: Callable[[Point], str]
    starts: tuple[Point, ...] = ()
    facts: Callable[[Point], Mapping[str, Any]] = _no_facts
    finer: Callable[[str], "Space"] | None = None

    def point(self, shares: Iterable[float]) -> Point:
        """The point at ``shares`` (0 to 1) of each dimension."""
        return tuple(d.at(share) for d, share in zip(self.dimensions, shares, strict=True))

    def shares(self, point: Point) -> list[float]:
        """Where ``point`` lies; `point` is its inverse."""
        return [d.share(value) for d, value in zip(self.dimensions, point, strict=True)]
