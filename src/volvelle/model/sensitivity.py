"""How a job's rate depends on the CPUs and the memory that each of its GPUs comes with.

Synergy (Mohan et al., OSDI'22) profiles every job over a grid of CPUs and memory per GPU: loading and
preparing data keeps some jobs waiting, others never. A `Sensitivity` is such a profile, as shares of the
rate that the job's throughput model gives, which is the rate with all the CPUs and memory it can use.
"""

import itertools
import math
from functools import lru_cache
from typing import Literal

import msgspec

Row = tuple[float, ...]


class Sensitivity(msgspec.Struct, frozen=True, gc=False):
    """A profile: ``shares[i][j]`` of the rate at ``cpus[i]`` CPUs and ``memory_gb[j]`` GB a GPU.

    Linear between the points of the grid and constant beyond them. ``below`` the least CPUs or memory
    of the grid the share falls linearly to nothing, or there is none (``zero``). Shares never fall with
    more of either, and the last is 1. Raises ValueError for a table that is not like that.
    """

    cpus: Row
    memory_gb: Row
    shares: tuple[Row, ...]
    below: Literal["linear", "zero"] = "linear"

    def __post_init__(self) -> None:
        for name, grid in (("cpus", self.cpus), ("memory_gb", self.memory_gb)):
            ascending = all(low < high for low, high in itertools.pairwise(grid))
            if not grid or grid[0] <= 0 or not math.isfinite(grid[-1]) or not ascending:
                raise ValueError(f"{name} of a sensitivity must ascend from above 0, not {grid!r}")
        if {len(row) for row in self.shares} != {len(self.memory_gb)} or len(self.shares) != len(
            self.cpus
        ):
            raise ValueError(
                f"a sensitivity over {len(self.cpus)} x {len(self.memory_gb)} points needs as many "
                "shares, a row for each number of CPUs"
            )
        lines = [*self.shares, *zip(*self.shares, strict=True)]
        falls = any(low > high for line in lines for low, high in itertools.pairwise(line))
        if falls or self.shares[0][0] < 0 or self.shares[-1][-1] != 1.0:
            raise ValueError(
                f"shares of a sensitivity must rise from 0 or more to 1, not {self.shares!r}"
            )

    def share(self, cpus: float, memory_gb: float) -> float:
        """The share of the rate left to a job whose GPUs have ``cpus`` and ``memory_gb`` each."""
        i, up, low = self._between(self.cpus, cpus)
        j, right, thin = self._between(self.memory_gb, memory_gb)
        rows = self.shares
        first = rows[i][j] + right * (rows[i][min(j + 1, len(self.memory_gb) - 1)] - rows[i][j])
        if up == 0.0:
            return first * low * thin
        second = rows[i + 1][j]
        second += right * (rows[i + 1][min(j + 1, len(self.memory_gb) - 1)] - second)
        return (first + up * (second - first)) * low * thin

    @property
    def demand(self) -> tuple[float, float]:
        """The least CPUs, and with these the least memory, per GPU at which the job runs at full rate."""
        return self.least_within(math.inf, math.inf)

    def least_within(self, cpus: float, memory_gb: float) -> tuple[float, float]:
        """The least CPUs, and with these the least memory, as good as ``cpus`` and ``memory_gb`` a GPU."""
        return _least_within(self, cpus, memory_gb)

    def _between(self, grid: Row, amount: float) -> tuple[int, float, float]:
        """The point of ``grid`` at or below ``amount``, how far it is on to the next, and what is left
        of the share where the amount lies below the grid."""
        if amount < grid[0]:
            return 0, 0.0, max(amount, 0.0) / grid[0] if self.below == "linear" else 0.0
        if amount >= grid[-1]:
            return len(grid) - 1, 0.0, 1.0
        i = next(i for i, point in enumerate(grid) if point > amount) - 1
        return i, (amount - grid[i]) / (grid[i + 1] - grid[i]), 1.0


@lru_cache(maxsize=4096)
def _least_within(profile: Sensitivity, cpus: float, memory_gb: float) -> tuple[float, float]:
    goal = profile.share(cpus, memory_gb)
    if goal == 0.0:
        return 0.0, 0.0
    least_cpus = _first(
        profile, profile.cpus, [profile.share(c, memory_gb) for c in profile.cpus], goal, cpus
    )
    by_memory = [profile.share(least_cpus, m) for m in profile.memory_gb]
    return least_cpus, _first(profile, profile.memory_gb, by_memory, goal, memory_gb)


def _first(profile: Sensitivity, grid: Row, shares: list[float], goal: float, most: float) -> float:
    """The least amount, at most ``most``, whose share is ``goal``; shares are those at ``grid``."""
    at = next((i for i, share in enumerate(shares) if share >= goal), None)
    if at is None:
        return most
    if at:
        low, high = shares[at - 1], shares[at]
        reached = grid[at - 1] + (goal - low) / (high - low) * (grid[at] - grid[at - 1])
    elif profile.below == "linear":
        reached = goal / shares[0] * grid[0]
    else:
        reached = grid[0]
    return min(reached, most)
