"""A small Slurm of real daemons in a folder; jobs sleep, GPUs are empty files.

The daemons are munged, slurmctld, slurmds, and for a site that keeps accounts mariadbd and slurmdbd.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "scontrol", "sbatch")
ACCOUNTING = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr")
_PLACES = f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}"


def missing(needed: tuple[str, ...] = NEEDED, packages: str = "slurmctld slurmd munge") -> str:
    """Why no Slurm of these programs can be started here; empty where it can."""
    there = [name for name in needed if shutil.which(name, path=_PLACES) is None]
    if there:
        return f"no real Slurm here: {', '.join(there)} not installed (Debian: {packages})"
    if os.geteuid() != 0:
        return "no real Slurm here: slurmd starts jobs of users only where it runs as root"
    return ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Daemons:
    """The daemons, their configuration and the environment in which Slurm's commands find them."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 2,
        gpus: int = 4,
        more: str = "",
        *,
        accounting: bool = False,
    ) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.conf = folder / "slurm.conf"
        self.environment = {**os.environ, "PATH": _PLACES, "SLURM_CONF": str(self.conf)}
        host = socket.gethostname().partition(".")[0]
        user = getpass.getuser()
        for name in ("state", "spool", "run"):
            (folder / name).mkdir()
        for number in range(gpus):
            (folder / f"gpu{number}").touch()
        ports = [_free_port() for _ in range(nodes + 1)]
        lines = [
            "ClusterName=small",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/run/munge.socket",
            "CredType=cred/munge",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool/%n",
            f"SlurmctldPidFile={folder}/run/slurmctld.pid",
            f"SlurmdPidFile={folder}/run/slurmd.%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log",
            f"SlurmdLogFile={folder}/slurmd.%n.log",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "MpiDefault=none",
            "SwitchType=switch/none",
            "ReturnToService=2",
            "SlurmdParameters=config_overrides",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SchedulerParameters=bf_interval=5,bf_resolution=5,sched_interval=5",
            "GresTypes=gpu",
            "MinJobAge=300",
            more,
            *(
                f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]}"
                f" CPUs=8 RealMemory=1000 Gres=gpu:x:{gpus}"
                for number in range(1, nodes + 1)
            ),
            f"PartitionName=all Nodes=n[1-{nodes}] Default=YES MaxTime=60 DefaultTime=10",
        ]
        (folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName=n[1-{nodes}] Name=gpu Type=x File={folder}/gpu[0-{gpus - 1}]\n"
        )
        if "22.05" not in self.run("slurmd", "-V"):  # which knows no such plugin, and needs none
            (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        if accounting:
            lines += [
                "AccountingStorageType=accounting_storage/slurmdbd",
                "AccountingStorageHost=127.0.0.1",
                f"AccountingStoragePort={(database := _free_port())}",
                f"AccountingStoragePass={folder}/run/munge.socket",
                "AccountingStorageEnforce=limits,qos",
                "AccountingStorageTRES=gres/gpu",
            ]
        self.conf.write_text("\n".join(lines) + "\n")
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        run = folder / "run"
        self._start(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={folder}/munge.key"),
            *(f"--socket={run}/munge.socket", f"--pid-file={run}/munged.pid"),
            *(f"--log-file={folder}/munged.log", f"--seed-file={run}/munge.seed"),
        )
        if accounting:
            self._keep_accounts(database)
        self.controller()
        for number in range(1, nodes + 1):
            name = f"n{number}"
            self._start(name, "slurmd", "-D", "-N", name, "-f", str(self.conf))
        self._wait(lambda: self.run("sinfo", "-h", "-o", "%T").split(), {"idle"})

    def _keep_accounts(self, port: int) -> None:
        """Start a database of the folder and slurmdbd at a port, and make the cluster's first account."""
        folder, tables, user = self.folder, _free_port(), getpass.getuser()
        store = (f"--datadir={folder}/database", f"--user={user}")
        self._do("mariadb-install-db", "--no-defaults", *store, "--skip-test-db")
        self._start(
            "mariadbd",
            *("mariadbd", "--no-defaults", *store, "--skip-grant-tables"),
            *(
                "--bind-address=127.0.0.1",
                f"--port={tables}",
                f"--socket={folder}/run/database.socket",
            ),
        )
        conf = folder / "slurmdbd.conf"
        lines = [
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/run/munge.socket",
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={port}",
            f"SlurmUser={user}",
            f"PidFile={folder}/run/slurmdbd.pid",
            f"LogFile={folder}/slurmdbd.log",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={tables}",
            f"StorageUser={user}",
        ]
        conf.write_text("\n".join(lines) + "\n")
        conf.chmod(0o600)
        self._wait(lambda: [str((folder / "run/database.socket").exists())], {"True"})
        self._start("slurmdbd", "slurmdbd", "-D")
        self._wait(
            lambda: self.run("sacctmgr", "-n", "-P", "show", "qos", "format=name").split(),
            {"normal"},
        )
        self.run("sacctmgr", "-i", "add", "cluster", "small")

    def _do(self, *command: str) -> None:
        subprocess.run(command, env=self.environment, capture_output=True, check=True, timeout=60)

    def controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        self._wait(lambda: ["UP" if "UP" in self.run("scontrol", "ping") else ""], {"UP"})

    def kill_controller(self) -> None:
        """End slurmctld without notice."""
        self._running["slurmctld"].kill()
        self._running.pop("slurmctld").wait()

    def lose_state(self) -> None:
        """Let slurmctld come back without its state, after an end without notice: numbers begin again."""
        self.kill_controller()
        shutil.rmtree(self.folder / "state")
        (self.folder / "state").mkdir()
        self.controller()

    def run(self, *command: str) -> str:
        """What a command of Slurm printed."""
        done = subprocess.run(
            command,
            env={**self.environment, "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout

    def of_user(self, name: str) -> Path:
        """A folder with Slurm's commands as a user runs them."""
        folder = self.folder / f"commands-of-{name}"
        folder.mkdir()
        for command in ("scontrol", "squeue", "sacctmgr", "sshare"):
            (folder / command).write_text(
                f"#!/bin/sh\nexec setpriv --reuid={name} --clear-groups"
                f' {shutil.which(command, path=_PLACES)} "$@"\n'
            )
            (folder / command).chmod(0o755)
        return folder

    def submit(self, seconds: int, gpus: int, minutes: int = 5, user: str = "") -> str:
        """Submit a job that sleeps; its number."""
        made = self.run(
            *("sbatch", "--parsable", "-o", "/dev/null", "-D", "/", f"-t{minutes}"),
            *([f"--uid={user}"] if user else []),
            *(f"--gres=gpu:{gpus}", "-N1", f"--wrap=sleep {seconds}"),
        )
        return made.strip()

    def stop(self) -> None:
        """End all daemons."""
        for process in reversed(self._running.values()):
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for started in Path("/proc").glob("[0-9]*/environ"):  # steps of jobs outlive their slurmd
            with suppress(OSError):
                if f"SLURM_CONF={self.conf}".encode() in started.read_bytes().split(b"\0"):
                    os.kill(int(started.parent.name), signal.SIGKILL)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                command,
                env=self.environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        if name == "munged":
            self._wait(lambda: [str((self.folder / "run/munge.socket").exists())], {"True"})

    def _wait(self, ask: "object", wanted: set[str], seconds: float = 30.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if set(ask()) == wanted:  # type: ignore[operator]
                return
            time.sleep(0.2)
        logs = "".join(path.read_text()[-800:] for path in sorted(self.folder.glob("*.out")))
        raise RuntimeError(f"Slurm did not come up within {seconds:.0f} s: {logs}")
