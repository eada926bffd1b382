"""TLS as the agents server serves it."""

import ssl
from pathlib import Path
from typing import NamedTuple, Self

from volvelle.live.agent.node_key import channel_of


class ServedTls(NamedTuple):
    """A context for connections, and the ``channel`` that proofs on them are bound to (`channel_of`)."""

    context: ssl.SSLContext
    channel: str

    @classmethod
    def read(cls, certificate: str, key: str) -> Self:
        """Of PEM files: the server's certificate with its chain, and its key unless it is in there, too.

        Raises OSError or ValueError where they cannot be used.
        """
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - an extra
        from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key or None)
        shown = load_pem_x509_certificates(Path(certificate).read_bytes())[0]
        return cls(context, channel_of(shown.public_bytes(Encoding.DER)))
