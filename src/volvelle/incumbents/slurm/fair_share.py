"""Priorities: ``priority/multifactor`` with its fair tree, and ``priority/basic``.

Source: "Multifactor Priority Plugin" and "Fair Tree Fairshare Algorithm" of Slurm's documentation;
slurm.conf(5), ``Priority*``. TRES weights, site factors, ``NO_FAIR_TREE`` and ``SMALL_RELATIVE_TO_TIME`` are
not modelled.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.incumbents.slurm.site import Association, Config, Partition, Qos, Site
from volvelle.incumbents.slurm.text import duration
from volvelle.model.arrays import Floats

_MINUTES = 60.0


@dataclass(eq=False)
class FairShare:
    """The decayed usage of associations, and the fair-share factor of each user's (fair tree).

    half_life: seconds. usage: seconds of billed resources, by (account, user).
    """

    half_life: float
    usage: dict[tuple[str, str], float] = field(default_factory=dict)
    _shares: dict[tuple[str, str], float] = field(default_factory=dict)
    _children: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _parent: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, associations: Iterable[Association], config: Config) -> "FairShare":
        """The shares and the usage that a site tells."""
        found = cls(duration(config.text("PriorityDecayHalfLife", "7-0")) or 0.0)
        for one in associations:
            key = one.account, one.user
            if key in found._shares or key == ("root", ""):
                continue
            found._shares[key] = 1.0 if one.shares is None else one.shares
            parent = one.account if one.user else (one.parent or "root")
            found._children.setdefault(parent, []).append(key)
            if not one.user:
                found._parent[one.account] = parent
            elif one.usage is not None:
                found.usage[key] = one.usage
        return found

    def fork(self) -> "FairShare":
        """A copy that goes its own way."""
        return replace(self, usage=self.usage.copy())

    def decay(self, seconds: float) -> None:
        """Let time pass: usage halves in each half-life."""
        if self.half_life > 0.0:
            kept = math.exp2(-seconds / self.half_life)
            for key in self.usage:
                self.usage[key] *= kept

    def factors(self) -> dict[tuple[str, str], float]:
        """The factor of each user's association: its rank from below, as a share of all users."""
        used = self._used()
        ranked: list[tuple[str, str]] = []
        self._rank("root", used, ranked)
        return {key: 1.0 - at / len(ranked) for at, key in enumerate(ranked)}

    def _used(self) -> dict[tuple[str, str], float]:
        """Usage by association, of accounts with all below them."""
        used: dict[tuple[str, str], float] = defaultdict(float)
        for (account, user), amount in self.usage.items():
            used[account, user] += amount
            above: str | None = account
            while above is not None and above != "root":
                used[above, ""] += amount
                above = self._parent.get(above)
        return used

    def _rank(
        self, account: str, used: Mapping[tuple[str, str], float], ranked: list[tuple[str, str]]
    ) -> None:
        """Add the users below an account, those first that are due most (level fair share)."""
        children = self._children.get(account, [])
        shares = sum(self._shares[key] for key in children) or 1.0
        usage = sum(used[key] for key in children)

        def due(key: tuple[str, str]) -> float:
            share = self._shares[key] / shares
            part = used[key] / usage if usage else 0.0
            return share / part if part > 0.0 else math.inf

        for key in sorted(children, key=due, reverse=True):
            if key[1]:
                ranked.append(key)
            else:
                self._rank(key[0], used, ranked)


class Weights:
    """The weights of the factors of a priority, and what they are relative to."""

    def __init__(self, site: Site) -> None:
        config = site.config
        self.basic = "basic" in config.text("PriorityType", "priority/basic")
        self.age = config.number("PriorityWeightAge", 0.0)
        self.fair_share = config.number("PriorityWeightFairshare", 0.0)
        self.size = config.number("PriorityWeightJobSize", 0.0)
        self.partition = config.number("PriorityWeightPartition", 0.0)
        self.qos = config.number("PriorityWeightQOS", 0.0)
        self.oldest = duration(config.text("PriorityMaxAge", "7-0")) or 604800.0
        self.favours_small = config.text("PriorityFavorSmall", "no").upper().startswith("Y")
        period = duration(config.text("PriorityCalcPeriod", "5")) or 300.0
        self.period = period
        self.top_qos = max((one.priority for one in site.qos), default=0.0) or 1.0
        self.top_partition = max((one.job_factor for one in site.partitions), default=0.0) or 1.0
        self.nodes = max(len(site.nodes), 1)
        self.cpus = sum(node.cpus for node in site.nodes) or 1.0
        self.moving = np.array([self.age, self.oldest, self.fair_share])
        """The numbers of what moves, for `priority`."""

    def standing(
        self, nodes: float, cpus: float, partition: Partition, qos: Qos | None
    ) -> tuple[float, float, float]:
        """The parts of a job's priority that stay: of its size, its partition, its QOS."""
        size = (nodes / self.nodes + cpus / self.cpus) / 2.0
        if self.favours_small:
            size = 1.0 - size
        return (
            self.size * size,
            self.partition * partition.job_factor / self.top_partition,
            self.qos * (qos.priority / self.top_qos if qos else 0.0),
        )


@kernel
def priority(
    weights: Floats, age: float, fair_share: float, standing: Floats, nice: float
) -> float:
    """The priority of a job (the sum in "Multifactor Priority Plugin", "Job Priority Factors").

    weights: of ages, the oldest, of fair shares. age: seconds in which it could have started. fair_share: a
    factor. standing: its three parts.
    """
    total = weights[0] * min(max(age, 0.0) / weights[1], 1.0)
    total = total + weights[2] * fair_share + standing[0] + standing[1] + standing[2] - nice
    return float(max(total, 1.0))
