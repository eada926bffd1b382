"""``volvelle serve``: the scheduler of a real cluster."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options

if TYPE_CHECKING:
    from volvelle.live.serving import RunningServer

_listen = options.under("Where it listens")
_DEMO = {
    "cluster": "4x8",
    "policy": "srsf",
    "executor": "local:pretend=true",
    "folder": Path("volvelle-serve-demo"),
}


def serve(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file with all of this; options come before it."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="This machine as one node with so many GPUs.")
    ] = None,
    cluster: options.Cluster = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", "-p", metavar="NAME[:KEY=VALUE,...]", help="Who gets how many GPUs."
        ),
    ] = None,
    placement: options.Placement = None,
    admission: Annotated[
        str | None, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="Which jobs are admitted.")
    ] = None,
    estimator: options.Estimator = None,
    executor: Annotated[
        str | None,
        typer.Option(metavar="NAME[:KEY=VALUE,...]", help="What runs the jobs.  [default: local]"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What is kept.  [default: volvelle-serve]")
    ] = None,
    address: Annotated[
        str | None, _listen(help="0.0.0.0: all networks.  [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, _listen(min=0, max=65535, help="0: any that is free.  [default: 8421]")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Made-up GPUs and jobs that sleep, to look at.")
    ] = False,
) -> None:
    """Run a cluster: take jobs, decide, start and stop them, until Ctrl-C. Jobs run on meanwhile.

    volvelle serve --demo

    volvelle serve --gpus 8

    volvelle serve --config cluster.toml
    """
    from contextlib import ExitStack

    from volvelle.live.serve_folder import DEFAULT_FOLDER, ServeFolder
    from volvelle.model.problems import Problem

    if gpus is not None and cluster is not None:
        raise Problem("--gpus and --cluster are two clusters", mend="give one of them", usage=True)
    given: dict[str, Any] = {
        "cluster": f"1x{gpus}" if gpus is not None else cluster,
        "policy": policy,
        "placement": placement,
        "admission": admission,
        "estimator": estimator,
        "executor": executor,
        "folder": folder,
        "listen.address": address,
        "listen.port": port,
    }
    if demo:
        given |= {key: value for key, value in _DEMO.items() if given[key] is None}
        folder = given["folder"]
    with ExitStack() as stack:
        if config is None:  # at once, so that a command right after "volvelle serve &" waits
            stack.enter_context(ServeFolder(folder or DEFAULT_FOLDER).starting())
        from volvelle.live.config import ServeConfig

        loaded = ServeConfig.load(config, given)
        if config is not None:
            stack.enter_context(ServeFolder(loaded.folder).starting())
        from volvelle.live.serving import run_server

        if demo:
            from volvelle.live.demo_jobs import end_jobs

            run_server(loaded, _show_demo, end_jobs)
        else:
            run_server(loaded, _print_ready)


def _show_demo(server: "RunningServer") -> None:
    from volvelle.live.demo_jobs import submit_demo_jobs
    from volvelle.live.http.client import ApiClient
    from volvelle.live.serve_folder import read_secret

    _print_ready(server, "Ctrl-C stops it and its jobs.")
    token = read_secret(server.folder.token_file)
    submit_demo_jobs(ApiClient(server.url, token), server.cluster.gpus)


def _print_ready(server: "RunningServer", at_end: str = "Ctrl-C stops, jobs run on.") -> None:
    from volvelle.cli.formatting import counted
    from volvelle.live.serve_folder import DEFAULT_FOLDER
    from volvelle.notebook.facts import cluster_line

    jobs = server.controller.status.jobs
    print(f"{server.policy} on {cluster_line(server.cluster)}, at {server.url}")
    for warning in server.controller.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if jobs:
        print(f"{counted(len(jobs), 'job')} from before, see: volvelle queue")
    token = f"{server.folder.token_file} has the first operator's"
    print(f"In a browser it asks for a token: {token}. {at_end}")
    if server.trust:
        print(server.trust)
    if server.joining:
        print(f"Each node runs its agent, as the first one: {server.joining}")
    submit = "volvelle submit --gpus 1 -- python train.py"
    if server.folder.path.name == DEFAULT_FOLDER.name:
        print(f"Next, beside this folder: {submit}", flush=True)
    else:
        where = shlex.quote(str(server.folder.path))
        print(f"Next: VOLVELLE_SERVER={where} {submit}", flush=True)
