"""Claims of a study: the rows "the paper, here, agrees" of its page, each with why it does not hold."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from volvelle.studies.registry import Study

_LINK = re.compile(r"\]\(([\w-]+\.md)\)")
_AGREES = {"yes": True, "**no**": False}
_UNKNOWN = "no reason"
"""The beginning of a reason that says that there is none."""


@dataclass(frozen=True)
class Claim:
    """A claim: what the paper says, what is seen, whether it holds, and why it does not."""

    paper: str
    seen: str
    holds: bool
    why: str

    @property
    def explained(self) -> bool:
        """Whether it holds, or the reason was found."""
        return self.holds or not self.why.startswith((_UNKNOWN, "not looked for", "none was found"))


def claims(study: Study, page: Path, folder: str) -> Iterator[Claim]:
    """The claims on a study's page, in order; links of reasons lead into ``folder``."""
    for line in page.read_text(encoding="utf-8").splitlines():
        paper, seen, agrees = (
            each.strip() for each in [*line.strip("|").split(" | "), "", "", ""][:3]
        )
        if agrees in _AGREES:
            holds = _AGREES[agrees]
            yield Claim(paper, seen, holds, "" if holds else _why(study, paper, folder))


def _why(study: Study, paper: str, folder: str) -> str:
    for beginning, why in study.why.items():
        if paper.startswith(beginning):
            return _LINK.sub(rf"]({folder}/\1)", why)
    return "no reason is registered"
