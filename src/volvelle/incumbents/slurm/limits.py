"""Limits of QOS and associations: which one keeps a job from starting now, in Slurm's words.

Source: "Resource Limits" of Slurm's documentation and sacctmgr(1), "SPECIFICATIONS FOR QOS" and
"... FOR ASSOCIATIONS". Limits of minutes (``GrpTRESMins``, ``GrpTRESRunMins``, ``GrpWall``) are not modelled.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.queue import WORDS
from volvelle.incumbents.slurm.site import Association, Limits, Partition, Qos, Site, Tres
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.model.arrays import Ints

JOBS = "jobs"
_WORDS = {"cpu": "CPU", "mem": "Memory", "node": "Node", "billing": "Billing"}

Scope = tuple[str, ...]


class Cap(NamedTuple):
    """A limit as it bears on one job: where the sum stands, what the job adds, the most, Slurm's reason.

    of_jobs: whether it is one on numbers of jobs.
    """

    at: int
    amount: float
    most: float
    reason: str
    of_jobs: bool


class Bound(NamedTuple):
    """A limit on what the running jobs within a scope hold together: Slurm's reason, scope, most by name."""

    reason: str
    scope: Scope
    most: Tres


@dataclass(eq=False)
class Words:
    """Reasons by number."""

    of: list[str] = field(default_factory=lambda: list(WORDS))

    def __post_init__(self) -> None:
        self._numbers = {word: number for number, word in enumerate(self.of)}

    def number(self, word: str) -> int:
        """The number of a reason."""
        if word not in self._numbers:
            self._numbers[word] = len(self.of)
            self.of.append(word)
        return self._numbers[word]


