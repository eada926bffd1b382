"""``volvelle token``: access tokens (for operators)."""

from typing import Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, show_rows
from volvelle.live.http.role import Role

app = typer.Typer(no_args_is_help=True, help="Access tokens (for operators).")

_KEYS = ("id", "user", "role", "label", "created")


@app.command()
def create(
    user: Annotated[str, typer.Option("--user", "-u", help="The user it is for.")],
    role: Annotated[
        Role, typer.Option("--role", help="user: submit jobs; operator: manage the cluster too.")
    ] = Role.USER,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
) -> None:
    """Create a token and print it. It is shown only once; the server stores its hash.

    volvelle token create --user dana
    """
    from volvelle.live.http.client import ApiClient

    wanted = {"user": user, "role": role.value, "label": label}
    print(ApiClient.find().post("/v1/tokens", wanted)["token"])


@app.command("list")
def list_tokens(output: options.Output = Form.TABLE) -> None:
    """The valid tokens."""
    from volvelle.cli.moments import format_moment, local_now
    from volvelle.live.http.client import ApiClient

    heads = [
        Head("id", lambda token: token["id"]),
        Head("user", lambda token: token["user"]),
        Head("role", lambda token: token["role"]),
        Head("created", lambda token: format_moment(token["created"], local_now())),
        Head("label", lambda token: token["label"]),
    ]
    show_rows(ApiClient.find().get("/v1/tokens"), heads, _KEYS, output, "There are no tokens.")


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As volvelle token list shows it.")],
) -> None:
    """Revoke a token."""
    from urllib.parse import quote

    from volvelle.live.http.client import ApiClient

    ApiClient.find().delete(f"/v1/tokens/{quote(id, safe='')}")
    print(f"token {id} revoked")
