"""The site, from the answers of Slurm's commands or from ``slurm.conf``; what is missing becomes a remark."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from volvelle.incumbents.slurm.read_accounts import QOS, read_associations, read_qos, with_usage
from volvelle.incumbents.slurm.read_jobs import gpus_of, read_nodes, read_reservations
from volvelle.incumbents.slurm.site import Config, Node, Partition, Site
from volvelle.incumbents.slurm.slurm_conf import PARTITION, lines, unheeded, values
from volvelle.incumbents.slurm.text import (
    counted,
    duration,
    hosts,
    memory,
    number,
    present,
    records,
    table,
    whole,
    words,
)
from volvelle.model.problems import Problem

KINDS: Mapping[str, str] = {
    "config": r"Configuration data as of ",
    "partition": r"PartitionName=\S+ AllowGroups=",
    "node": r"NodeName=\S+ .*(CPUTot|CPUAlloc)=",
    "reservation": r"ReservationName=\S+ StartTime=",
    "job": r"JobId=\d+ ",
    "assoc_mgr": r"Current Association Manager state",
    "licenses": r"LicenseName=",
    "qos": r"Name\|Priority\|",
    "assoc": r"Cluster\|Account\|User\|",
    "dump": r"Cluster - '",
    "sshare": r"Account\|User\|RawShares\|",
    "sdiag": r"sdiag output at ",
    "sacct": r"(JobIDRaw|JobID)\|",
    "slurm.conf": r"(ClusterName|SlurmctldHost|ControlMachine)\s*=",
}
"""How the answer of each command begins a line; files of a folder are told apart by this, not by name."""
CUT = "cut"
"""The kind of the names of files that end within a line."""
NAMED = "name of slurm.conf"
"""The kind of the name of the file that holds ``slurm.conf``."""
_COMMANDS = {
    "config": "scontrol show config",
    "partition": "scontrol -o show partition",
    "node": "scontrol -o show node",
    "qos": "sacctmgr -P show qos",
    "assoc": "sacctmgr -P show assoc",
}
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "partition": ("PartitionName", *PARTITION.split(), "TotalCPUs", "TotalNodes", "TRES"),
    "qos": ("Name", *QOS.split()),
}
"""The fields that answers have, known or of no use to a schedule."""
MOST_BYTES = 512 * 1024**2
"""Of a file of a folder that is looked at."""


def texts_of(folder: Path) -> dict[str, str]:
    """The answers in a folder's files, by kind. Raises `Problem` where none is one of Slurm's."""
    if not folder.is_dir():
        raise Problem(f"there is no folder {folder}", mend="check the path", usage=True)
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".gz", ".json", ".jsonl") or not path.is_file():
            continue
        if path.stat().st_size > MOST_BYTES:
            raise Problem(f"{path} has more than 512 MiB", mend="leave it out of the folder")
        text = path.read_text(encoding="utf-8", errors="replace")
        kind = kind_of(text)
        if kind and kind not in found:
            found[kind] = text
            if kind == "slurm.conf":
                found[NAMED] = path.name
            elif not text.endswith("\n"):
                found[CUT] = ", ".join(filter(None, (found.get(CUT), path.name)))
    if not found.keys() - {"sacct", "job", CUT}:
        raise Problem(
            f"no file in {folder} describes a site of Slurm",
            mend=f"write into it what these say: {', '.join(_COMMANDS.values())}",
        )
    return found


def kind_of(text: str) -> str:
    """Of which command this is the answer; empty where it is of none."""
    head = text[:100_000]
    for kind, begins in KINDS.items():
        if re.search(f"^{begins}", head, re.MULTILINE):
            return kind
    return ""


def read_site(texts: Mapping[str, str]) -> Site:
    """The site that these answers describe, by kind (`KINDS`); ``slurm.conf`` fills what they lack.

    Raises `Problem` where there are no nodes or no partitions: nothing can be decided without them.
    """
    keys, conf_nodes, conf_partitions = _conf(texts.get("slurm.conf", ""))
    config = Config(keys | _config(texts.get("config", "")))
    nodes = tuple(read_nodes(texts.get("node", ""))) or tuple(conf_nodes)
    partitions = tuple(_partitions(texts.get("partition", ""), nodes)) or tuple(
        placed(conf_partitions, nodes)
    )
    for what, there, kind in (("nodes", nodes, "node"), ("partitions", partitions, "partition")):
        if not there:
            raise Problem(
                f"nothing says which {what} the site has",
                mend=f"add the answer of '{_COMMANDS[kind]}', or slurm.conf",
            )
    partitions, unknown = _within(partitions, nodes)
    cluster = config.text("ClusterName", "cluster")
    qos = tuple(read_qos(texts.get("qos", "")))
    associations = tuple(read_associations(texts, cluster))
    licences = {
        line["LicenseName"]: number(line.get("Total"))
        for line in records(texts.get("licenses", ""), "LicenseName")
    } or counted(config.text("Licenses"))
    site = Site(
        cluster=cluster,
        version=config.text("SLURM_VERSION"),
        config=config,
        nodes=in_partitions(nodes, partitions),
        partitions=partitions,
        qos=qos,
        associations=with_usage(associations, texts),
        reservations=tuple(read_reservations(texts.get("reservation", ""))),
        licences=licences,
    )
    return replace(site, remarks=(*unknown, *_remarks(texts, site)))


def _within(
    partitions: tuple[Partition, ...], nodes: tuple[Node, ...]
) -> tuple[tuple[Partition, ...], list[str]]:
    """The partitions with the nodes that are known, and a sentence on those that lack some."""
    known, said = {node.name for node in nodes}, []
    for one in partitions:
        if missing := sorted(set(one.nodes) - known):
            said.append(
                f"Partition {one.name}: nothing else is said of {len(missing)} of its nodes"
                f" ({missing[0]}), so it is taken to be without them."
            )
    there = (
        replace(one, nodes=tuple(name for name in one.nodes if name in known)) for one in partitions
    )
    return tuple(there), said


def _remarks(texts: Mapping[str, str], site: Site) -> Iterator[str]:
    config = site.config
    yield from unheeded(texts.get("slurm.conf", ""), texts.get(NAMED, "slurm.conf"))
    for kind, known in _FIELDS.items():
        rows = (
            table(texts.get(kind, "")) if kind == "qos" else records(texts.get(kind, ""), known[0])
        )
        if new := sorted({name for row in rows for name in row}.difference(known)):
            yield f"'{_COMMANDS[kind]}' says {', '.join(new)}, which is not known here; it is not heeded."
    if CUT in texts:
        yield f"Half an answer: {texts[CUT]} ended within a line, and what would follow is not known."
    if not config.keys:
        yield (
            "No configuration was read (scontrol show config): Slurm's defaults are taken, first come,"
            " first served within a partition."
        )
    accounting = config.text("AccountingStorageType") not in ("", "accounting_storage/none")
    if config.keys and not accounting:
        yield (
            "The cluster keeps no accounting: there are no QOS, accounts or fair shares; forecasts work"
            " without them."
        )
    elif not site.qos:
        yield (
            "No QOS was read (sacctmgr -P show qos): limits and priorities of QOS are not known, jobs"
            " held by these get the start that they would have without."
        )
    if accounting and not site.associations:
        yield (
            "No accounts were read (sacctmgr -P show assoc): their limits and fair shares are not"
            " known; priorities of jobs are taken as Slurm shows them."
        )
    private = config.words("PrivateData") - {"NONE"}
    if private & {"JOBS", "USERS", "USAGE"}:
        yield (
            f"PrivateData hides {', '.join(sorted(private)).lower()}: an ordinary user sees own jobs"
            " alone, and forecasts hold only as far as those; an operator's account sees all."
        )
    if private & {"NODES", "PARTITIONS", "RESERVATIONS"}:
        yield (
            f"PrivateData hides {', '.join(sorted(private)).lower()}: what is hidden is not planned"
            " around."
        )
    version = re.match(r"(\d+)\.(\d+)", site.version)
    if version and (int(version[1]), int(version[2])) < (22, 5):
        yield f"Slurm {site.version} is older than 22.05: known keys are read, nothing older was tried."


def _config(text: str) -> dict[str, str]:
    """``scontrol show config``: ``Key   = value`` lines."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and present(value.strip()):
            found[key.strip()] = value.strip()
    return found


