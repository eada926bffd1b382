"""Serves the dashboard of a run to this machine, with the standard library only."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from volvelle.dashboard.page import PAGE_HEADERS, ROOT, page_file
from volvelle.dashboard.run import RunMoments

_HERE = ("127.0.0.1", "localhost")


def make_server(moments: RunMoments, port: int) -> ThreadingHTTPServer:
    """A server at ``port`` of this machine (0: any that is free). Raises `OSError` if it is taken."""

    class Handler(_Handler):
        run = moments

    return ThreadingHTTPServer((_HERE[0], port), Handler)


class _Handler(BaseHTTPRequestHandler):
    run: RunMoments
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A file of the page, or what the page asks of an API."""
        if self.headers.get("Host", "").rpartition(":")[0] not in _HERE:  # a name bound anew
            return self._send(403, {"detail": "this server answers to 127.0.0.1 only"})
        parts = urlsplit(self.path)
        if parts.path.startswith(f"{ROOT}/"):
            return self._send_file(parts.path.removeprefix(f"{ROOT}/"))
        if parts.path == "/":
            self.send_response(307)
            self.send_header("Location", f"{ROOT}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return self._answer(parts.path, parse_qs(parts.query).get("at", [""])[0])

    def _answer(self, path: str, written: str) -> None:
        run = self.run
        try:
            at = float(written) if written else run.end
        except ValueError:
            return self._send(422, {"detail": f"{written!r} is no moment"})
        known = {
            "/v1/queue": run.table, "/v1/holdings": run.holdings, "/v1/jobs": run.history,
            "/v1/load": run.load,
        }  # fmt: skip
        if path == "/v1/session":
            shown = [{"name": m.name, "title": m.title, "unit": m.unit} for m in run.metrics]
            who = {
                "user": run.name, "role": "run", "expires": None, "end": run.end, "metrics": shown,
                "titles": {} if run.named else {"node": "cluster"},
            }  # fmt: skip
            return self._send(200, who)
        if path not in known:
            return self._send(404, {"detail": "a run has no more than this"})
        return self._send(200, known[path](at))

    def _send_file(self, path: str) -> None:
        found = page_file(path)
        if found is None:
            return self._send(404, {"detail": f"there is no {path!r} in the dashboard"})
        body = found.body.replace(b"<html ", b"<html data-run ", 1)  # nobody logs in to a run
        return self._write(200, body, {**PAGE_HEADERS, "Content-Type": found.media_type})

    def _send(self, status: int, body: object) -> None:
        self._write(status, msgspec.json.encode(body), {"Content-Type": "application/json"})

    def _write(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are the page's own."""
