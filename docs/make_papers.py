"""The pages on papers: python docs/make_papers.py writes docs/papers.

The registry is ``experiments/PAPER/paper.toml``; figures come from the studies' pages and tables alone. A
test holds the pages in the repository against `made()`.
"""

from pathlib import Path

from volvelle.studies.pages import Claim, Results, counted, table, text, write_page
from volvelle.studies.registry import Registry

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "papers"
MADE = "<!-- Made by docs/make_papers.py; change experiments/*/paper.toml, then run it again. -->"

HEAD = """# Papers, and what is seen here

Each page has a paper's idea, what of it is built where, and every figure and table with its command, its
time, its pictures and its claims. *Holds* is what the study decided when it ran; where a claim does not hold,
the reason is given that a study tested, or it says that none was found. Pictures with the paper's figures
beside ours are of numbers that stand in its text, its tables or its artifact's data; Chronus and the
anticipatory paper give none for what is run here. `volvelle reproduce pcs --figure 7` runs the studies of a
figure anew and counts the cells that differ from the committed ones
([how, and what it needs](../how-to/reproduce-a-paper.md)). CPU times are those of the last run that was kept;
where there is none, none was measured."""

registry = Registry(ROOT)
results = Results(
    lambda study: registry.page(study).parent,
    lambda study: f"../../experiments/{study.folder}/results",
    "../..",
    registry.seconds,
)


def claims() -> dict[str, list[Claim]]:
    """The claims by paper."""
    return {
        paper.name: [claim for study in paper.studies for claim in results.claims(study)]
        for paper in registry.papers
    }


def index() -> str:
    """The first page: counts by paper."""
    found = claims()
    rows = [
        (
            f"[{paper.title}]({paper.name}.md)",
            str(len(paper.studies)),
            counted(found[paper.name]),
            str(sum(not one.holds and one.explained for one in found[paper.name])),
            str(sum(not one.explained for one in found[paper.name])),
            str(len(paper.untested)),
        )
        for paper in registry.papers
    ]
    heads = (
        "paper",
        "studies",
        "claims that hold",
        "reason tested",
        "no reason found",
        "no run decides",
    )
    return "\n\n".join((MADE, HEAD, table(heads, rows))) + "\n"


def made() -> dict[str, str]:
    """The pages by file name."""
    pages = {
        f"{paper.name}.md": f"{MADE}\n\n{text(paper, paper.studies, results, paper.name)}"
        for paper in registry.papers
    }
    return {"README.md": index(), **pages}


if __name__ == "__main__":
    for paper in registry.papers:
        write_page(paper, paper.studies, results, FOLDER / f"{paper.name}.md")
    for name, page in made().items():
        (FOLDER / name).write_text(page, encoding="utf-8")
