"""Prepares a task: its folders, its command, and a clean environment."""

import os
import pwd
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from volvelle.client.control_block import ControlBlock
from volvelle.live.agent.containers import Container
from volvelle.live.agent.files import write_file
from volvelle.live.agent.folders import AgentFolder, AgentSettings, AttemptFolder
from volvelle.live.agent.job_users import give, job_user, let_through
from volvelle.live.agent.processes import ATTEMPT_VARIABLE, start_ticks
from volvelle.live.agent.wire import StartTask
from volvelle.live.messages import AttemptKey

_INHERITED_VARIABLES = """
    PATH HOME USER LOGNAME SHELL LANG LC_ALL TZ TMPDIR LD_LIBRARY_PATH
""".split()  # noqa: SIM905 - read as a list
"""Variables that a job inherits from its agent."""

UPLOADED = "workdir"
"""Where in a job's folder the files are that were uploaded with it."""

MAX_OUTPUT_BYTES = 4 << 30
"""Of one attempt on one node; a sixteenth where the disk is nearly full."""

_PORTS = range(20_000, 32_768)
"""Below the ports that systems give to outgoing connections."""


def prepare_task(
    order: StartTask, agent: AgentFolder, settings: AgentSettings, lease: Path | None
) -> None:
    """Write all that the supervisor needs. The command comes last; without it nothing is started.

    lease: the file of the node's lease, if it has one. Raises OSError if the disk or the user's paths do not
    allow it.
    """
    key, launch = order.task.key, order.start.launch
    own, folder = job_folder(key, agent, settings), agent.attempt(key)
    directory = (own / UPLOADED if launch.upload else own) / launch.directory
    checkpoint = directory / launch.checkpoint if launch.checkpoint else own / "checkpoint"
    user = job_user(settings.run_as, order.start.user)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is None:
        _check_writable(checkpoint)
    folder.path.mkdir(mode=0o700)
    folder.order = order
    start = order.start
    ControlBlock.create(
        folder.control_block, start.attempt, start.saved_iterations, start.batch_size
    )
    if user is not None:
        _give(own, folder, user)
    pid = settings.lifetime_pid
    inherited = _inherited(user)
    variables = _variables(order, folder, settings, checkpoint)
    programs: list[Sequence[str]] = [*launch.setup, launch.command]
    if launch.container:
        devices = [device for device in variables["CUDA_VISIBLE_DEVICES"].split(",") if device]
        places = own, folder.path, checkpoint.parent
        container = Container.find(launch.container, str(directory), places, variables, devices)
        programs, variables = list(map(container.command, programs)), container.variables()
    command = {
        "command": programs[-1],
        "setup": programs[:-1],
        "directory": str(directory),
        "environment": inherited | variables,
        "user": user and {"name": user.pw_name, "uid": user.pw_uid, "gid": user.pw_gid},
        "umask": settings.umask,
        "output_bytes": MAX_OUTPUT_BYTES,
        "lease": None if lease is None else str(lease),
        "lifetime": [pid, start_ticks(pid)] if pid else None,
    }
    write_file(folder.command, msgspec.json.encode(command))


def job_folder(key: AttemptKey, agent: AgentFolder, settings: AgentSettings) -> Path:
    """The folder of a job, the same for all its attempts, and of no other job with its number."""
    name = f"{key.number}-{key.job}" if key.job else str(key.number)
    return (Path(settings.work) if settings.work else agent.path / "work") / name


def free_port() -> int:
    """A port on which nobody listens now. Raises OSError if none is found."""
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free for the ranks of the job to meet")


def _give(own: Path, folder: AttemptFolder, user: pwd.struct_passwd) -> None:
    """Give the job its files; the mark that it is done is in its own folder. Raises OSError."""
    let_through(folder.path)
    folder.metrics.touch()
    for path in (own, folder.control_block, folder.metrics):
        give(path, user)
    folder.done.symlink_to(own / f"done-{folder.path.name}")


def _inherited(user: pwd.struct_passwd | None) -> dict[str, str]:
    """Variables of the agent's environment that jobs have, as ``user``."""
    inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    if user is not None:
        inherited |= {"HOME": user.pw_dir, "SHELL": user.pw_shell}
        inherited |= dict.fromkeys(("USER", "LOGNAME"), user.pw_name)
    return inherited


def _variables(
    order: StartTask, folder: AttemptFolder, settings: AgentSettings, checkpoint: Path
) -> dict[str, str]:
    start, gpus = order.start, order.start.grants[order.rank].gpus
    devices = [settings.devices[gpu] for gpu in gpus] if settings.devices is not None else []
    return {
        **settings.environment,
        **start.launch.environment,
        ATTEMPT_VARIABLE: str(folder.path),
        "VOLVELLE_JOB": str(start.number),
        "VOLVELLE_ATTEMPT": str(start.attempt),
        "VOLVELLE_NODE": settings.environment.get("VOLVELLE_NODE", settings.node.name),
        "VOLVELLE_NODE_RANK": str(order.rank),
        "VOLVELLE_NODES": str(len(start.grants)),
        "VOLVELLE_GPUS": ",".join(map(str, gpus)),
        "VOLVELLE_CHECKPOINT": str(checkpoint),
        "VOLVELLE_DONE": str(folder.done.readlink() if folder.done.is_symlink() else folder.done),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        "MASTER_ADDR": order.address,
        "MASTER_PORT": str(order.port),
    }


def _check_writable(checkpoint: Path) -> None:
    """Raise PermissionError now, not when the first checkpoint cannot be saved."""
    existing = next(path for path in (checkpoint, *checkpoint.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        raise PermissionError(
            f"checkpoints cannot be written to {checkpoint}: {existing} is read-only"
        )