def _conf(text: str) -> tuple[dict[str, str], list[Node], list[Partition]]:
    """``slurm.conf``: plain keys, nodes and partitions; of includes nothing is known."""
    keys: dict[str, str] = {}
    nodes: list[Node] = []
    partitions: list[Partition] = []
    defaults: dict[str, dict[str, str]] = {"NodeName": {}, "PartitionName": {}}
    for _, line in lines(text):
        own = values(line)
        first = next(iter(own), "")
        if first not in defaults:
            keys |= own
            continue
        if own[first] == "DEFAULT":
            defaults[first] |= own
            continue
        own = defaults[first] | own
        if first == "PartitionName":
            partitions.append(read_partition(own))
            continue
        nodes += (
            Node(
                name=name,
                cpus=_cpus(own),
                memory=number(own.get("RealMemory"), 1.0) - number(own.get("MemSpecLimit")),
                gpus=gpus_of(own.get("Gres")),
                features=words(own.get("Feature") or own.get("Features")),
                weight=number(own.get("Weight"), 1.0),
            )
            for name in hosts(own["NodeName"])
        )
    return keys, nodes, partitions


def _cpus(own: Mapping[str, str]) -> float:
    if "CPUs" in own:
        return number(own["CPUs"], 1.0)
    parts = ("Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
    product = 1.0
    for part in parts:
        product *= number(own.get(part), 1.0)
    return product


def _partitions(text: str, nodes: tuple[Node, ...]) -> Iterator[Partition]:
    return placed([read_partition(line) for line in records(text, "PartitionName")], nodes)


def placed(partitions: Iterable[Partition], nodes: tuple[Node, ...]) -> Iterator[Partition]:
    """Partitions of ``ALL`` nodes have these by name."""
    names = tuple(node.name for node in nodes)
    return (replace(one, nodes=names) if one.nodes == ("ALL",) else one for one in partitions)


def read_partition(line: Mapping[str, str]) -> Partition:
    """A partition of its fields, as ``scontrol show partition`` names them."""
    get = line.get
    shared = (get("OverSubscribe") or get("Shared") or "NO").upper()
    return Partition(
        name=line["PartitionName"],
        nodes=hosts(get("Nodes")),
        tier=int(number(get("PriorityTier"), 1.0)),
        job_factor=number(get("PriorityJobFactor"), 1.0),
        max_seconds=duration(get("MaxTime")),
        default_seconds=duration(get("DefaultTime")),
        min_nodes=whole(get("MinNodes")) or 0,
        max_nodes=whole(get("MaxNodes")),
        max_cpus_per_node=_limit(get("MaxCPUsPerNode")),
        default=(get("Default") or "NO").upper() == "YES",
        up=(get("State") or "UP").upper() == "UP",
        exclusive=shared.startswith("EXCLUSIVE") or (get("Exclusive") or "").upper() == "NODE",
        qos=present(get("QoS")),
        preempt_mode=present(get("PreemptMode")).upper(),
        grace_seconds=number(get("GraceTime")),
        allow_accounts=_names(get("AllowAccounts")),
        deny_accounts=words(get("DenyAccounts")),
        allow_qos=_names(get("AllowQos")),
        deny_qos=words(get("DenyQos")),
        allow_groups=_names(get("AllowGroups")),
        memory_per_cpu=_limit_memory(get("DefMemPerCPU")),
        memory_per_node=_limit_memory(get("DefMemPerNode")),
    )


def _names(text: str | None) -> frozenset[str] | None:
    return None if not text or text.upper() == "ALL" else words(text)


def _limit(text: str | None) -> float | None:
    return number(text) if text and text[0].isdigit() else None


def _limit_memory(text: str | None) -> float | None:
    return memory(text) if text and text[0].isdigit() else None


def in_partitions(nodes: tuple[Node, ...], partitions: tuple[Partition, ...]) -> tuple[Node, ...]:
    """Nodes that say themselves in which partitions they are, as those of ``slurm.conf`` do not."""
    inside: dict[str, list[str]] = {}
    for partition in partitions:
        for name in partition.nodes:
            inside.setdefault(name, []).append(partition.name)
    return tuple(
        node if node.partitions else replace(node, partitions=tuple(inside.get(node.name, ())))
        for node in nodes
    )
