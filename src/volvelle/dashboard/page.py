"""The files of the dashboard, with the headers under which a browser may run them.

Scripts and styles come from the server's own address only and none stands inside the page (content security
policy). Charts, colours and the Gantt chart are those of the reports.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from volvelle.dashboard.sentences import sentences_js
from volvelle.report.charts.palette import theme_css

ROOT = "/dashboard"
"""Where the page is served."""

PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'"
        ),
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_OF_REPORTS = ("report.css", "report.js", "gantt_marks.js", "gantt_controls.js", "gantt.js")


@dataclass(frozen=True)
class PageFile:
    """A file, its type, and its entity tag."""

    body: bytes
    media_type: str
    etag: str


def page_file(path: str) -> PageFile | None:
    """The file at ``path`` below the page, "" for the page itself; None if there is none."""
    return _files().get(path or "index.html")


@cache
def _files() -> Mapping[str, PageFile]:
    """All files by path."""
    own = files("volvelle.dashboard") / "assets"
    found = {each.name: each.read_bytes() for each in own.iterdir()}
    reports = files("volvelle.report") / "assets"
    found |= {f"report/{name}": (reports / name).read_bytes() for name in _OF_REPORTS}
    found["theme.css"] = theme_css().encode()
    found["sentences.js"] = sentences_js().encode()
    return {name: _page_file(name, body) for name, body in found.items()}


def _page_file(name: str, body: bytes) -> PageFile:
    digest = hashlib.sha256(body).hexdigest()[:20]
    return PageFile(body, _TYPES[name.rpartition(".")[2]], f'"{digest}"')
