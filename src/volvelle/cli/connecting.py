"""The server that a command talks to; one that has just been started is waited for."""

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from volvelle.live.http.client import ApiClient

WAIT_SECONDS = 5.0
"""So long a server in this folder is waited for, as in ``volvelle serve & volvelle submit ...``."""
_SILENT_SECONDS = 1.0
_LOOK_SECONDS = 0.05


def find_server() -> "ApiClient":
    """A client of the server that is named, or near. Raises `Problem` if there is none."""
    from volvelle.live.http.client import ApiClient

    if not os.environ.get("VOLVELLE_SERVER"):
        _wait_for_start()
    return ApiClient.find()


def _wait_for_start() -> None:
    from volvelle.cli.output import remark

    began = time.monotonic()
    said = False
    while not _listens():
        waited = time.monotonic() - began
        if waited >= WAIT_SECONDS:
            return
        if waited >= _SILENT_SECONDS and not said:
            remark(
                f"waiting up to {WAIT_SECONDS:.0f} s for a server to start here (volvelle serve)"
            )
            said = True
        time.sleep(_LOOK_SECONDS)


def _listens() -> bool:
    """Whether a server near says where it listens, and does."""
    from volvelle.live.serve_folder import ServeFolder

    folder = ServeFolder.nearest(Path.cwd())
    if folder is None:
        return False
    address = urlsplit(folder.read_address().url)
    try:
        with socket.create_connection((address.hostname or "", address.port or 0), WAIT_SECONDS):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # what is wrong is told by the request
