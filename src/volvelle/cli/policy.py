"""``volvelle policy``: shows and sets the policy of a server."""

import json
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, show_rows, warn

if TYPE_CHECKING:
    from volvelle.live.http.client import ApiClient

_SHOWN = 10
"""Jobs of a dry run that are listed."""


class _Commands(TyperGroup):
    """The commands; the name of a policy is answered with how to set it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a line."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}. To set a policy: volvelle policy set NAME")
        return super().resolve_command(ctx, args)


app = typer.Typer(invoke_without_command=True, cls=_Commands)


@app.callback()
def policy(context: typer.Context, output: options.Output = Form.TABLE) -> None:
    """The policy and the admission that decide on a server now.

    volvelle policy set srsf --dry-run
    """
    if context.invoked_subcommand is not None:
        return
    from volvelle.live.http.client import ApiClient

    client = ApiClient.find()
    found = client.get("/v1/policy")
    if output is Form.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        heads = [Head(part, itemgetter(part)) for part in found]
        show_rows([found], heads, list(found), output, "")
    warn(client.get("/v1/jobs", limit=1, fields=["number"])["problems"])


@app.command("set")
def set_policy(
    written: Annotated[
        str,
        typer.Argument(
            metavar="NAME[:KEY=VALUE,...]", help="The policy; of a front: pcs:front.json#balanced."
        ),
    ],
    admission: Annotated[
        str | None, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="Which jobs are admitted.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print whom it would stop, start and move.")
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
        _show_effect(client, wanted)
        return
    now = client.put("/v1/policy", wanted)
    print(f"{now['policy']} decides, admission {now['admission']}")


def _with_parameters(written: str) -> str:
    """A policy of a front file with all its parameters: the server does not read the file."""
    if ".json" not in written:
        return written
    from volvelle.core.composition import WrittenComposition

    return WrittenComposition(written).build().policy.label


def _show_effect(client: "ApiClient", wanted: dict[str, str | None]) -> None:
    """Effects of another policy: at once, and on the jobs that are there."""
    from volvelle.cli.formatting import counted, format_numbers
    from volvelle.cli.moments import format_moment, local_now
    from volvelle.model.units import format_duration

    now = local_now()
    effect = client.post("/v1/policy/forecast", wanted)
    done = (("stop", "stops"), ("start", "starts"), ("resize", "resizes"))
    parts = [
        f"{verb} {counted(len(numbers), 'job')} ({format_numbers(numbers)})"
        for verb, key in done
        if (numbers := effect[key])
    ]
    print(f"would {', '.join(parts)} at once" if parts else "would change nothing at once")
    found = client.post("/v1/forecast/cluster", wanted)
    for when in ("earlier", "later"):
        if (moves := found[when])["jobs"]:
            mean, most = format_duration(moves["mean"]), format_duration(moves["most"])
            which = f", most job {moves['job']}, by {most}" if moves["jobs"] > 1 else ""
            average = " on average" if which else ""
            print(f"{counted(moves['jobs'], 'job')} would finish {when}, by {mean}{average}{which}")
    if not found["jobs"]:
        print("no job that is there would finish at another time")
        return
    heads = [
        Head("job", lambda job: str(job["number"]), right=True),
        Head("name", itemgetter("name")),
        Head("user", itemgetter("user")),
        *(
            Head(title, partial(lambda key, job: format_moment(job[key], now), key))
            for title, key in (
                ("starts", "start_before"),
                ("then", "start"),
                ("finishes", "finish_before"),
                ("then", "finish"),
            )
        ),
    ]
    show_rows(found["jobs"][:_SHOWN], heads, (), Form.TABLE, "")
    if len(found["jobs"]) > _SHOWN:
        print("(those that move most)")
