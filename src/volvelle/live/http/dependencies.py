"""Dependencies of handlers, for FastAPI: the authenticated principal, the controller, the store.

All dependencies are async: FastAPI runs others in a thread, at each request.
"""

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param

from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import Principal, TokenAuthenticator, digest_of
from volvelle.live.http.errors import HttpError
from volvelle.live.http.forecast_threads import ForecastThreads
from volvelle.live.http.kept_fronts import FrontFolder
from volvelle.live.http.queue_feed import QueueFeed
from volvelle.live.http.session_table import KEY_HEADER, SessionTable, cookie_name
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.store import Store


def _of_app(name: str) -> Any:
    """The dependency on what the application keeps as ``name``."""

    async def of_app(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(of_app)


class _BearerToken(SecurityBase):
    """Authenticates a request. A single dependency, as each one costs every request time."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="a token of `volvelle token create`")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> Principal:
        """The principal of a request. Raises `HttpError` if its token is missing or unknown."""
        return await authenticate(request)


async def authenticate(request: Request) -> Principal:
    """The principal of a request, by its bearer token or else by its session.

    Raises `HttpError` if there is neither, or if it holds no longer.
    """
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    given = scheme.lower() == "bearer" and token
    digest = digest_of(token) if given else _session_token(request)
    principal = None
    authenticator: TokenAuthenticator = request.app.state.authenticator
    if digest is not None:
        principal = await authenticator.principal_of(digest)
    if principal is None:
        if digest is not None and authenticator.has_expired(digest):
            raise unknown_token("the token has expired")
        raise unknown_token("the token is not known" if given else "there is no token")
    return principal


def _session_token(request: Request) -> str | None:
    """The digest of the token that began the session of a request."""
    cookie = request.cookies.get(cookie_name(request.scope))
    key = request.headers.get(KEY_HEADER)
    if not cookie or not key:
        return None
    sessions: SessionTable = request.app.state.sessions
    return sessions.token_digest(cookie, key)


def unknown_token(detail: str) -> HttpError:
    """The request has no valid credentials."""
    return HttpError(
        401,
        detail,
        place="header Authorization",
        hint="set VOLVELLE_TOKEN to a token from your operator (volvelle token create)",
        headers={"WWW-Authenticate": "Bearer"},
    )


AnyPrincipal = Annotated[Principal, Depends(_BearerToken())]


async def _operator(principal: AnyPrincipal) -> Principal:
    if not principal.is_operator:
        raise HttpError(403, "only operators may do this", hint="ask an operator")
    return principal


OperatorPrincipal = Annotated[Principal, Depends(_operator)]
TheController = Annotated[Controller, _of_app("controller")]
TheCluster = Annotated[ShownCluster, _of_app("controller")]
TheAuthenticator = Annotated[TokenAuthenticator, _of_app("authenticator")]
TheStore = Annotated[Store, _of_app("store")]
TheForecastThreads = Annotated[ForecastThreads, _of_app("forecasts")]
TheReplayThreads = Annotated[ForecastThreads, _of_app("replays")]
TheFronts = Annotated[FrontFolder, _of_app("fronts")]
TheQueueFeed = Annotated[QueueFeed, _of_app("queue_feed")]