@dataclass(eq=False)
class Book:
    """Scopes of limits: their members, and the resources that the running jobs of each hold.

    held: sums by number. Numbers of a scope's resources are shared by all forks.
    """

    _qos: dict[str, Qos]
    _partition_qos: dict[str, str]
    _association: dict[tuple[str, str], Association]
    _bounds: dict[tuple[str, str, str, str], tuple[Bound, ...]] = field(default_factory=dict)
    _numbers: dict[tuple[Scope, str], int] = field(default_factory=dict)
    held: list[float] = field(default_factory=list)
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        self._groups: dict[tuple[object, ...], int] = {}
        """Groups of jobs that the same limits bind alike, by number; forks share them, and the next three."""
        self._caps: list[tuple[Cap, ...]] = []
        """The limits that bear on each group."""
        self._within: dict[int, list[int]] = defaultdict(list)
        """The groups that a sum bears on, by its number."""
        self._sums: dict[tuple[str, str, str, str], list[tuple[int, str]]] = {}
        """The sums to which a job's resources count, and their names."""
        self._reached: Ints = np.zeros(0, dtype=np.int64)

    @classmethod
    def of(cls, site: Site) -> "Book":
        """The limits of a site, of which nothing is held."""
        return cls(
            {one.name: one for one in site.qos},
            {one.name: one.qos for one in site.partitions},
            {(one.account, one.user): one for one in site.associations},
        )

    def fork(self) -> "Book":
        """A copy that goes its own way."""
        other = copy(self)
        other.held, other._reached = self.held.copy(), self._reached.copy()
        return other

    def _number(self, scope: Scope, name: str) -> int:
        """Where the sum of a resource within a scope stands."""
        at = self._numbers.setdefault((scope, name), len(self._numbers))
        self.held += [0.0] * (at + 1 - len(self.held))
        return at

    def add(
        self, user: str, account: str, qos: str, partition: str, held: Tres, sign: float
    ) -> None:
        """A job starts (``sign`` 1), or ends (-1)."""
        key, touched = (user, account, qos, partition), set[int]()
        if key not in self._sums:
            sums = {(one.scope, name) for one in self.bounds(*key) for name in one.most}
            self._sums[key] = [(self._number(*one), one[1]) for one in sums]
        self.held += [0.0] * (len(self._numbers) - len(self.held))
        for at, name in self._sums[key]:
            amount = 1.0 if name == JOBS else held.get(name, 0.0)
            self.held[at] += sign * amount
            touched.update(self._within.get(at, ()))
        for group in touched:
            if group < len(self._reached):
                self._reached[group] = self._limit(group)

    def group(self, job: Job, partition: str) -> int:
        """The number of the jobs that the same limits bind as they bind this one in a partition."""
        key = job.user, job.account, job.qos, partition, tuple(sorted(job.asked.items()))
        if key not in self._groups:
            number = self._groups[key] = len(self._caps)
            caps = self.caps(job.user, job.account, job.qos, partition, job.asked)
            self._caps.append(caps)
            for cap in caps:
                self._within[cap.at].append(number)
        return self._groups[key]

    def reached(self) -> Ints:
        """The reason of the first limit that a job of each group would exceed now, by group; 0: none.

        Below 0: the reason's number of a limit on numbers of jobs.
        """
        known, caps = len(self._reached), self._caps
        if known < len(caps):
            self.held += [0.0] * (len(self._numbers) - len(self.held))
            more = [self._limit(group) for group in range(known, len(caps))]
            self._reached = np.concatenate([self._reached, np.array(more, dtype=np.int64)])
        return self._reached

    def counts(self, group: int) -> str:
        """The limit on numbers of jobs that a group is at, in Slurm's words; empty: none."""
        return self.words.of[max(-int(self.reached()[group]), 0)]

    def _limit(self, group: int) -> int:
        held = self.held
        for cap in self._caps[group]:
            if held[cap.at] + cap.amount > cap.most:
                number = self.words.number(cap.reason)
                return -number if cap.of_jobs else number
        return 0

    def caps(
        self, user: str, account: str, qos: str, partition: str, asked: Tres
    ) -> tuple[Cap, ...]:
        """The limits that bear on a job that asks for this, those of jobs' numbers first."""
        return tuple(
            cap
            for bound in self.bounds(user, account, qos, partition)
            for cap in self._caps_of(bound, asked)
        )

    def _caps_of(self, bound: Bound, asked: Tres) -> Iterator[Cap]:
        for name, most in bound.most.items():
            if amount := 1.0 if name == JOBS else asked.get(name, 0.0):
                reason = bound.reason.format(_word(name))
                at = self._number(bound.scope, name)
                yield Cap(at, amount, most + 1e-6, reason, name == JOBS)

    def blocked(self, caps: Iterable[Cap]) -> str:
        """The reason of the first limit that a job would exceed now, in Slurm's words; empty: none."""
        held = self.held
        return next((cap.reason for cap in caps if held[cap.at] + cap.amount > cap.most), "")

    def exceeds(self, bound: Bound, asked: Tres) -> str:
        """Slurm's reason where a job that asks for this would exceed one limit now; empty: it would not."""
        return self.blocked(self._caps_of(bound, asked))

    def bars(self, job: Job, limit: float, partition: Partition) -> str:
        """The rule that keeps a job out of a partition whatever ends, in Slurm's words; empty: none.

        Source: slurm.conf(5), ``AllowAccounts`` and the like; sacctmgr(1), ``MaxTRES``, ``MaxTRESPerNode``,
        ``MinTRES``, ``MaxWall``. limit: seconds. A partition's list of groups is not looked at.
        """
        if _is_out(job.account, partition.allow_accounts, partition.deny_accounts):
            return "AccountNotAllowed"
        if _is_out(job.qos, partition.allow_qos, partition.deny_qos):
            return "QOSNotAllowed"
        if job.most_nodes < partition.min_nodes:
            return "PartitionNodeLimit"
        for kind, limits in self._of_one_job(job, partition.name):
            if reason := _beyond(limits, job, limit):
                return kind + reason
        return ""

    def _of_one_job(self, job: Job, partition: str) -> Iterator[tuple[str, Limits]]:
        """Limits that hold for a job by itself: a QOS names the account's own, a user's those above it."""
        names = dict.fromkeys((self._partition_qos.get(partition, ""), job.qos))
        yield from (("QOS", self._qos[name].limits) for name in names if name in self._qos)
        for place in ((job.account, job.user), (job.account, "")):
            if place in self._association:
                yield "Assoc", self._association[place].limits

    def bounds(self, user: str, account: str, qos: str, partition: str) -> tuple[Bound, ...]:
        """All limits on what is held that such a job is within, those of jobs' numbers first."""
        key = user, account, qos, partition
        if key not in self._bounds:
            found = [bound for bound in self._found(*key) if bound.most]
            self._bounds[key] = tuple(sorted(found, key=lambda bound: JOBS not in bound.most))
        return self._bounds[key]

    def _found(self, user: str, account: str, qos: str, partition: str) -> Iterator[Bound]:
        for name in dict.fromkeys((self._partition_qos.get(partition, ""), qos)):
            if name in self._qos:
                yield from _of_qos(self._qos[name], user, account)
        own = self._association.get((account, user))
        if own is not None:
            yield from _of_association(own.limits, ("user", account, user), per_user=True)
        above: str = account
        for _ in range(100):
            one = self._association.get((above, ""))
            if one is None:
                break
            yield from _of_association(one.limits, ("account", above), per_user=False)
            if own is None or not _per_user(own):
                yield from _inherited(one, account, user)
            above = one.parent or ("root" if above != "root" else "")


