"""A change of a site, to ask what if.

It is written as Slurm's own commands write it: the record that it names, then fields of it::

    QOS=normal MaxTRESPU=gres/gpu=16           PartitionName=h100 Nodes=h[1-4] MaxTime=2:00:00
    Account=vision GrpTRES=gres/gpu=-1         NodeName=h5 Like=h4       NodeName=a1 State=DOWN
    ReservationName=upgrade StartTime=2026-12-01T08:00:00 EndTime=2026-12-01T12:00:00 Nodes=a[1-2]
    SchedulerParameters=bf_interval=60   PriorityType=priority/basic   PreemptType=preempt/none

An amount of -1 takes a limit away, as for sacctmgr. Lines of slurm.conf put another policy in place.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from volvelle.incumbents.slurm.read_accounts import read_association, read_quality
from volvelle.incumbents.slurm.read_jobs import read_reservations
from volvelle.incumbents.slurm.read_site import placed, read_partition
from volvelle.incumbents.slurm.site import Config, Node, Site
from volvelle.incumbents.slurm.snapshot import Snapshot
from volvelle.incumbents.slurm.text import hosts
from volvelle.model.problems import Problem, nearest

Record = Mapping[str, str]

_SETTINGS = frozenset(
    {"SchedulerType", "SchedulerParameters", "PriorityType", "PriorityDecayHalfLife"}
    | {"PriorityMaxAge", "PriorityCalcPeriod", "PriorityFavorSmall", "PriorityWeightAge"}
    | {"PriorityWeightFairshare", "PriorityWeightJobSize", "PriorityWeightPartition"}
    | {"PriorityWeightQOS", "PreemptType", "PreemptMode", "PreemptExemptTime"}
)
"""Keys of slurm.conf by which the scheduler decides."""
_PLUGINS = {
    "SchedulerType": ("sched/backfill", "sched/builtin"),
    "PriorityType": ("priority/basic", "priority/multifactor"),
}
"""Values that these keys have."""


_OF_NODES = ("State", "Like")


def changed(site: Site, snapshot: Snapshot, changes: Sequence[str]) -> tuple[Site, Snapshot]:
    """The site and the snapshot after changes. Raises `Problem` for one that is none."""
    for written in changes:
        site, snapshot = _changed(site, snapshot, written)
    return site, snapshot


def _changed(site: Site, snapshot: Snapshot, written: str) -> tuple[Site, Snapshot]:
    """The site and the snapshot after a change. Raises `Problem` where it is none."""
    record = dict(re.findall(r"(\w+)=(\S*)", written))
    kind = next(iter(record), "")
    name = record.get(kind, "")
    fields_given = {field: value for field, value in record.items() if field != kind}
    if kind == "NodeName":
        known = snapshot.nodes or site.nodes
        nodes = tuple(_nodes(known, name, fields_given, written))
        added = nodes[len(known) :]
        partitions = tuple(
            replace(one, nodes=(*one.nodes, *(n.name for n in added if one.name in n.partitions)))
            for one in site.partitions
        )
        return replace(site, nodes=nodes, partitions=partitions), replace(snapshot, nodes=nodes)
    if kind == "ReservationName":
        planned = tuple(read_reservations(written))
        if not planned or not planned[0].nodes:
            raise Problem(
                f"{written!r} is no reservation", mend="give StartTime, EndTime (UTC) and Nodes"
            )
        there = site.reservations if snapshot.reservations is None else snapshot.reservations
        return site, replace(snapshot, reservations=(*there, *planned))
    if kind == "PartitionName":
        first = {"PartitionName": name}
        changed = _with(site.partitions, "name", first, fields_given, read_partition)
        return replace(site, partitions=tuple(placed(changed, site.nodes))), snapshot
    if kind == "QOS":
        qos = tuple(_with(site.qos, "name", {"Name": name}, fields_given, read_quality))
        return replace(site, qos=qos), snapshot
    if kind == "Account":
        accounts = [one for one in site.associations if not one.user]
        first = {"Account": name}
        new = tuple(_with(accounts, "account", first, fields_given, read_association))
        users = tuple(one for one in site.associations if one.user)
        return replace(site, associations=(*new, *users)), replace(snapshot, associations=())
    if record and record.keys() <= _SETTINGS:
        for key, values in _PLUGINS.items():
            if record.get(key, values[0]) not in values:
                raise Problem(
                    f"{written!r}: {record[key]!r} is no {key} of Slurm",
                    mend=f"write {' or '.join(values)}",
                )
        config = Config({**site.config.keys, **record})
        jobs = snapshot.jobs
        if any(key.startswith("Priority") for key in record):  # those that Slurm told are of before
            jobs = tuple(replace(job, priority=None) if job.priority else job for job in jobs)
        return replace(site, config=config), replace(snapshot, jobs=jobs)
    if re.match(r"policy\b", written.lstrip("- "), re.IGNORECASE):
        raise Problem(
            f"{written!r} asks for another scheduler, and what waits now is only replayed under Slurm's:"
            " others know neither its limits nor its partitions",
            mend="change its own settings (SchedulerType=, PriorityType=, QOS=), or compare a month of jobs:"
            " volvelle site import slurm says how",
            usage=True,
        )
    raise Problem(
        f"{written!r} names nothing that can be changed{nearest(kind, _SETTINGS)}",
        mend="begin with QOS=, PartitionName=, Account=, NodeName=, ReservationName= or a key of slurm.conf",
        usage=True,
    )


def examples(site: Site) -> Iterator[tuple[str, str]]:
    """A change of each kind, of what the site has."""
    node = next((one.name for one in site.nodes), "n1")
    if site.qos:
        yield "A cap of a QOS", f"QOS={site.qos[0].name} MaxTRESPU=gres/gpu=8"
    for account in [one.account for one in site.associations if not one.user][-1:]:
        yield "A cap of an account", f"Account={account} GrpTRES=gres/gpu=16"
    if site.partitions:
        name = site.partitions[0].name
        yield "A partition's longest limit", f"PartitionName={name} MaxTime=4:00:00"
        yield "A partition's nodes", f"PartitionName={name} Nodes={node}"
    yield (
        "A reservation (UTC)",
        (
            f"ReservationName=upgrade StartTime=2030-01-01T08:00:00 EndTime=2030-01-01T12:00:00 Nodes={node}"
        ),
    )
    yield "A node more", f"NodeName={node}-new Like={node}"
    yield "A node less", f"NodeName={node} State=DOWN"
    yield "Another policy", "PriorityType=priority/basic"
    yield "Another backfill", "SchedulerParameters=bf_interval=60,bf_max_job_test=1000"


def _nodes(nodes: Sequence[Node], named: str, given: Record, written: str) -> Iterator[Node]:
    """Nodes with the state of some changed, or with others behind them that are like one of them."""
    names, known = hosts(named), {node.name: node for node in nodes}
    if other := next((field for field in given if field not in _OF_NODES), ""):
        raise Problem(
            f"{written!r}: {other} is no field of a node that can change{nearest(other, _OF_NODES)}",
            mend=f"fields are {' and '.join(_OF_NODES)}",
        )
    wanted = [given["Like"]] if "Like" in given else list(names)
    if unknown := next((name for name in wanted if name not in known), ""):
        raise Problem(f"{written!r}: there is no node {unknown}{nearest(unknown, known)}")
    if "Like" in given:
        idle = replace(known[given["Like"]], held={}, state=frozenset(("IDLE",)))
        yield from nodes
        yield from (replace(idle, name=name) for name in names if name not in known)
        return
    if "State" not in given:
        raise Problem(
            f"{written!r} changes nothing",
            mend="write NodeName=a1 State=DOWN, or NodeName=a9 Like=a1",
        )
    state = frozenset((given["State"].upper(),))
    for node in nodes:
        yield replace(node, state=state) if node.name in names else node


def _with(
    known: Sequence[Any], key: str, first: Record, given: Record, read: Callable[[Record], Any]
) -> list[Any]:
    """Objects of which the one that ``first`` names has the values ``given``, as ``read`` reads them."""
    [name], names = first.values(), [getattr(one, key) for one in known]
    if name not in names:
        kind = "QOS" if "Name" in first else next(iter(first))
        raise Problem(f"there is no {kind} {name!r}{nearest(name, names)}")
    if not given:
        raise Problem(f"of {name!r} nothing changes", mend="name a field, as in MaxTime=2:00:00")
    usual = read(first)
    values: dict[str, Any] = {}
    for field, value in given.items():
        new = read({**first, field: re.sub(r"-1\b", "1", value)})
        away = re.search(r"(^|=)-1\b", value) is not None
        changes = _differs(usual, new, usual if away else new)
        if not changes:
            raise Problem(f"{field}={value}: {field} is no field that is modelled, or says nothing")
        for attribute, changed in changes.items():
            old = values.get(attribute)
            values[attribute] = old | changed if isinstance(changed, dict) and old else changed
    return [_applied(one, values) if getattr(one, key) == name else one for one in known]


def _differs(usual: Any, given: Any, new: Any) -> dict[str, Any]:
    """The attributes in which ``given`` differs from ``usual``, as ``new`` has them; of parts as mappings."""
    found: dict[str, Any] = {}
    for field in fields(usual):
        one, other, value = (getattr(each, field.name) for each in (usual, given, new))
        if one != other:
            found[field.name] = _differs(one, other, value) if is_dataclass(one) else value
    return found


def _applied(one: Any, values: Mapping[str, Any]) -> Any:
    parts = {
        name: _applied(getattr(one, name), value) if is_dataclass(getattr(one, name)) else value
        for name, value in values.items()
    }
    return replace(one, **parts)
