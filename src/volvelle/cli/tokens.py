"""``volvelle token``: access tokens (for operators)."""

from typing import Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, show_rows
from volvelle.live.role import Role

app = typer.Typer(no_args_is_help=True, help="Access tokens (for operators).")

_KEYS = ("id", "user", "role", "label", "created", "expires")


@app.command()
def create(
    user: Annotated[str, typer.Option("--user", "-u", help="The user, or the node, it is for.")],
    role: Annotated[
        Role,
        typer.Option(
            help="user: submit jobs; operator: manage the cluster too; agent: run the node --user."
        ),
    ] = Role.USER,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long it is valid.  [default: ever]")
    ] = None,
) -> None:
    """Create a token and print it. It is shown only once; the server stores its hash.

    volvelle token create --user dana --expires 30d

    volvelle token create --user gpu03 --role agent > gpu03.key
    """
    from volvelle.live.http.client import ApiClient

    wanted = {"user": user, "role": role.value, "label": label, "expires": expires}
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
        Head("expires", lambda token: format_moment(token["expires"], local_now())),
        Head("label", lambda token: token["label"]),
    ]
    show_rows(ApiClient.find().get("/v1/tokens"), heads, _KEYS, output, "There are no tokens.")


@app.command()
def rotate(
    id: Annotated[str, typer.Argument(metavar="ID", help="As volvelle token list shows it.")],
) -> None:
    """Create a token like another one, print it, and revoke the other one.

    It is valid for as long as the other one was from its creation on.
    """
    from volvelle.live.http.client import ApiClient
    from volvelle.model.problems import Problem

    client = ApiClient.find()
    old = next((each for each in client.get("/v1/tokens") if each["id"] == id), None)
    if old is None:
        raise Problem(f"there is no token {id!r}", mend="see: volvelle token list")
    wanted = {key: old[key] for key in ("user", "role", "label")}
    if old["expires"] is not None:
        wanted["expires"] = old["expires"] - old["created"]
    print(client.post("/v1/tokens", wanted)["token"])
    client.delete(f"/v1/tokens/{id}")


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As volvelle token list shows it.")],
) -> None:
    """Revoke a token."""
    from urllib.parse import quote

    from volvelle.live.http.client import ApiClient

    ApiClient.find().delete(f"/v1/tokens/{quote(id, safe='')}")
    print(f"token {id} revoked")
