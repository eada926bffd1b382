"""A client of the HTTP API, quick to import.

It finds the server by VOLVELLE_SERVER, a URL (with VOLVELLE_TOKEN) or the folder of a server on this machine;
else by such a folder named ``volvelle-serve`` in the current folder or above it.
"""

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlencode, urlsplit

import msgspec

from volvelle.live.serve_folder import ServeFolder, ServerAddress, read_secret
from volvelle.model.problems import Problem

TIMEOUT_SECONDS = 30.0
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_START_SECONDS = 15.0
"""How long a server may take that is just being started (``volvelle serve &``)."""
_APPEAR_SECONDS = 2.0
"""How long its process may take to say so: both commands may have been pasted at once."""

_TRIES = 3
_PAGE_JOBS = 5000
_MAX_RETRY_SECONDS = 5.0
_SECONDS_BETWEEN = 1.0
_RESTART_SECONDS = 20.0
"""How long a submission without an answer is repeated: its server may be started again."""


@dataclass(frozen=True)
class ApiClient:
    """A client of the server at ``url``. ``certificate``: the only one to trust; None: the system's."""

    url: str
    token: str = field(repr=False)
    certificate: str | None = None
    problems: list[str] = field(default_factory=list)
    """Messages of the server for operators, from the last list of jobs."""
    origin: str = ""
    """The variable or the folder that names the server; empty where its caller did."""

    @classmethod
    def find(
        cls, environment: Mapping[str, str] = os.environ, start: Path | None = None
    ) -> "ApiClient":
        """A client of the server that is named, or near. Raises `Problem` if there is none."""
        url, token = environment.get("VOLVELLE_SERVER", ""), environment.get("VOLVELLE_TOKEN", "")
        folder = ServeFolder.nearest(start or Path.cwd(), 0.0 if url else _APPEAR_SECONDS)
        if url and (start or Path()).joinpath(url).is_dir():
            folder, url = ServeFolder.at((start or Path()) / url), ""
        address = ServerAddress(url)
        if not url:
            if folder is None:
                raise Problem(
                    "no server is known",
                    mend="start one with volvelle serve --cluster 1x8, go to where the folder volvelle-serve "
                    "of one is, or set VOLVELLE_SERVER to its URL or folder",
                )
            folder.wait_for_start(_START_SECONDS)
            address = folder.read_address()
            if not _listens(address):  # its server was killed, and may be started again just now
                folder.wait_for_another(address, _APPEAR_SECONDS)
                folder.wait_for_start(_START_SECONDS)
                address = folder.read_address()
        parts = urlsplit(address.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem(
                f"{address.url!r} is not the URL of a server",
                mend="write http://HOST:PORT or https://HOST:PORT, or the folder of volvelle serve",
                usage=True,
            )
        if (
            not token
            and folder is not None
            and (not url or folder.read_address().url == url.rstrip("/"))
        ):
            token = read_secret(folder.token_file)
        if not token:
            raise Problem(
                f"there is no token for {address.url}",
                mend="set VOLVELLE_TOKEN to one from your operator (volvelle token create)",
            )
        origin = "VOLVELLE_SERVER" if folder is None or url else f"the folder {folder.path}"
        return cls(address.url.rstrip("/"), token, address.certificate, origin=origin)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at ``path``. Raises `Problem` with the server's message."""
        return self._json("GET", path, query)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """Post ``body``; with an idempotency ``key`` it has one effect, however often it is tried."""
        return self._json("POST", path, {}, body, key)

    def put(self, path: str, body: Any) -> Any:
        """Put ``body`` at ``path``. Raises `Problem` with the server's message."""
        return self._json("PUT", path, {}, body)

    def patch(self, path: str, body: Any) -> Any:
        """Change what is at ``path``. Raises `Problem` with the server's message."""
        return self._json("PATCH", path, {}, body)

    def upload(self, digest: str, content: bytes) -> None:
        """Let the server have ``content``, if it has not."""
        if not self.get(f"/v1/uploads/{digest}")["kept"]:
            self.put(f"/v1/uploads/{digest}", content)

    def delete(self, path: str) -> None:
        """Delete what is at ``path``."""
        self._json("DELETE", path, {})

    def pages(
        self, path: str, items: str, keys: Sequence[str] | None = None, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """All ``items`` of a list that comes in pages. Sets ``problems`` to those of the server.

        keys: those of an item that are asked for and read, which takes half the time; None: all.
        """
        kind = Any if keys is None else _page_of(items, tuple(keys))
        query |= {"fields": keys}
        after: int | None = None
        while True:
            page = self._json("GET", path, query | {"limit": _PAGE_JOBS, "after": after}, kind=kind)
            self.problems[:] = page["problems"]
            yield from page[items]
            after = page["next"]
            if after is None:
                return

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """The bytes of a streaming response."""
        with self._response("GET", path, query, timeout=None) as response:
            while chunk := response.read1(1 << 16):
                yield chunk

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        key: str | None = None,
        kind: Any = Any,
    ) -> Any:
        tries_left, until = _TRIES - 1, 0.0
        while True:
            try:
                with self._response(method, path, query, body, key) as response:
                    text = response.read()
                    return msgspec.json.decode(text, type=kind) if text else None
            except NotAnswered as failure:
                if failure.lost and key is not None:
                    until = until or time.monotonic() + _RESTART_SECONDS
                if until and time.monotonic() > until:
                    raise Problem(
                        f"no answer from {self.url}: the job may have been accepted",
                        mend="look for it before you submit it again: volvelle queue",
                    ) from None
                repeatable = not failure.lost or method != "POST"
                if not until and not (failure.passes and repeatable and tries_left):
                    raise
                tries_left -= 1
                time.sleep(failure.seconds)

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        key: str | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
    ) -> Iterator[http.client.HTTPResponse]:
        headers = {"Authorization": f"Bearer {self.token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        content = None
        if isinstance(body, bytes):
            content, headers["Content-Type"] = body, "application/octet-stream"
        elif body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        parameters = urlencode({k: v for k, v in query.items() if v is not None}, doseq=True)
        target = f"{path}?{parameters}" if parameters else path
        connection, sent = self._connection(timeout), False
        try:
            connection.connect()
            sent = True
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem_of(response)
            yield response
        except ssl.SSLCertVerificationError as error:
            raise Problem(
                f"{self.url} has no trusted certificate: {error.verify_message}",
                mend="set SSL_CERT_FILE to its certificate, or that of its authority",
            ) from None
        except ssl.SSLError:
            raise Problem(
                f"{self.url} does not use TLS", mend="write http:// in place of https://"
            ) from None
        except ConnectionRefusedError:
            message = f"nobody listens at {self.url}"
            origin = f"; its address is from {self.origin}" if self.origin else ""
            hint = f"start the server (volvelle serve){origin}"
            raise NotAnswered(message, hint, _SECONDS_BETWEEN, passes=False) from None
        except (OSError, http.client.HTTPException) as error:
            message = f"no answer from {self.url}: {str(error) or type(error).__name__}"
            plain = urlsplit(self.url).scheme == "http"
            tls = "; write https:// if it uses TLS" if plain else ""
            hint = f"check the network and the server{tls}"
            raise NotAnswered(message, hint, _SECONDS_BETWEEN, lost=sent) from None
        finally:
            connection.close()

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        context = ssl.create_default_context()
        if self.certificate is not None:
            context = _trust_only(Path(self.certificate))
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout, context=context
        )


