"""Pages on papers: idea, what is built where, and every figure with its command, time, picture and claims."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volvelle.report.charts import Drawing, write_png
from volvelle.studies.registry import Paper, Study

_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


_LINK = re.compile(r"\]\(([\w-]+\.md)\)")
_AGREES = {"yes": True, "**no**": False}
_UNKNOWN = "no reason"
"""The beginning of a reason that says that there is none."""


@dataclass(frozen=True)
class Claim:
    """A row "the paper, here, agrees" of a study's page: whether it holds, and why it does not."""

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


@dataclass(frozen=True)
class Results:
    """Where the studies' pages are.

    folder: of a study's page. link: the same, as seen from the paper's page.
    """

    folder: Callable[[Study], Path]
    link: Callable[[Study], str]
    repository: str
    """The root of the repository, as seen from the paper's page."""
    seconds: Mapping[str, float]
    """CPU seconds of studies by name, as far as known."""

    def claims(self, study: Study) -> list[Claim]:
        """The claims of a study."""
        return list(claims(study, self.folder(study) / f"{study.stem}.md", self.link(study)))


def write_page(paper: Paper, studies: Sequence[Study], results: Results, page: Path) -> None:
    """Write the page on a paper, and the pictures of its curves beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures(studies, results).items():
        write_png(picture, page.with_name(f"{page.stem}-{name}.png"))
    page.write_text(text(paper, studies, results, page.stem), encoding="utf-8")


def pictures(studies: Sequence[Study], results: Results) -> dict[str, Drawing]:
    """The curves of papers beside ours, by the name of the picture."""
    found = {}
    for study in studies:
        for number, curve in enumerate(study.curves, start=1):
            drawing = curve.drawing(results.folder(study) / f"{study.stem}.csv")
            if drawing is not None:
                found[f"{study.stem}-{number}"] = drawing
    return found


def text(paper: Paper, studies: Sequence[Study], results: Results, stem: str) -> str:
    """The page, in Markdown."""
    drawn = pictures(studies, results)
    parts = [f"# {paper.title}", f"{paper.reference}.", paper.idea.strip(), "## What is built here"]
    parts.append(table(("what", "where"), [(p.what, _code(p.where, results)) for p in paper.built]))
    parts += ["## Figures and tables", _overview(studies, results)]
    for study in studies:
        parts += _section(study, results, stem, drawn)
    if paper.untested:
        parts += [
            "## Not decided by a run",
            table(
                ("where", "the paper", "because"),
                [(u.where, u.paper, u.reason) for u in paper.untested],
            ),
        ]
    return "\n\n".join(parts) + "\n"


def counted(found: Sequence[Claim]) -> str:
    """How many claims hold, in words."""
    held = sum(one.holds for one in found)
    return f"{held} of {len(found)}"


def _overview(studies: Sequence[Study], results: Results) -> str:
    rows = []
    for study in studies:
        name = f"[{study.stem}]({results.link(study)}/{study.stem}.md)"
        time = took(results.seconds.get(study.name))
        rows.append(
            (study.where, name, counted(results.claims(study)), time, f"`{command(study)}`")
        )
    return table(("where", "study", "claims that hold", "CPU time", "command"), rows)


def command(study: Study) -> str:
    """The command that runs a study."""
    return f"volvelle reproduce --study {study.name}"


def _section(study: Study, results: Results, stem: str, drawn: dict[str, Drawing]) -> Iterator[str]:
    source = (results.folder(study) / f"{study.stem}.md").read_text(encoding="utf-8")
    title = source.partition("\n")[0].removeprefix("# ")
    measured = next((line for line in source.splitlines() if line.startswith("Measured: ")), "")
    yield f"### {title}"
    yield f"{measured} [Everything that was measured]({results.link(study)}/{study.stem}.md)."
    for number, curve in enumerate(study.curves, start=1):
        if f"{study.stem}-{number}" in drawn:
            yield f"![{curve.title}]({stem}-{study.stem}-{number}.png)"
    for name, file in _PICTURE.findall(source):
        yield f"![{name}]({results.link(study)}/{file})"
    found = results.claims(study)
    counts = Counter(one.why for one in found if one.why)
    shared = [why for why, count in counts.items() if count > 1]
    notes = {why: f"note {number}" for number, why in enumerate(shared, start=1)}
    rows = [
        (one.paper, one.seen, "yes" if one.holds else "**no**", notes.get(one.why, one.why))
        for one in found
    ]
    yield table(("the paper", "here", "holds", "why not"), rows)
    yield from (f"Note {number}: {why}." for number, why in enumerate(shared, start=1))


def _code(where: str, results: Results) -> str:
    return f"[{where}]({results.repository}/{where}/README.md)"


def took(seconds: float | None) -> str:
    """A CPU time in words; "" where none was measured."""
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rule = "|".join("---" for _ in heads)
    lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    first, *rest = lines
    return "\n".join((first, f"|{rule}|", *rest))
