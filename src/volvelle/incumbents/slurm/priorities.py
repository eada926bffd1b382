"""Priorities of waiting jobs as they move: usage decays and counts, ages grow (``PriorityCalcPeriod``)."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.entries import Entry
from volvelle.incumbents.slurm.fair_share import FairShare
from volvelle.incumbents.slurm.queue import Queue
from volvelle.incumbents.slurm.rules import Rules
from volvelle.model.arrays import Ints


class Past(NamedTuple):
    """The knowledge of the time before a policy's first pass.

    until: when the first pass may happen. calculated: when priorities were worked out last. usage: of
    associations at that time, by (account, user). since: what jobs that have ended used after it.
    """

    until: float
    calculated: float
    usage: Mapping[tuple[str, str], float]
    since: Mapping[tuple[str, str], float] = {}


@dataclass(eq=False)
class Priorities:
    """The usage of accounts, and the factors that were worked out of it last. calculated: when that was."""

    rules: Rules
    calculated: float

    def __post_init__(self) -> None:
        site = self.rules.site
        self.fair = FairShare.of(site.associations, site.config)
        self._work_out()

    def _work_out(self) -> None:
        self.factors = self.fair.factors()
        self._shares = np.zeros(0)
        """The factors by number of association, as far as they were asked for."""

    def fork(self) -> "Priorities":
        """A copy that goes its own way."""
        other = copy(self)
        other.fair = self.fair.fork()
        return other

    @property
    def due(self) -> float:
        """When priorities are worked out next."""
        return self.calculated + self.rules.weights.period

    def begin(self, past: Past) -> None:
        """The past is told."""
        self.calculated = past.calculated
        self.fair.usage.clear()
        self.fair.usage.update(past.usage)
        self._work_out()
        for who, amount in past.since.items():
            self.fair.usage[who] = self.fair.usage.get(who, 0.0) + amount

    def recalculate(self, now: float, running: Iterable[Entry], queue: Queue) -> None:
        """Let usage decay and priorities move, where a period is over (``PriorityCalcPeriod``)."""
        weights = self.rules.weights
        if weights.basic or now < self.due:
            return
        steps = int((now - self.calculated) / weights.period)
        at = self.calculated + steps * weights.period
        self.fair.decay(at - self.calculated)
        self.calculated = at
        for entry in running:
            self.count(entry, now)
        self._work_out()
        queue.fixed[queue.order] = np.nan
        self.rank(queue, queue.order, now)
        queue.sort()

    def count(self, entry: Entry, now: float) -> None:
        """Count the usage of a running job up to now."""
        seconds = now - entry.counted
        if seconds > 0.0:
            who, usage = (entry.job.account, entry.job.user), self.fair.usage
            usage[who] = usage.get(who, 0.0) + entry.cpus * seconds
            entry.counted = now

    def rank(self, queue: Queue, rows: Ints, now: float) -> None:
        """Work out the priorities of rows of the queue, by which they sort."""
        rules = self.rules
        if len(self._shares) < len(rules.associations):
            self._shares = np.array([self.factors.get(who, 0.0) for who in rules.associations])
        queue.rank(rows, rules.tiers, self._shares, rules.weights.moving, now)
