"""The key of a node's agent, and how it is proven without being sent (after SCRAM, RFC 5802, section 3).

::

    key       random, known to the agent alone
    secret    SHA-256 of the key
    verifier  SHA-256 of the secret: what the server keeps. It checks proofs, and makes none.

A proof is the secret, hidden under an HMAC that only who knows the verifier can compute. An agent that joins
tells its verifier hidden under the join token. So neither is of use to who listens.
"""

import hashlib
import hmac
import secrets
from pathlib import Path

from volvelle.live.agent.files import write_file

_LENGTH = hashlib.sha256().digest_size


def new_key() -> str:
    """A random key."""
    return f"vk_{secrets.token_urlsafe(32)}"


def read_or_make_key(path: Path) -> str:
    """The key in the file ``path``, which is made if there is none. Raises OSError."""
    if not path.exists():
        write_file(path, new_key().encode() + b"\n")
    return path.read_text(encoding="utf-8").strip()


def verifier_of(key: str) -> str:
    """What the server keeps of ``key``."""
    return _sha256(_sha256(key.encode())).hex()


def prove_key(key: str, *transcript: str) -> str:
    """The agent's proof that it knows ``key``, valid for this connection's ``transcript`` only."""
    return _xor(_sha256(key.encode()), _pad(verifier_of(key), *transcript)).hex()


def key_is_proven(proof: str, verifier: str, *transcript: str) -> bool:
    """Whether ``proof`` is of the key with this verifier."""
    given = _from_hex(proof, _LENGTH)
    found = _sha256(_xor(given, _pad(verifier, *transcript)))
    return hmac.compare_digest(found.hex(), verifier)


def prove_verifier(verifier: str, *transcript: str) -> str:
    """The server's proof that it knows ``verifier``."""
    return _mac(verifier, "controller", *transcript).hex()


def verifier_is_proven(proof: str, key: str, *transcript: str) -> bool:
    """Whether ``proof`` is of a server that knows the verifier of ``key``."""
    return hmac.compare_digest(
        proof.encode(), prove_verifier(verifier_of(key), *transcript).encode()
    )


def ask_to_join(token: str, key: str, *transcript: str) -> str:
    """The verifier of ``key``, for a server that knows the join token."""
    hidden = _xor(bytes.fromhex(verifier_of(key)), _mac(token, "hidden", *transcript))
    return (hidden + _mac(token, "join", hidden.hex(), *transcript)).hex()


def joining_verifier(asked: str, token: str, *transcript: str) -> str | None:
    """The verifier in ``asked``; None if who asks does not know the join token."""
    given = _from_hex(asked, 2 * _LENGTH)
    hidden, mac = given[:_LENGTH], given[_LENGTH:]
    if not hmac.compare_digest(mac, _mac(token, "join", hidden.hex(), *transcript)):
        return None
    return _xor(hidden, _mac(token, "hidden", *transcript)).hex()


def _pad(verifier: str, *transcript: str) -> bytes:
    return _mac(verifier, "agent", *transcript)


def _mac(secret: str, *message: str) -> bytes:
    return hmac.digest(secret.encode(), "\n".join(message).encode(), "sha256")


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def _from_hex(text: str, length: int) -> bytes:
    """``length`` bytes; zeros if ``text`` is not so many."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    return found if len(found) == length else bytes(length)
