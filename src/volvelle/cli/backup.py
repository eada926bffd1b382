"""``volvelle backup`` and ``volvelle restore``: copies of a server's store."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="The server's.  [default: volvelle-serve]"),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The server's, if it names a store.")
]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; a new file.")],
    folder: Folder = None,
    config: Config = None,
) -> None:
    """Copy a server's store to a file, on the machine of the server, which goes on meanwhile.

    volvelle backup monday.db
    """
    from volvelle.live.store.backup import back_up

    back_up(_store_url(folder, config), file)
    print(f"{file} has all that the server had acknowledged.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `volvelle backup` wrote.")],
    folder: Folder = None,
    config: Config = None,
) -> None:
    """Put a backup in the place of a server's store, while no server runs.

    volvelle restore monday.db
    """
    from volvelle.live.store.backup import restore as put_back

    aside = put_back(file, _store_url(folder, config))
    print(f"The store is that of {file}." + (f" The one of before is {aside}." if aside else ""))
    print(
        "The next volvelle serve starts nothing until its nodes have told what runs there, and "
        "numbers new jobs above those that they know."
    )


def _store_url(folder: Path | None, config: Path | None) -> str:
    from volvelle.live.config import ServeConfig

    return ServeConfig.load(config, {"folder": folder}).store_url