def _listens(address: ServerAddress) -> bool:
    """Whether anything accepts connections there."""
    parts = urlsplit(address.url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), TIMEOUT_SECONDS):
            return True
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError):
        return True  # the request says what is wrong


def _trust_only(certificate: Path) -> ssl.SSLContext:
    """Trust the server with this certificate, the first of the file, under any host name.

    Clients on the same machine use 127.0.0.1, for which certificates are rarely issued. Raises `Problem`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        first, end, _ = certificate.read_text(encoding="ascii").partition(_END)
        context.load_verify_locations(cadata=first[first.find(_BEGIN) :] + end)
    except (OSError, ValueError, ssl.SSLError) as error:
        raise Problem(
            f"cannot read the server's certificate {certificate}: {error}",
            mend="set VOLVELLE_SERVER and SSL_CERT_FILE",
        ) from None
    return context


def _page_of(items: str, keys: tuple[str, ...]) -> Any:
    """The type of a page of ``items`` with no other keys than these."""
    make: Any = TypedDict  # mypy knows literal ones only
    item: Any = make("item", dict.fromkeys(keys, Any))
    return make("page", {items: list[item], "next": Any, "problems": Any})


class NotAnswered(Problem):
    """No answer, or 503. It passes between processes: all but the message has a default.

    seconds: until the next try. lost: the request was sent and may have had its effect.
    passes: whether another try may soon be answered.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        seconds: float = 0.0,
        *,
        lost: bool = False,
        passes: bool = True,
    ) -> None:
        super().__init__(message, mend=hint)
        self.seconds = seconds
        self.lost = lost
        self.passes = passes


def _problem_of(response: http.client.HTTPResponse) -> Problem:
    """The problem that an error response describes."""
    try:
        body = json.loads(response.read())
        message, place, hint = body["detail"], body["place"], body["hint"]
    except (ValueError, KeyError, TypeError):
        message, place, hint = f"the server answered {response.status} {response.reason}", "", ""
    place = place if place in ("store", "queue", "header Authorization") else ""
    message = f"{place.removeprefix('header ')}: {message}" if place else message
    if response.status == 503:
        seconds = float(response.headers.get("Retry-After", "1"))
        return NotAnswered(message, hint, min(seconds, _MAX_RETRY_SECONDS))
    return Problem(message, mend=hint)
