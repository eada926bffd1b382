"""Limits of QOS and associations: which one keeps a job from starting now, in Slurm's words.

Source: "Resource Limits" of Slurm's documentation and sacctmgr(1), "SPECIFICATIONS FOR QOS" and
"... FOR ASSOCIATIONS". Limits of minutes (``GrpTRESMins``, ``GrpTRESRunMins``, ``GrpWall``) are not modelled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from volvelle.incumbents.slurm.site import Association, Job, Limits, Partition, Qos, Site, Tres

JOBS = "jobs"
_WORDS = {"cpu": "CPU", "mem": "Memory", "node": "Node", "billing": "Billing"}

Scope = tuple[str, ...]


class Bound(NamedTuple):
    """A limit on what the running jobs within a scope hold together: Slurm's reason, scope, most by name."""

    reason: str
    scope: Scope
    most: Tres


@dataclass(eq=False)
class Book:
    """Scopes of limits: their members, and the resources that the running jobs of each hold."""

    _qos: dict[str, Qos]
    _partition_qos: dict[str, str]
    _association: dict[tuple[str, str], Association]
    _bounds: dict[tuple[str, str, str, str], tuple[Bound, ...]] = field(default_factory=dict)
    held: dict[Scope, dict[str, float]] = field(default_factory=dict)

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
        held = {scope: amounts.copy() for scope, amounts in self.held.items()}
        return replace(self, held=held)

    def add(
        self, user: str, account: str, qos: str, partition: str, held: Tres, sign: float
    ) -> None:
        """A job starts (``sign`` 1), or ends (-1)."""
        amounts = {**held, JOBS: 1.0}
        for scope in {bound.scope for bound in self.bounds(user, account, qos, partition)}:
            there = self.held.setdefault(scope, {})
            for name, amount in amounts.items():
                there[name] = there.get(name, 0.0) + sign * amount

    def blocked(self, user: str, account: str, qos: str, partition: str, asked: Tres) -> str:
        """The limit that a job that asks for this would exceed now, in Slurm's words; empty: none."""
        for bound in self.bounds(user, account, qos, partition):
            if reason := self.exceeds(bound, asked):
                return reason
        return ""

    def exceeds(self, bound: Bound, asked: Tres) -> str:
        """Slurm's reason where a job that asks for this would exceed one limit now; empty: it would not."""
        there = self.held.get(bound.scope, {})
        for name, most in bound.most.items():
            amount = 1.0 if name == JOBS else asked.get(name, 0.0)
            if amount and there.get(name, 0.0) + amount > most + 1e-6:
                return bound.reason.format(_word(name))
        return ""

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

    def counts_jobs(self, user: str, account: str, qos: str, partition: str) -> bool:
        """Whether a limit on numbers of jobs holds for such a job."""
        return any(JOBS in bound.most for bound in self.bounds(user, account, qos, partition))

    def full(self, user: str, account: str, qos: str, partition: str) -> str:
        """The limit on numbers of jobs that is reached, in Slurm's words; empty: none."""
        return self.blocked(user, account, qos, partition, {})

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
