"""``volvelle agent``: the agent of this machine, for a controller with executor ``dial-in``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from volvelle.live.agent.gpus import Gpu


def agent(
    connect: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the controller listens for agents.")
    ],
    node: Annotated[str, typer.Option(metavar="NAME", help="This node, as the cluster calls it.")],
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The server's agents.token: with it a node joins that has no key yet.",
            exists=True,
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The node's key; made if there is none.  [default: DIR/key]"
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The first N GPUs. Default: all.")
    ] = None,
    gpu_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Their type, as in a100.  [default: nvidia-smi's]"),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="A label of this node; as the cluster says."),
    ] = None,
    pretend: Annotated[bool, typer.Option(help="The GPUs are made up, jobs see none.")] = False,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Of this agent alone; kept over restarts.")
    ] = Path("volvelle-agent"),
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where jobs start and checkpoint; one for all nodes. Default: own."
        ),
    ] = None,
    run_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[USER=]NAME",
            help="Run jobs (of USER, or of all others) as the system's user NAME. Needs root.",
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(metavar="HOST", help="Where other nodes reach this one. Default: as seen."),
    ] = "",
    keep: Annotated[
        str, typer.Option(metavar="DURATION", help="How long logs are kept after a run's end.")
    ] = "30d",
    authority: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="PEM file of the certificates to trust; turns TLS on.", exists=True
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="No TLS on a network: who is on the way can run code here."
        ),
    ] = False,
) -> None:
    """Run jobs on this machine for a controller whose executor is dial-in.

    volvelle agent --connect head:7475 --node gpu03 --token-file agents.token --authority head.pem
    """
    import asyncio
    import os
    from functools import partial

    import cryptography  # noqa: F401 - it proves the key: an agent without it is told before it connects

    from volvelle.cli.formatting import format_gpus
    from volvelle.live.agent.controller_connection import RefusedError
    from volvelle.live.agent.files import current_umask
    from volvelle.live.agent.folders import AgentFolder, AgentSettings
    from volvelle.live.agent.gpus import common_type
    from volvelle.live.agent.job_users import check_run_as
    from volvelle.live.agent.node_agent import run_agent
    from volvelle.live.agent.node_key import read_or_make_key
    from volvelle.live.plain_connections import stays_on_machine
    from volvelle.model.node import Node, read_labels
    from volvelle.model.problems import Problem

    if "://" in connect:
        raise Problem(
            f"{connect} is no HOST:PORT; http:// stands before the dashboard's address",
            mend="connect to where serve says that each node runs its agent",
            usage=True,
        )
    host = connect.rpartition(":")[0]
    if not (authority or insecure or stays_on_machine(host)):
        raise Problem(
            f"whoever is on the way to {host} could run code here, as there is no TLS",
            mend="give --authority, or say --insecure",
            usage=True,
        )
    found = _gpus(gpus, pretend=pretend)
    umask = current_umask()
    os.umask(0o077)
    kept = AgentFolder(folder.absolute())
    users = _run_as(run_as or [])
    check_run_as(users, [kept.path, work or kept.path / "work"])
    settings = AgentSettings(
        node=Node(
            node,
            len(found) if gpus is None else gpus,
            common_type(found) if gpu_type is None else gpu_type,
            labels=read_labels(labels or []),
        ),
        connect=connect,
        key=read_or_make_key(key_file or folder / "key"),
        token=token_file.read_text(encoding="utf-8").strip() if token_file else "",
        address=address,
        devices=None if pretend else tuple(gpu.device for gpu in found),
        work=str(work.absolute()) if work else "",
        umask=umask,
        run_as=users,
        authority=str(authority.absolute()) if authority else "",
        retention_seconds=_retention_seconds(keep),
    )
    joined = f"connected to {connect} as {node}, {format_gpus(settings.node.gpus)} offered"
    told = partial(print, joined, flush=True)
    try:
        if not asyncio.run(run_agent(kept, settings, _print_problem, told)):
            raise Problem(f"another agent works in {folder}", mend="give each its own --folder")
    except RefusedError as error:
        raise Problem(f"the controller at {connect} refuses: {error}") from None


def _run_as(given: list[str]) -> dict[str, str]:
    """Users of the system by users of the cluster."""
    from volvelle.live.agent.job_users import EVERYBODY

    pairs = (each.rpartition("=") for each in given)
    return {user or EVERYBODY: name for user, _, name in pairs}


def _print_problem(problem: str) -> None:
    print(f"{problem}; the agent goes on and tries again.", file=sys.stderr, flush=True)


def _retention_seconds(keep: str) -> float:
    """Seconds of the duration in ``keep``. Raises `Problem`."""
    from volvelle.durations import parse_duration
    from volvelle.model.problems import Problem

    try:
        seconds = parse_duration(keep)
    except ValueError as error:
        raise Problem(f"--keep: {error}", usage=True) from None
    if seconds < 1.0:
        raise Problem("--keep: logs are kept for a second at least", usage=True)
    return seconds


def _gpus(gpus: int | None, *, pretend: bool) -> "tuple[Gpu, ...]":
    """The GPUs that are given to jobs; none if they are made up. Raises `Problem`."""
    from volvelle.live.agent.gpus import find_gpus
    from volvelle.model.problems import Problem

    found = () if pretend else find_gpus()
    if pretend and gpus is None:
        raise Problem("--pretend needs the number of GPUs", mend="say --gpus N", usage=True)
    if not pretend and len(found) < (gpus or 1):
        raise Problem(
            f"nvidia-smi finds {len(found)} GPUs here, {gpus or 'at least 1'} wanted",
            mend="say how many there are, or --pretend",
        )
    return found[:gpus]
