"""The documentation site: ``sphinx-build -W -c docs . site`` makes it from the Markdown that is here.

The pages are those of the repository, with the studies of ``experiments``; what they link to beside these
(programs, examples) goes to the site as files. Its home page is the first screen of README.md; notebooks are
shown with the outputs that they have (``docs/make_notebook.py``).
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.sphinx_ import Parser

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
    "tests/golden/README.md",
]
exclude_patterns = ["packages/*/src", "site"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
myst_heading_anchors = 4
suppress_warnings = [
    "toc.not_included",  # the index links to every page, in prose
    "misc.highlighting_failure",  # what commands print is no program
]

html_theme = "furo"
html_title = "Volvelle"
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))

_HOME = "README"
_INDEXES = (
    root_doc,
    *(f"docs/{folder}/README" for folder in ("how-to", "reference", "background")),
)
_DEVELOPERS = "**For those who change Volvelle**"
_FIRST_SCREEN_ENDS = "## A tour in five minutes"
_PEOPLE = """
## Where to go from here

- You submit jobs: [when will my job finish?](docs/how-to/submit-jobs.md),
  [a script that resumes](docs/how-to/make-a-script-preemptible.md),
  [a first live hour](docs/tutorial/first-live-hour.md).
- You run a cluster: [which policy would have been best for your jobs?](docs/how-to/bring-your-own-trace.md),
  [beside your Slurm](docs/tutorial/beside-slurm.md),
  [beside your Kueue](docs/how-to/attach-to-your-kueue.md),
  [a server of your own](docs/how-to/run-a-cluster.md).
- You study schedulers: [a policy in ten lines](docs/how-to/write-a-policy.md),
  [from the demo to a policy of yours](docs/tutorial/first-hour.md),
  [in a notebook](docs/how-to/work-in-a-notebook.ipynb),
  [papers reproduced](docs/papers/README.md).

[All of the documentation](docs/README.md), [glossary](docs/reference/glossary.md)
"""


def setup(app: Any) -> None:
    """What Sphinx calls first."""
    app.add_source_parser(_Notebook)
    app.connect("source-read", _with_contents)
    app.connect("source-read", _first_screen)
    app.connect("build-finished", _with_home)


class _Notebook(Parser):  # type: ignore[misc, unused-ignore]
    """A notebook as a page: its Markdown, its code, and the outputs that it has."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the Markdown that says the same."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(map(_cell, cells)), document)


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    shown = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        found = output.get("data", {"text/plain": output.get("text", "")})
        if "text/html" in found:
            shown.append(f"```{{raw}} html\n{''.join(found['text/html'])}\n```")
        elif "image/png" in found:
            shown.append(
                f'```{{raw}} html\n<img alt="" src="data:image/png;base64,{found["image/png"]}">\n```'
            )
        else:
            shown.append(f"```text\n{''.join(found['text/plain'])}\n```")
    return "\n\n".join(shown)


def _first_screen(app: Any, page: str, source: list[str]) -> None:
    if page == _HOME:
        source[0] = source[0].partition(_FIRST_SCREEN_ENDS)[0] + _PEOPLE


def _with_home(app: Any, error: Exception | None) -> None:
    """The home page has the name under which it is looked for."""
    if error is None and app.builder.format == "html":
        home = Path(app.outdir)
        (home / "index.html").write_bytes((home / f"{_HOME}.html").read_bytes())


def _with_contents(app: Any, page: str, source: list[str]) -> None:
    """Give an index a table of contents for the side of all pages: its links, but those for developers.

    On the first page a link to another index stands for all of its part.
    """
    if page not in _INDEXES:
        return
    for_users = source[0].partition(_DEVELOPERS)[0]
    for part in re.split(r"^\*\*", for_users, flags=re.MULTILINE)[1:]:
        pages = re.findall(r"\[([^\]]+)\]\(([^)#:]+)\.(?:md|ipynb)\)", part)
        if page == root_doc:
            pages = [one for one in pages if one[1].endswith("/README")] or pages
        entries = "\n".join(f"{title} <{path}>" for title, path in dict.fromkeys(pages))
        caption = part.partition("**")[0].strip(":, ")
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"
