"""Authentication by bearer tokens.

A token is 256 random bits, so its plain SHA-256 is as hard to invert as the token is to guess; only the
digest is stored. Tokens are read from the store again now and then, and stay valid while the store is down.
"""

import asyncio
import hashlib
import math
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from volvelle.live.agent.node_key import new_key, verifier_of
from volvelle.live.role import Role
from volvelle.live.status.view import JobStatusView
from volvelle.live.store import Store, StoreFailed, Token

REFRESH_SECONDS = 0.5


@dataclass(frozen=True)
class Principal:
    """An authenticated user."""

    user: str
    role: Role

    @property
    def is_operator(self) -> bool:
        """Whether all jobs are visible, and the cluster may be operated."""
        return self.role is Role.OPERATOR

    def owns(self, job: JobStatusView) -> bool:
        """Whether the job is visible in full, and may be changed."""
        return self.is_operator or job.user == self.user


def new_token(
    user: str, role: Role, label: str = "", valid_seconds: float | None = None
) -> tuple[str, Token]:
    """A new token, or key of an agent, and what is stored of it. valid_seconds: None: for ever."""
    if role is Role.AGENT:
        token = new_key()
        digest = verifier_of(token)
    else:
        token = f"vv_{secrets.token_urlsafe(32)}"
        digest = digest_of(token)
    now = time.time()
    expires = None if valid_seconds is None else now + valid_seconds
    return token, Token(digest, user, role.value, label, created=now, expires=expires)


def digest_of(token: str) -> str:
    """The digest of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class TokenAuthenticator:
    """Authenticates by the tokens in ``store``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._principals: dict[str, Principal] | None = None
        self._expiries: dict[str, float] = {}
        self._read_at = 0.0
        self._first_read = asyncio.Lock()

    async def principal(self, token: str) -> Principal | None:
        """The principal with this token; None if it is unknown. Raises as `principal_of` does."""
        return await self.principal_of(digest_of(token))

    async def principal_of(self, digest: str) -> Principal | None:
        """The principal whose token has this digest; None if there is none, or it has expired.

        Raises `StoreFailed` if the store was never read: then no token can be called unknown.
        """
        if self._principals is None:
            async with self._first_read:
                if self._principals is None:
                    self._principals = await self._read()
        elif time.monotonic() - self._read_at > REFRESH_SECONDS:
            with suppress(StoreFailed):
                self._principals = await self._read()
        return None if self.has_expired(digest) else self._principals.get(digest)

    def has_expired(self, digest: str) -> bool:
        """Whether the token with this digest is known, and valid no longer."""
        return time.time() >= self._expiries.get(digest, math.inf)

    async def _read(self) -> dict[str, Principal]:
        self._read_at = time.monotonic()
        tokens = await run_in_threadpool(self._store.tokens.list_all)
        kept = [token for token in tokens if not token.revoked and token.role != Role.AGENT]
        self._expiries = {
            token.digest: token.expires for token in kept if token.expires is not None
        }
        return {token.digest: Principal(token.user, Role(token.role)) for token in kept}

    def invalidate(self) -> None:
        """Read the store again at the next request."""
        self._principals = None
