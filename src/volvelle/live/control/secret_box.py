"""Secret variables of jobs, encrypted with the key in a file of its own, beside the store and never in it.

AES-SIV (RFC 5297), bound to the user and the name of the variable. The same value is the same encrypted: so a
submission that is repeated under its idempotency key is known again.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import Start
from volvelle.live.serve_folder import read_secret, write_secret
from volvelle.model.extras import install
from volvelle.model.problems import Problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_KEY_BYTES = 64


class SecretBox:
    """Encrypts with the key in ``file``; None: jobs have no secrets."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._key = b""

    def begin(self, jobs: Iterable[LiveJob]) -> str:
        """Read the key, or make it if no job needs it. Returns a warning where ``jobs`` cannot be read.

        Raises `Problem` if it cannot be made.
        """
        if self._file is None:
            return ""
        kept = [job for job in jobs if job.request.secrets]
        if not kept and not self._file.exists():
            try:
                write_secret(self._file, os.urandom(_KEY_BYTES).hex())
            except OSError as error:
                raise Problem(
                    f"cannot make the key of secrets {self._file}: {error.strerror}",
                    mend="name another file: secrets_key in the --config file",
                ) from None
        self._key = _from_hex(read_secret(self._file))
        unreadable = [job.number for job in kept if not self._opens(job)]
        if not unreadable:
            return ""
        return (
            f"the secrets of {len(unreadable):,} jobs (as job {unreadable[0]}) cannot be read: {self._file} "
            "is not the key with which they were stored. They are held when they would start, all others go "
            "on. Put that key back, start the server anew and release them; if it is lost, cancel them"
        )

    def seal(self, user: str, request: JobRequest) -> JobRequest:
        """``request`` of ``user`` with its secrets encrypted. Raises `Problem` if they cannot be."""
        if not request.secrets:
            return request
        cipher = self._cipher()
        sealed = {
            name: urlsafe_b64encode(cipher.encrypt(value.encode(), _bound(user, name))).decode()
            for name, value in request.secrets.items()
        }
        return request.model_copy(update={"secrets": sealed})

    def opened(self, order: Start, secrets: Mapping[str, str]) -> Start:
        """``order`` with the values of what `seal` encrypted. Raises `Problem` if they cannot be read."""
        if not secrets:
            return order
        environment = order.launch.environment | self._open(order.user, secrets)
        launch = msgspec.structs.replace(order.launch, environment=environment)
        return msgspec.structs.replace(order, launch=launch)

    def _open(self, user: str, secrets: Mapping[str, str]) -> dict[str, str]:
        cipher = self._cipher()
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as in _cipher

        try:
            return {
                name: cipher.decrypt(urlsafe_b64decode(sealed), _bound(user, name)).decode()
                for name, sealed in secrets.items()
            }
        except (InvalidTag, ValueError):
            raise self._no_key() from None

    def _opens(self, job: LiveJob) -> bool:
        try:
            self._open(job.user, job.request.secrets)
        except Problem:
            return False
        return True

    def _cipher(self) -> "AESSIV":
        if len(self._key) != _KEY_BYTES:
            raise self._no_key()
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - slow
        except ImportError:
            raise Problem(
                "secrets need the package cryptography where volvelle serve runs",
                mend=install("live"),
            ) from None
        return AESSIV(self._key)

    def _no_key(self) -> Problem:
        return Problem(
            f"the key of secrets, {self._file}, is missing or another one",
            mend="have an operator put it back and start the server anew",
        )


def _bound(user: str, name: str) -> list[bytes]:
    return [user.encode(), name.encode()]


def _from_hex(text: str) -> bytes:
    """The bytes; none if ``text`` is something else."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
