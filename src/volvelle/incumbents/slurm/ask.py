"""Asking a running Slurm, here or over ssh, with an ordinary user's rights; writing comments is apart."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from volvelle.incumbents.slurm.attach import POLLED
from volvelle.model.problems import Problem

_ASSOC = (
    "Cluster,Account,User,Partition,ParentName,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpTRESMins,"
    "MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,QOS,DefaultQOS,GrpTRESRunMins"
)
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "config": ("scontrol", "show", "config"),
    "partition": ("scontrol", "-o", "show", "partition"),
}
_WHERE_THERE: Mapping[str, tuple[str, ...]] = {
    "licenses": ("scontrol", "-o", "show", "licenses"),
    "assoc_mgr": ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc"),
    "qos": ("sacctmgr", "-P", "show", "qos"),
    "assoc": ("sacctmgr", "-P", "show", "assoc", f"format={_ASSOC}"),
    "sshare": ("sshare", "-a", "-P"),
}
"""Of which a site may have none, or keep them from ordinary users."""
_ENVIRONMENT = {"TZ": "UTC", "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "standard"}
"""Times in UTC, task numbers of arrays in full."""


class Slurm:
    """The commands of a cluster. Raises `Problem` where one has no answer within ``seconds``."""

    def __init__(self, host: str = "", seconds: float = 30.0) -> None:
        if host.startswith("-"):
            raise Problem(f"{host!r} is no host", mend="write --host login01", usage=True)
        self._host, self._seconds = host, seconds

    def site(self) -> dict[str, str]:
        """The answers that describe the site, by kind; those that this user may not have are left out."""
        found = {kind: self._ask(command) for kind, command in _NEEDED.items()}
        for kind, command in _WHERE_THERE.items():
            try:
                found[kind] = self._ask(command)
            except Problem:
                continue
        return found

    def poll(self) -> dict[str, str]:
        """Jobs, nodes and reservations, one answer after the other."""
        return {kind: self._ask(("scontrol", "-o", "-a", "show", kind)) for kind in POLLED}

    def comment(self, key: str, text: str) -> None:
        """Write a job's AdminComment, which takes an operator's rights."""
        self._ask(("scontrol", "update", f"JobId={key}", f"AdminComment={text}"))

    def _ask(self, command: Sequence[str]) -> str:
        given = [f"{key}={value}" for key, value in _ENVIRONMENT.items()]
        there = ["env", *given, *command]
        if self._host:
            waits = f"ConnectTimeout={max(int(self._seconds), 1)}"
            there = ["ssh", "-o", "BatchMode=yes", "-o", waits, self._host, shlex.join(there)]
        said = " ".join(command[:4])
        try:
            done = subprocess.run(
                there,
                capture_output=True,
                timeout=self._seconds,
                check=False,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ),
            )
        except subprocess.TimeoutExpired:
            raise Problem(f"'{said}' had no answer within {self._seconds:.0f} s") from None
        except FileNotFoundError:
            raise Problem(f"there is no command {there[0]!r} here") from None
        answer = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = lines[-1] if lines else f"exit status {done.returncode}"
            mend = ""
            if done.returncode == _NOT_FOUND or "configuration source" in why:
                mend = "run it on a login node of the cluster, or name one: --host login01"
            elif "permission denied" in why:
                mend = "PrivateData keeps it from ordinary users: attach by an operator's account"
            raise Problem(f"'{said}' failed: {why.rstrip('.')}", mend=mend)
        return answer


_NOT_FOUND = 127
