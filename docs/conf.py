"""The documentation site: ``sphinx-build -W -c docs . site`` makes it from the Markdown that is here.

The pages are those of the repository, with the studies of ``experiments``; what they link to beside these
(programs, examples) goes to the site as files.
"""

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
    "src/**/README.md",
]
exclude_patterns = ["docs/**/*.ipynb", "site"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = [
    "toc.not_included",  # the index links to every page, in prose
    "misc.highlighting_failure",  # what commands print is no program
]

html_theme = "furo"
html_title = "Volvelle"
