"""The key of a node's agent, how it is proven without being sent, and how a node joins.

::

    key       random, known to the agent alone
    verifier  what the server keeps: an Ed25519 public key and a MAC key, both derived from the key (HKDF)

A *transcript* is the nonces of both sides, the node's name, and with TLS the digest of the server's
certificate (tls-server-end-point, RFC 5929): a proof is worth nothing on a connection whose TLS ends
elsewhere. The agent signs it (Ed25519, RFC 8032), so the verifier checks a proof and makes none. The server
authenticates itself by an HMAC under the MAC key. A joining agent sends its verifier encrypted (AES-256-GCM)
under a key derived from the join token, with the transcript as associated data. All primitives are those of
``cryptography`` and of Python (decisions 63 and 76). It is an extra: executors are listed without it.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from volvelle.live.agent.files import write_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY_BYTES = 32
_VERIFIER_BYTES = 2 * _KEY_BYTES
_NONCE_BYTES = 12


def new_key() -> str:
    """A random key."""
    return f"vk_{secrets.token_urlsafe(_KEY_BYTES)}"


def derived_key(secret: str, node: str) -> str:
    """The key of a node whose agent is started by one that knows ``secret``."""
    return hmac.digest(secret.encode(), f"node {node}".encode(), "sha256").hex()


def read_or_make_key(path: Path) -> str:
    """The key in the file ``path``, which is made if there is none. Raises OSError."""
    if not path.exists():
        write_file(path, new_key().encode() + b"\n")
    return path.read_text(encoding="utf-8").strip()


def channel_of(certificate: bytes) -> str:
    """The digest of a server's ``certificate`` (DER): what a proof over TLS is bound to."""
    return hashlib.sha256(certificate).hexdigest()


def transcript_of(challenge: str, nonce: str, node: str, channel: str) -> tuple[str, ...]:
    """The statement of a handshake. channel: of `channel_of`; empty: no TLS."""
    return (challenge, nonce, node, channel) if channel else (challenge, nonce, node)


def verifier_of(key: str) -> str:
    """The verifier of ``key``: 128 hexadecimal digits."""
    return (_signing_key(key).public_key().public_bytes_raw() + _mac_key(key)).hex()


def prove_key(key: str, *transcript: str) -> str:
    """The agent's proof that it has ``key``, for this connection's ``transcript`` only."""
    return _signing_key(key).sign(_message("agent", transcript)).hex()


def key_is_proven(proof: str, verifier: str, *transcript: str) -> bool:
    """Whether ``proof`` was made with the key of this verifier. A malformed one proves nothing."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        known = bytes.fromhex(verifier)
        public = Ed25519PublicKey.from_public_bytes(known[:_KEY_BYTES])
        public.verify(bytes.fromhex(proof), _message("agent", transcript))
    except (ValueError, InvalidSignature):
        return False
    return len(known) == _VERIFIER_BYTES


def prove_verifier(verifier: str, *transcript: str) -> str:
    """The server's proof that it has ``verifier``."""
    return _mac(bytes.fromhex(verifier)[_KEY_BYTES:], transcript)


def verifier_is_proven(proof: str, key: str, *transcript: str) -> bool:
    """Whether ``proof`` is of a server that has the verifier of ``key``."""
    return hmac.compare_digest(proof.encode(), _mac(_mac_key(key), transcript).encode())


def ask_to_join(token: str, key: str, *transcript: str) -> str:
    """The verifier of ``key``, for a server that has the join token."""
    nonce, verifier = os.urandom(_NONCE_BYTES), bytes.fromhex(verifier_of(key))
    return (
        nonce + _join_cipher(token).encrypt(nonce, verifier, _message("join", transcript))
    ).hex()


def joining_verifier(asked: str, token: str, *transcript: str) -> str | None:
    """The verifier in ``asked``; None if its sender does not have the join token."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415

    try:
        sent = bytes.fromhex(asked)
        nonce, encrypted = sent[:_NONCE_BYTES], sent[_NONCE_BYTES:]
        return _join_cipher(token).decrypt(nonce, encrypted, _message("join", transcript)).hex()
    except (ValueError, InvalidTag):
        return None


def _signing_key(key: str) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    return Ed25519PrivateKey.from_private_bytes(_derived(key, "volvelle agent's signing key"))


def _mac_key(key: str) -> bytes:
    return _derived(key, "volvelle controller's MAC key")


def _join_cipher(token: str) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(_derived(token, "volvelle join"))


def _derived(secret: str, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), _KEY_BYTES, salt=None, info=purpose.encode()).derive(secret.encode())


def _mac(key: bytes, transcript: tuple[str, ...]) -> str:
    return hmac.digest(key, _message("controller", transcript), "sha256").hex()


def _message(sender: str, transcript: tuple[str, ...]) -> bytes:
    """The statement that ``sender`` proves, encoded without ambiguity."""
    return msgspec.json.encode(("volvelle", sender, *transcript))
