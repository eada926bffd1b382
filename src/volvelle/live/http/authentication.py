"""The gate: whose token a request carries, and what that one may do.

A token is 256 random bits, so its plain SHA-256 is as hard to turn round as the token is to guess; only that
is kept. What is known is read anew now and then, and goes on to hold while the store is away.
"""

import asyncio
import hashlib
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param
from starlette.concurrency import run_in_threadpool

from volvelle.live.control.controller import Controller
from volvelle.live.http.errors import Refusal
from volvelle.live.http.role import Role
from volvelle.live.status.view import JobStatusView
from volvelle.live.store import Store, StoreFailed, Token

REFRESH_SECONDS = 2.0


@dataclass(frozen=True)
class Who:
    """Somebody whose token holds."""

    user: str
    role: Role

    @property
    def operates(self) -> bool:
        """Whether everything is theirs to see and touch."""
        return self.role is Role.OPERATOR

    def may_see(self, job: JobStatusView) -> bool:
        """Whether what is inside a job is theirs to see, and the job theirs to touch."""
        return self.operates or job.user == self.user


def new_token(user: str, role: Role, label: str = "") -> tuple[str, Token]:
    """A token, and what is kept of it."""
    token = f"vv_{secrets.token_urlsafe(32)}"
    return token, Token(digest_of(token), user, role.value, label, created=time.time())


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Gate:
    """Knows tokens by their digests."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Who] | None = None
        self._read_at = 0.0
        self._first = asyncio.Lock()

    async def who(self, token: str) -> Who | None:
        """Whose ``token`` it is; None where it is nobody's.

        Raises `StoreFailed` where the store has not been read: then it is not said that a token is nobody's.
        """
        if self._known is None:
            async with self._first:
                if self._known is None:
                    self._known = await self._read()
        elif time.monotonic() - self._read_at > REFRESH_SECONDS:
            with suppress(StoreFailed):
                self._known = await self._read()
        return self._known.get(digest_of(token))

    async def _read(self) -> dict[str, Who]:
        self._read_at = time.monotonic()
        records = await run_in_threadpool(self._store.tokens)
        return {one.digest: Who(one.user, Role(one.role)) for one in records if not one.revoked}

    def forget(self) -> None:
        """Read anew before the next answer."""
        self._known = None


# What routes depend on is async all through: FastAPI hands anything else to a thread, at each request.


async def gate_of(request: Request) -> Gate:
    """The gate of the application that serves ``request``."""
    gate: Gate = request.app.state.gate
    return gate


async def controller_of(request: Request) -> Controller:
    """The controller of the application that serves ``request``."""
    controller: Controller = request.app.state.controller
    return controller


async def store_of(request: Request) -> Store:
    """The store of the application that serves ``request``."""
    store: Store = request.app.state.store
    return store


class _Token(SecurityBase):
    """Who carries the token of a request. One step for FastAPI, as each step costs every request."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="a token of `volvelle token create`")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> Who:
        """Raises `Refusal` where nobody does."""
        scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
        given = scheme.lower() == "bearer" and token
        gate = await gate_of(request)
        who = await gate.who(token) if given else None
        if who is None:
            raise Refusal(
                401,
                "the token is not known" if given else "there is no token",
                place="header Authorization",
                mend="set VOLVELLE_TOKEN to a token from your operator (volvelle token create)",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return who


Anybody = Annotated[Who, Depends(_Token())]


async def _operator(who: Anybody) -> Who:
    if not who.operates:
        raise Refusal(403, "only operators may do this", mend="ask an operator")
    return who


Operator = Annotated[Who, Depends(_operator)]
Live = Annotated[Controller, Depends(controller_of)]
AtGate = Annotated[Gate, Depends(gate_of)]
Stored = Annotated[Store, Depends(store_of)]
