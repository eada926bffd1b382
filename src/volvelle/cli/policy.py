"""``volvelle policy``: shows and sets the policy of a server."""

import json
from operator import itemgetter
from typing import Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, show_rows

app = typer.Typer(invoke_without_command=True)


@app.callback()
def policy(context: typer.Context, output: options.Output = Form.TABLE) -> None:
    """The policy and the admission that decide on a server now.

    volvelle policy set srsf --dry-run
    """
    if context.invoked_subcommand is not None:
        return
    from volvelle.live.http.client import ApiClient

    found = ApiClient.find().get("/v1/policy")
    if output is Form.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        heads = [Head(part, itemgetter(part)) for part in found]
        show_rows([found], heads, list(found), output, "")


@app.command("set")
def set_policy(
    written: Annotated[
        str,
        typer.Argument(
            metavar="NAME[:KEY=VALUE,...]", help="The policy; of a front: pcs:front.json#balanced."
        ),
    ],
    admission: Annotated[
        str | None,
        typer.Option(
            "--admission", metavar="NAME[:KEY=VALUE,...]", help="Which jobs are admitted."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print its immediate effect.")
    ] = False,
) -> None:
    """Set another policy, also while jobs run (operators).

    volvelle policy set las:round=1m
    """
    from volvelle.live.http.client import ApiClient

    client = ApiClient.find()
    wanted = {"policy": _with_parameters(written), "admission": admission}
    wanted = {part: value for part, value in wanted.items() if value is not None}
    if dry_run:
        effect = client.post("/v1/policy/forecast", wanted)
        done = (("stop", "stops"), ("start", "starts"), ("resize", "resizes"))
        parts = [f"{verb} {_jobs(effect[key])}" for verb, key in done if effect[key]]
        print(f"would {', '.join(parts)}" if parts else "would change nothing at once")
        return
    now = client.put("/v1/policy", wanted)
    print(f"{now['policy']} decides, admission {now['admission']}")


def _with_parameters(written: str) -> str:
    """A policy of a front file with all its parameters: the server does not read the file."""
    if ".json" not in written:
        return written
    from volvelle.core.composition import WrittenComposition

    return WrittenComposition(written).build().policy.label


def _jobs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return f"{len(numbers):,} job{'' if len(numbers) == 1 else 's'} ({shown}{more})"
