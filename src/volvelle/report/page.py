"""A self-contained HTML page: style, scripts, pictures and data are inside, nothing is fetched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from volvelle import __version__
from volvelle.report.charts.marks import Drawing
from volvelle.report.charts.palette import theme_css
from volvelle.report.charts.svg import to_svg

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; ``body`` is HTML whose texts are already escaped."""

    name: str
    title: str
    body: str


def write_page(
    path: Path,
    *,
    title: str,
    facts: Mapping[str, str],
    lead: str,
    sections: Sequence[Section],
    scripts: Sequence[str] = ("report.js",),
) -> Path:
    """Write the page; ``lead`` is HTML that stands before the sections, ``facts`` come last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(
        f'<section id="{s.name}"><h2>{escape(s.title)}</h2>{s.body}</section>' for s in sections
    )
    links = "".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in sections)
    text = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="generator" content="Volvelle {__version__}">'
        f"<title>{escape(title)}</title><style>{_style()}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>"
        f'<nav aria-label="Parts of this page">{links}</nav></header>'
        f"<main>{lead}{body}</main>{_facts(facts)}"
        f"{''.join(f'<script>{_asset(name)}</script>' for name in scripts)}</body></html>\n"
    )
    path.write_text(text, encoding="utf-8")
    return path


def figure(drawing: Drawing, name: str, caption: str = "") -> str:
    """The drawing with its caption; ``name`` is unique in the page."""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{to_svg(drawing, name)}{words}</figure>"


def tiles(figures: Mapping[str, str]) -> str:
    """The few numbers that one looks for first, large."""
    items = "".join(
        f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>"
        for name, value in figures.items()
    )
    return f'<ul class="tiles">{items}</ul>'


def listed(sentences: Iterable[str]) -> str:
    """Sentences one under the other."""
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def folded(summary: str, html: str) -> str:
    """A part of a page that is folded until a reader opens it by its ``summary``."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def note(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="note">{escape(text)}</p>'


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    entries = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f'<footer><h2>How this was made</h2><dl class="facts">{entries}</dl></footer>'


def _style() -> str:
    return theme_css() + _asset("report.css")


def _asset(name: str) -> str:
    return (files("volvelle.report") / "assets" / name).read_text(encoding="utf-8")