def _is_out(name: str, allowed: frozenset[str] | None, denied: frozenset[str]) -> bool:
    """Whether lists keep a name out; what allows comes before what denies (slurm.conf(5))."""
    named = allowed if allowed is not None else denied
    return (name.lower() in map(str.lower, named)) == (allowed is None)


def _beyond(limits: Limits, job: Job, limit: float) -> str:
    """The limit of one job that a job exceeds, in Slurm's words without their beginning; empty: none."""
    if limits.max_seconds is not None and limit > limits.max_seconds:
        return "MaxWallDurationPerJobLimit"
    nodes = max(job.least_nodes, 1)
    for name, asked in job.asked.items():
        if asked > limits.per_job.get(name, asked):
            return f"Max{_word(name)}PerJob"
        if asked / nodes > limits.per_node.get(name, asked):
            return f"Max{_word(name)}PerNode"
    for name, least in limits.least.items():
        if job.asked.get(name, 0.0) < least:
            return f"Min{_word(name)}"
    return ""


def _per_user(one: Association) -> bool:
    return bool(one.limits.jobs_per_user is not None or one.limits.per_user)


def _of_qos(qos: Qos, user: str, account: str) -> Iterator[Bound]:
    limits, name = qos.limits, qos.name
    yield Bound("QOSGrpJobsLimit", ("qos", name), _jobs(limits.group_jobs))
    yield Bound("QOSMaxJobsPerUserLimit", ("qos-user", name, user), _jobs(limits.jobs_per_user))
    yield Bound("MaxJobsPerAccount", ("qos-account", name, account), _jobs(limits.jobs_per_account))
    yield Bound("QOSGrp{}", ("qos", name), limits.group)
    yield Bound("QOSMax{}PerUser", ("qos-user", name, user), limits.per_user)
    yield Bound("MaxTRESPerAccount", ("qos-account", name, account), limits.per_account)


def _of_association(limits: Limits, scope: Scope, *, per_user: bool) -> Iterator[Bound]:
    yield Bound("AssocGrpJobsLimit", scope, _jobs(limits.group_jobs))
    if per_user:
        yield Bound("AssocMaxJobsLimit", scope, _jobs(limits.jobs_per_user))
    yield Bound("AssocGrp{}", scope, limits.group)


def _inherited(one: Association, account: str, user: str) -> Iterator[Bound]:
    """``MaxJobs`` of an account, which each user below it has for itself."""
    yield Bound("AssocMaxJobsLimit", ("user", account, user), _jobs(one.limits.jobs_per_user))


def _jobs(most: int | None) -> Mapping[str, float]:
    return {} if most is None else {JOBS: float(most)}


def _word(name: str) -> str:
    return "GRES" if name.startswith("gres/") else _WORDS.get(name, name)
