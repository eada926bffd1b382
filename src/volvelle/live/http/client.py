"""A server as its users' commands see it: HTTP and JSON, with nothing but the standard library.

Found by VOLVELLE_SERVER and VOLVELLE_TOKEN; else in the folder of a server on this machine, in the current
folder or above it.
"""

import http.client
import json
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from volvelle.live.serve_folder import Announced, ServeFolder, read_secret
from volvelle.model.problems import Problem

TIMEOUT_SECONDS = 30.0
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
TRIES = 3
PAGE = 5000


class NotFound(Problem):
    """What was asked for is not there, or not ours."""


@dataclass(frozen=True)
class Server:
    """A server and the token with which we go there."""

    url: str
    token: str
    certificate: str | None = None

    @classmethod
    def find(
        cls, environment: Mapping[str, str] = os.environ, start: Path | None = None
    ) -> "Server":
        """The server to talk to. Raises `Problem` where none is named and none is near."""
        folder = ServeFolder.nearest(start or Path.cwd())
        url, token = environment.get("VOLVELLE_SERVER", ""), environment.get("VOLVELLE_TOKEN", "")
        announced = Announced(url)
        if not url:
            if folder is None:
                raise Problem(
                    "no server is known",
                    mend="set VOLVELLE_SERVER to its URL, or go to the folder where volvelle serve runs",
                )
            announced = folder.announced
        if (
            not token
            and folder is not None
            and (not url or folder.announced.url == url.rstrip("/"))
        ):
            token = read_secret(folder.token_file)
        if not token:
            raise Problem(
                f"there is no token for {announced.url}",
                mend="set VOLVELLE_TOKEN to one from your operator (volvelle token create)",
            )
        if (
            urlsplit(announced.url).scheme not in ("http", "https")
            or not urlsplit(announced.url).hostname
        ):
            raise Problem(
                f"{announced.url!r} is not the URL of a server",
                mend="write http://HOST:PORT or https://HOST:PORT",
                usage=True,
            )
        return cls(announced.url.rstrip("/"), token, announced.certificate)

    def get(self, path: str, **query: Any) -> Any:
        """What is at ``path``, decoded. Raises `Problem` with what the server says."""
        return self._json("GET", path, query)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """Ask for something; with a ``key`` it is done once, however often it is tried."""
        return self._json("POST", path, {}, body, key)

    def put(self, path: str, body: Any) -> Any:
        """Put ``body`` at ``path``, and what is answered. Raises `Problem` with what the server says."""
        return self._json("PUT", path, {}, body)

    def delete(self, path: str) -> None:
        """Take something away."""
        self._json("DELETE", path, {})

    def pages(self, path: str, of: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Everything of a list that comes in pages."""
        after: int | None = None
        while True:
            page = self.get(path, **query, limit=PAGE, after=after)
            yield from page[of]
            after = page["next"]
            if after is None:
                return

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """Bytes as they come, for as long as they do."""
        with self._answer("GET", path, query, timeout=None) as response:
            while chunk := response.read1(1 << 16):
                yield chunk

    def _json(
        self,
        how: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        for left in range(TRIES - 1, -1, -1):
            try:
                with self._answer(how, path, query, body, key) as response:
                    text = response.read()
                    return json.loads(text) if text else None
            except _Later as later:
                repeatable = how != "POST" or key is not None or later.declined
                if not left or not repeatable:
                    raise
                time.sleep(later.seconds)
        raise AssertionError

    @contextmanager
    def _answer(
        self,
        how: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        key: str | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
    ) -> Iterator[http.client.HTTPResponse]:
        headers = {"Authorization": f"Bearer {self.token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["Content-Type"] = "application/json"
        asked = urlencode({k: v for k, v in query.items() if v is not None}, doseq=True)
        connection = self._connection(timeout)
        try:
            connection.request(how, f"{path}?{asked}" if asked else path, sent, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refused(response)
            yield response
        except ssl.SSLCertVerificationError as error:
            raise Problem(
                f"{self.url} does not prove who it is: {error.verify_message}",
                mend="set SSL_CERT_FILE to its certificate, or that of its authority",
            ) from None
        except ssl.SSLError:
            raise Problem(
                f"{self.url} does not speak TLS", mend="write http:// in place of https://"
            ) from None
        except ConnectionRefusedError:
            raise Problem(
                f"nobody listens at {self.url}",
                mend="start the server (volvelle serve), or mend VOLVELLE_SERVER",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            said = f"no answer from {self.url}: {str(error) or type(error).__name__}"
            plain = urlsplit(self.url).scheme == "http"
            tls = "; write https:// if it speaks TLS" if plain else ""
            mend = f"check the network and the server{tls}"
            raise _Later(said, mend, 1.0, declined=False) from None
        finally:
            connection.close()

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        trusted = ssl.create_default_context()
        if self.certificate is not None:
            trusted = _only(Path(self.certificate))
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout, context=trusted
        )


def _only(certificate: Path) -> ssl.SSLContext:
    """Trust in the server with this certificate, the first of the file, whatever it is called by.

    Those beside it reach it as 127.0.0.1, by which certificates seldom go. Raises `Problem`.
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


class _Later(Problem):
    """No answer for now. ``declined``: the server said that it did nothing."""

    def __init__(self, said: str, mend: str, seconds: float, *, declined: bool) -> None:
        super().__init__(said, mend=mend)
        self.seconds = seconds
        self.declined = declined


def _refused(response: http.client.HTTPResponse) -> Problem:
    """What the server says, as a problem."""
    try:
        trouble = json.loads(response.read())
        said, place, mend = trouble["thing"], trouble["place"], trouble["mend"]
    except (ValueError, KeyError, TypeError):
        said, place, mend = f"the server answered {response.status} {response.reason}", "", ""
    place = place if place in ("store", "queue", "header Authorization") else ""
    said = f"{place.removeprefix('header ')}: {said}" if place else said
    if response.status == 503:
        seconds = float(response.headers.get("Retry-After", "1"))
        return _Later(said, mend, min(seconds, 5.0), declined=True)
    return (NotFound if response.status == 404 else Problem)(said, mend=mend)
