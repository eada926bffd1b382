"""The file in which agents find the server: what stands there is replaced by the address of a link."""

from pathlib import Path

from fault_proxy import Link


def replace_address(file: Path, link: Link) -> None:
    """Replace the address in ``file`` by that of ``link``, whose target it becomes, if the server wrote it.

    The server writes it at each start, agents read it before they connect. One that finds none tries
    again, so no connection passes the link by. Raises OSError if the disk or the server is in the way.
    """
    own, taken = (file.with_name(f"{file.name}.{which}") for which in ("link", "taken"))
    if not own.exists():
        own.write_text(f"127.0.0.1:{link.port}")
    if file.exists():
        if file.samefile(own):
            return
        file.replace(taken)
        host, _, port = taken.read_text().rpartition(":")
        link.target = host, int(port)
    file.hardlink_to(own)  # FileExistsError: the server has written another one meanwhile
