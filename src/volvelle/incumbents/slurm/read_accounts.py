"""QOS and the tree of accounts, from ``sacctmgr``; their usage, from ``assoc_mgr`` and ``sshare``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from volvelle.incumbents.slurm.site import Association, Limits, Qos
from volvelle.incumbents.slurm.text import (
    duration,
    number,
    present,
    records,
    table,
    tres,
    whole,
    words,
)

QOS = """
Description Descr Flags GraceTime GrpJobs GrpJobsAccrue GrpSubmit GrpSubmitJobs GrpTRES GrpTRESMins
GrpTRESRunMins GrpWall ID LimitFactor MaxJobs MaxJobsAccruePA MaxJobsAccruePU MaxJobsPA MaxJobsPU MaxSubmit
MaxSubmitPA MaxSubmitPU MaxTRES MaxTRESMins MaxTRESMinsPJ MaxTRESPA MaxTRESPJ MaxTRESPN MaxTRESPU
MaxTRESPerJob MaxTRESPerNode MaxTRESPerUser MaxTRESRunMinsPA MaxTRESRunMinsPU MaxWall MaxWallDurationPerJob
MinPrioThres MinPrioThresh MinTRES MinTRESPJ Name Preempt PreemptExemptTime PreemptMode Priority UsageFactor
UsageThres UsageThreshold
"""
"""The columns of ``sacctmgr show qos``."""


def read_qos(text: str) -> Iterator[Qos]:
    """The rows of ``sacctmgr -P show qos``."""
    return (read_quality(row) for row in table(text))


def read_quality(row: Mapping[str, str]) -> Qos:
    """A QOS of its fields, as sacctmgr names them."""
    mode = row.get("PreemptMode", "").upper()
    return Qos(
        name=row["Name"],
        priority=number(row.get("Priority")),
        preempts=words(row.get("Preempt")),
        preempt_mode="" if mode == "CLUSTER" else mode,
        grace_seconds=duration(row.get("GraceTime")) or 0.0,
        exempt_seconds=duration(row.get("PreemptExemptTime")),
        usage_factor=number(row.get("UsageFactor"), 1.0),
        flags=words(row.get("Flags")),
        limits=_limits(row),
    )


def _limits(row: Mapping[str, str]) -> Limits:
    get = row.get
    return Limits(
        group=tres(get("GrpTRES")),
        group_jobs=whole(get("GrpJobs")),
        group_submit=whole(get("GrpSubmit") or get("GrpSubmitJobs")),
        group_run_minutes=tres(get("GrpTRESRunMins")),
        group_minutes=tres(get("GrpTRESMins")),
        per_job=tres(get("MaxTRES") or get("MaxTRESPerJob")),
        per_node=tres(get("MaxTRESPerNode")),
        max_seconds=duration(get("MaxWall") or get("MaxWallDurationPerJob")),
        per_user=tres(get("MaxTRESPU") or get("MaxTRESPerUser")),
        jobs_per_user=whole(get("MaxJobsPU") or get("MaxJobs")),
        per_account=tres(get("MaxTRESPA")),
        jobs_per_account=whole(get("MaxJobsPA")),
        least=tres(get("MinTRES")),
    )


def read_associations(texts: Mapping[str, str], cluster: str) -> Iterator[Association]:
    """Accounts and users of one cluster, by ``sacctmgr show assoc`` or, without it, by ``sacctmgr dump``."""
    rows = _rows(texts["assoc"], cluster) if "assoc" in texts else _dumped(texts.get("dump", ""))
    return map(read_association, rows)


def read_association(row: Mapping[str, str]) -> Association:
    """An account, or a user of one, of its fields as sacctmgr names them."""
    user, account = row.get("User", ""), row["Account"]
    share = row.get("Share") or row.get("Fairshare") or "1"
    above = row.get("ParentName") or row.get("Par Name") or _top(account)
    return Association(
        account=account,
        user=user,
        partition=row.get("Partition", ""),
        parent=account if user else above,
        shares=None if share == "parent" else number(share, 1.0),
        qos=words(row.get("QOS")),
        default_qos=present(row.get("Def QOS") or row.get("DefaultQOS")),
        priority=number(row.get("Priority")),
        limits=_limits(row),
    )


def _top(account: str) -> str:
    return "" if account == "root" else "root"


def _rows(text: str, cluster: str) -> Iterator[dict[str, str]]:
    rows = list(table(text))
    here = [row for row in rows if row.get("Cluster") == cluster]
    return iter(here or rows)


def _dumped(text: str) -> Iterator[dict[str, str]]:
    """Rows of ``sacctmgr dump``: ``Account - 'vision':Fairshare=50`` below ``Parent - 'root'``."""
    parent = "root"
    for line in text.splitlines():
        match = re.match(r"(Parent|Account|User) - '([^']*)':?(.*)", line)
        if not match:
            continue
        what, name, rest = match.groups()
        if what == "Parent":
            parent = name
            continue
        found = {key: value.strip("'") for key, value in re.findall(r"(\w+)=('[^']*'|[^:]*)", rest)}
        mine = {"Account": name} if what == "Account" else {"Account": parent, "User": name}
        yield found | mine | ({"ParentName": parent} if what == "Account" else {})


def with_usage(
    associations: tuple[Association, ...], texts: Mapping[str, str]
) -> tuple[Association, ...]:
    """Associations with what ``scontrol show assoc_mgr`` and ``sshare`` say of their usage."""
    usage: dict[tuple[str, str], float] = {}
    parents: dict[str, str] = {}
    for line in records(texts.get("assoc_mgr", ""), "ClusterName"):
        account, user = line.get("Account", ""), line.get("UserName", "").partition("(")[0]
        usage[account, user] = number(line.get("UsageRaw/Norm/Efctv"))
        if not user:
            parents[account] = line.get("ParentAccount", "").partition("(")[0]
    factors: dict[tuple[str, str], float] = {}
    for row in table(texts.get("sshare", "")):
        place = row["Account"].strip(), row.get("User", "")
        usage.setdefault(place, number(row.get("RawUsage")))
        if row.get("FairShare"):
            factors[place] = number(row["FairShare"])
    return tuple(
        replace(
            one,
            usage=usage.get((one.account, one.user), one.usage),
            fair_share=factors.get((one.account, one.user), one.fair_share),
            parent=one.parent if one.user else parents.get(one.account, one.parent),
        )
        for one in associations
    )
