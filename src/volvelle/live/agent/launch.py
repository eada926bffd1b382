"""What a job's processes are given: a command, a place, and an environment with nothing in it by chance."""

import os
import random
import socket
from pathlib import Path

import msgspec

from volvelle.client.control_block import ControlBlock
from volvelle.live.agent.folders import AgentFolder, AttemptFolder, Settings, write
from volvelle.live.agent.processes import MARK, start_ticks
from volvelle.live.agent.wire import Run

_HANDED_ON = """
    PATH HOME USER LOGNAME SHELL LANG LC_ALL TZ TMPDIR LD_LIBRARY_PATH
""".split()  # noqa: SIM905 - read as a list
"""What a job has of its agent's environment."""

_PORTS = range(20_000, 32_768)
"""Below those that systems give to outgoing connections."""


def prepare(run: Run, agent: AgentFolder, settings: Settings, lease: Path | None) -> None:
    """Write down all that the keeper needs; the command last, without which nothing is started.

    lease: the file in which this node's lease stands, where it has one. Raises OSError where the disk or
    the user's paths do not allow it.
    """
    launch, own = run.start.launch, work_folder(run.start.number, agent, settings)
    folder = agent.attempt(run.part.key)
    directory = own / launch.directory
    checkpoint = directory / launch.checkpoint if launch.checkpoint else own / "checkpoint"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_writable(checkpoint)
    folder.path.mkdir(mode=0o700)
    folder.order = run
    ControlBlock.create(folder.block, run.start.attempt, run.start.saved_iterations)
    command = {
        "command": launch.command,
        "directory": str(directory),
        "environment": _environment(run, folder, settings, checkpoint),
        "umask": settings.umask,
        "lease": None if lease is None else str(lease),
        "anchor": [settings.anchor, start_ticks(settings.anchor)] if settings.anchor else None,
    }
    write(folder.command, msgspec.json.encode(command))


def work_folder(number: int, agent: AgentFolder, settings: Settings) -> Path:
    """The folder of a job's own, the same for all its attempts."""
    return (Path(settings.work) if settings.work else agent.path / "work") / str(number)


def free_port() -> int:
    """A port on which nobody listens now."""
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free for the ranks of the job to meet")


def _environment(
    run: Run, folder: AttemptFolder, settings: Settings, checkpoint: Path
) -> dict[str, str]:
    start, gpus = run.start, run.start.grants[run.rank].gpus
    devices = [settings.devices[gpu] for gpu in gpus] if settings.devices is not None else []
    return {
        **{name: os.environ[name] for name in _HANDED_ON if name in os.environ},
        **start.launch.environment,
        MARK: str(folder.path),
        "VOLVELLE_JOB": str(start.number),
        "VOLVELLE_ATTEMPT": str(start.attempt),
        "VOLVELLE_NODE": settings.node.name,
        "VOLVELLE_NODE_RANK": str(run.rank),
        "VOLVELLE_NODES": str(len(start.grants)),
        "VOLVELLE_GPUS": ",".join(map(str, gpus)),
        "VOLVELLE_CHECKPOINT": str(checkpoint),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        "MASTER_ADDR": run.address,
        "MASTER_PORT": str(run.port),
    }


def _check_writable(checkpoint: Path) -> None:
    """Raise PermissionError before hours are computed that nobody could save."""
    there = next(path for path in (checkpoint, *checkpoint.parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise PermissionError(
            f"checkpoints cannot be written to {checkpoint}: {there} is read-only"
        )
