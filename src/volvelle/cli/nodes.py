"""``volvelle nodes``: listing, draining and resuming nodes."""

from typing import Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, Row, show_rows, warn

app = typer.Typer(invoke_without_command=True)

_KEYS = ("name", "state", "gpus", "gpu_type", "labels", "free", "jobs", "away")

Names = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")]


@app.callback()
def nodes(context: typer.Context, output: options.Output = Form.TABLE) -> None:
    """The nodes: their states, free GPUs and jobs.

    volvelle nodes drain node-3
    """
    if context.invoked_subcommand is not None:
        return
    from volvelle.live.http.client import ApiClient

    heads = [
        Head("node", lambda node: node["name"]),
        Head("state", lambda node: ", ".join(filter(None, (node["state"], node.get("away"))))),
        Head("GPUs", lambda node: str(node["gpus"]), right=True),
        Head("free", _format_free, right=True),
        Head("type", lambda node: node["gpu_type"] or "-"),
        Head("labels", lambda node: ",".join(node["labels"]) or "-"),
        Head("jobs", lambda node: " ".join(map(str, node["jobs"]))),
    ]
    found = ApiClient.find().get("/v1/nodes")
    show_rows(found["nodes"], heads, _KEYS, output, "There are no nodes.")
    warn(found["problems"])


@app.command()
def drain(names: Names) -> None:
    """Let jobs on nodes run to their ends and start nothing new there (operators)."""
    _change_each(names, "drain", "takes no new jobs")


@app.command()
def resume(names: Names) -> None:
    """Let drained nodes take jobs again (operators)."""
    _change_each(names, "resume", "takes jobs")


def _format_free(node: Row) -> str:
    """GPUs that jobs could be given: none of a node that takes no jobs."""
    return "-" if node["state"] in ("down", "draining") else str(node["free"])


def _change_each(names: list[str], action: str, done: str) -> None:
    from urllib.parse import quote

    from volvelle.live.http.client import ApiClient

    client = ApiClient.find()
    for name in names:
        client.post(f"/v1/nodes/{quote(name, safe='')}/{action}")
        print(f"{name} {done}")
