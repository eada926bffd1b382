"""The documentation site: ``sphinx-build -W -c docs . site`` makes it from the Markdown that is here.

The pages are those of the repository, with the studies of ``experiments``; what they link to beside these
(programs, examples) goes to the site as files.
"""

import re
from typing import Any

from volvelle import __version__

project = "Volvelle"
copyright = "the authors of Volvelle"
release = __version__

root_doc = "docs/README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**",
    "experiments/**/*.md",
    "packages/**/README.md",
    "src/**/README.md",
]
exclude_patterns = ["docs/**/*.ipynb", "packages/*/src", "site"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = [
    "toc.not_included",  # the index links to every page, in prose
    "misc.highlighting_failure",  # what commands print is no program
]

html_theme = "furo"
html_title = "Volvelle"


def setup(app: Any) -> None:
    """What Sphinx calls first."""
    app.connect("source-read", _with_contents)


def _with_contents(app: Any, page: str, source: list[str]) -> None:
    """Give the index a table of contents for the side of all pages: its own links, under its own headings."""
    if page != root_doc:
        return
    for part in re.split(r"^\*\*", source[0], flags=re.MULTILINE)[1:]:
        pages = re.findall(r"\[([^\]]+)\]\(([^)#:]+)\.md\)", part)
        entries = "\n".join(f"{title} <{path}>" for title, path in dict.fromkeys(pages))
        caption = part.partition("**")[0].strip(":, ")
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"
