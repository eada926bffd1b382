"""How a job changes its batch size as it trains, as its user declares it (Shockwave, NSDI'23, section 5).

A regime is a stretch of training at one batch size. A rule says which regimes can come, one after another;
except by a schedule, at unknown times.
"""

import itertools
from enum import StrEnum

import msgspec


class ScalingRule(StrEnum):
    """By which rule a job scales its batch size."""

    ACCORDION = "accordion"  # a small size and a large one take turns
    GNS = "gns"  # it doubles, as gradients get noisier
    SCHEDULE = "schedule"  # an expert has set the epochs
    SEQUENCE = "sequence"  # sizes in this order, at unknown times
    UNKNOWN = "unknown"  # any size, at any time


class Adaptation(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a job that changes its batch size. Raises ValueError where that makes no sense.

    epochs: in all; the unit of work of a job that declares its throughput. sizes: of ``accordion`` the small
    and the large one, of ``gns`` the first and the limit, of ``schedule`` and ``sequence`` all in order, of
    ``unknown`` the first. begins: epochs at which those of a schedule begin, the first at 0. regimes: how
    many there are at most under ``accordion``.
    """

    rule: ScalingRule
    epochs: float
    sizes: tuple[int, ...]
    begins: tuple[float, ...] = ()
    regimes: int = 2

    def __post_init__(self) -> None:
        if not 0.0 < self.epochs < float("inf"):
            raise ValueError(f"epochs must be above 0, not {self.epochs:g}")
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"batch sizes must be at least 1, not {list(self.sizes)}")
        self._check_sizes()

    def _check_sizes(self) -> None:
        match self.rule:
            case ScalingRule.ACCORDION | ScalingRule.GNS:
                if len(self.sizes) != 2 or self.sizes[0] >= self.sizes[1]:
                    raise ValueError(
                        f"{self.rule} needs two batch sizes, the smaller one first, not {list(self.sizes)}"
                    )
                if self.rule is ScalingRule.ACCORDION and self.regimes < 1:
                    raise ValueError(f"regimes must be at least 1, not {self.regimes}")
            case ScalingRule.SCHEDULE:
                if len(self.begins) != len(self.sizes) or self.begins[0] != 0.0:
                    raise ValueError("a schedule needs the epoch of every size, the first one at 0")
                if any(one >= other for one, other in itertools.pairwise(self.begins)):
                    raise ValueError(f"epochs of a schedule ascend, not {list(self.begins)}")
            case ScalingRule.UNKNOWN:
                if len(self.sizes) != 1:
                    raise ValueError(
                        f"of an unknown rule only the first batch size is known, not {list(self.sizes)}"
                    )
            case ScalingRule.SEQUENCE:
                pass

    @property
    def ahead(self) -> tuple[int, ...]:
        """The sizes of all regimes that are expected, in order."""
        match self.rule:
            case ScalingRule.ACCORDION:
                return tuple(self.sizes[turn % 2] for turn in range(self.regimes))
            case ScalingRule.GNS:
                size, limit = self.sizes
                doubled = [size]
                while doubled[-1] < limit:
                    doubled.append(min(2 * doubled[-1], limit))
                return tuple(doubled)
            case _:
                return self.sizes

    @property
    def needed(self) -> tuple[int, ...]:
        """Sizes of which a throughput must be known, ascending."""
        return tuple(sorted({*self.ahead, *self.sizes}))

    def surprising(self, size: int) -> bool:
        """Whether a job may come to ``size`` after all regimes that were expected."""
        match self.rule:
            case ScalingRule.ACCORDION:
                return size in self.sizes
            case ScalingRule.UNKNOWN:
                return True
            case _:
                return False
