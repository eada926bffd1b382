"""The sessions of browsers: a cookie and a key stand for the token that was given once.

A request in a session needs two secrets: the cookie, which scripts cannot read, and a key in a header, which
no other site can send, nor a page of another port of this machine (cookies are shared between ports). So a
forged request is refused, and a cookie alone is worth nothing. Sessions end with the server.
"""

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from volvelle.live.http.authentication import digest_of

SESSION_SECONDS = 8 * 3600.0
"""A working day."""

KEY_HEADER = "Volvelle-Session-Key"
"""The header with a session's key."""

_MAX_SESSIONS = 10_000


@dataclass(frozen=True)
class NewSession:
    """The secrets of a session, which only the browser keeps."""

    cookie: str
    key: str
    expires: float


@dataclass(frozen=True)
class _Session:
    token_digest: str
    key_digest: str
    expires: float


class SessionTable:
    """The sessions of this server, by the digests of their cookies."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def begin(self, token_digest: str) -> NewSession:
        """A session for the token with this digest; beyond ten thousand the oldest ends."""
        now = time.time()
        self._sessions = {
            cookie: each for cookie, each in self._sessions.items() if each.expires > now
        }
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        new = NewSession(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), now + SESSION_SECONDS
        )
        kept = _Session(token_digest, digest_of(new.key), new.expires)
        self._sessions[digest_of(new.cookie)] = kept
        return new

    def token_digest(self, cookie: str, key: str) -> str | None:
        """The digest of the session's token; None without a session, or with a wrong key."""
        session = self._sessions.get(digest_of(cookie))
        if session is None or session.expires < time.time():
            return None
        matches = hmac.compare_digest(session.key_digest, digest_of(key))
        return session.token_digest if matches else None

    def end(self, cookie: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(digest_of(cookie), None)


def cookie_name(scope: Mapping[str, object]) -> str:
    """The cookie's name at the port of a request, as servers on one machine share their cookies."""
    server = scope.get("server")
    port = server[1] if isinstance(server, tuple) else 0
    return f"volvelle-session-{port}"
