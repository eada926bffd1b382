"""Slurm as attach sees it: what is asked and kept of it, and the facets of its site."""

import re

from volvelle.incumbents.attach.incumbent import Incumbent, Naive, Records
from volvelle.incumbents.slurm.forecast import foresee
from volvelle.incumbents.slurm.read_jobs import read_snapshot
from volvelle.incumbents.slurm.read_site import read_site
from volvelle.incumbents.slurm.site import Site
from volvelle.incumbents.slurm.snapshot import Snapshot
from volvelle.incumbents.slurm.text import record
from volvelle.incumbents.slurm.what_if import changed, examples

POLLED = {"job": "JobId", "node": "NodeName", "reservation": "ReservationName"}
"""Kinds that are asked for at each poll, with the first field of a record."""
_NOT_KEPT = frozenset(
    {"SubmitLine", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "SystemComment"}
    | {"AdminComment", "GroupId", "MCS_label", "RunTime", "AllocNode:Sid", "BatchHost", "ExitCode"}
    | {"DerivedExitCode", "MailUser", "MailType", "Network", "Power", "OS", "Arch", "NodeAddr"}
    | {"NodeHostName", "Port", "CPULoad", "FreeMem", "LastBusyTime", "CurrentWatts", "AveWatts"}
    | {"BootTime", "SlurmdStartTime", "Version", "Extra", "Container", "BatchFlag", "Reboot"}
)
_PLACE = re.compile(r"^\s*\S*(Host|Addr)\S*\s*=|=\s*(/|\S+/[^/\s]+/)| is (UP|DOWN)")
"""Lines of the configuration that name a host, an address or a path."""


def incumbent() -> Incumbent[Site, Snapshot]:
    """Slurm, read by the texts of its commands."""
    return Incumbent(
        name="slurm",
        title="Slurm",
        titles={
            "partition": "partition",
            "account": "account",
            "qos": "QOS",
            "start": "site tells",
        },
        naive=Naive("slurm", "SLURM SAYS", "Slurm"),
        polled=POLLED,
        records=_records,
        answer=_text,
        kept=_kept,
        site=read_site,
        snapshot=read_snapshot,
        foresee=foresee,
        changed=changed,
        examples=examples,
    )


def _kept(kind: str, text: str) -> str:
    """An answer; that of ``scontrol show config`` without hosts, addresses and paths."""
    if kind != "config":
        return text
    lines = (line for line in text.splitlines(keepends=True) if not _PLACE.search(line))
    return "".join(lines)


def _records(kind: str, text: str) -> Records:
    """Records by their first value, without the fields that are not kept."""
    first = f"{POLLED[kind]}="
    found: Records = {}
    for line in text.splitlines():
        if line.startswith(first):
            fields = {key: value for key, value in record(line).items() if key not in _NOT_KEPT}
            found[fields[POLLED[kind]]] = fields
    return found


def _text(_: str, records: Records) -> str:
    """Records as ``scontrol -o show`` writes them, the naming field first."""
    return "".join(
        " ".join(f"{key}={value}" for key, value in fields.items()) + "\n"
        for fields in records.values()
    )
