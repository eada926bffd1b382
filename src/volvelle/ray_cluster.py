"""The connection with a Ray cluster. Here because jobs run there (`live`) and searches (`tune`)."""

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from volvelle.model.extras import install
from volvelle.model.problems import Problem

NAMESPACE = "volvelle"
_KNOCK_SECONDS = 5.0


def connected(address: str) -> Any:
    """Ray, connected with the cluster at ``address``, or as the program is already. Raises `Problem`."""
    try:
        import ray  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem(
            "for a Ray cluster the package ray is needed",
            mend=f"install it: {install('ray')}",
            usage=True,
        ) from None
    if not ray.is_initialized():
        try:
            _knock(address)
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise Problem(
                f"there is no Ray cluster at {address!r} ({error})",
                mend="start one with ray start --head, or give its address as HOST:PORT",
            ) from None
    return ray


@contextmanager
def connection(address: str) -> Iterator[tuple[Any, bool]]:
    """`connected` for a while, and whether it ends then: a program that was connected already stays so.

    With a connection ends all that runs on the cluster for it.
    """
    known = sys.modules.get("ray")
    ends = known is None or not known.is_initialized()
    ray = connected(address)
    try:
        yield ray, ends
    finally:
        if ends:
            ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nobody listens: Ray would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _KNOCK_SECONDS).close()
