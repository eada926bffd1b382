"""``/v1/session``: a browser gives its token once, and is known by a cookie from then on."""

from fastapi import APIRouter, Request, Response
from pydantic import Field

from volvelle.live.http.authentication import Principal, digest_of
from volvelle.live.http.dependencies import AnyPrincipal, TheAuthenticator, unknown_token
from volvelle.live.http.errors import HttpError, error_responses
from volvelle.live.http.responses import SessionView, StartedSession, json_response
from volvelle.live.http.session_table import SESSION_SECONDS, SessionTable, cookie_name
from volvelle.live.strict_model import StrictModel

router = APIRouter(prefix="/v1/session", tags=["sessions"])


class Login(StrictModel):
    """A token, as in ``Authorization: Bearer``."""

    token: str = Field(min_length=1, max_length=1000)


@router.post(
    "", status_code=201, response_model=StartedSession, responses=error_responses(401, 403)
)
async def begin_session(
    login: Login, request: Request, authenticator: TheAuthenticator
) -> Response:
    """Begin a session of eight hours. The answer sets a cookie; each request needs the ``key`` as well."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise HttpError(403, "a session cannot be begun from another site")
    principal = await authenticator.principal(login.token)
    if principal is None:
        expired = authenticator.has_expired(digest_of(login.token))
        raise unknown_token(f"the token {'has expired' if expired else 'is not known'}")
    sessions: SessionTable = request.app.state.sessions
    new = sessions.begin(digest_of(login.token))
    started = StartedSession(_view(principal, new.expires, request), new.key)
    response = json_response(started, 201)
    response.set_cookie(
        cookie_name(request.scope),
        new.cookie,
        max_age=int(SESSION_SECONDS),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.get("", response_model=SessionView, responses=error_responses())
async def show_session(request: Request, principal: AnyPrincipal) -> Response:
    """The principal of a request, by a token or in a session."""
    return json_response(_view(principal, None, request))


@router.delete("", status_code=204, responses=error_responses())
async def end_session(request: Request, principal: AnyPrincipal) -> Response:
    """End the session of the request, if it is in one."""
    name = cookie_name(request.scope)
    sessions: SessionTable = request.app.state.sessions
    sessions.end(request.cookies.get(name, ""))
    response = Response(status_code=204)
    response.delete_cookie(name, httponly=True, samesite="strict")
    return response


def _view(principal: Principal, expires: float | None, request: Request) -> SessionView:
    state = request.app.state
    return SessionView(principal.user, principal.role.value, expires, state.owner, state.titles)
